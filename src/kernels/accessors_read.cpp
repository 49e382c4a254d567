// Accessors that read: an element or four neighbours, of any storage type or encoding.
#include "base/format.h"
#include "encodings/encoding.h"
#include "kernels/accessors.h"
#include "kernels/rename.h"

namespace rlx {
namespace {

// What the WGSL of an encoding may call besides x_word(i), word i of the storage: the word where block i
// begins, and for those that lie in pairs or fours the f16 or the byte that stands before all of them.
constexpr std::string_view kBlocks = "fn x_block(i: u32) -> u32 { return x_STRIDE * i; }\n";
constexpr std::string_view kPairedBlocks = R"(
fn x_half(i: u32) -> f32 { return unpack2x16float(x_word(x_STRIDE * (i / 2u)) >> (16u * (i % 2u))).x; }
fn x_block(i: u32) -> u32 { return x_STRIDE * (i / 2u) + 1u + x_STRIDE / 2u * (i % 2u); }
)";
constexpr std::string_view kBlocksInFours = R"(
fn x_byte(i: u32) -> u32 { return (x_word(x_STRIDE * (i / 4u)) >> (8u * (i % 4u))) & 255u; }
fn x_block(i: u32) -> u32 { return x_STRIDE * (i / 4u) + 1u + x_STRIDE / 4u * (i % 4u); }
)";
std::string_view blocks_of(const Encoding& e) {
  if (e.apart_bytes() == 0) return kBlocks;
  return e.apart_bytes() == 1 ? kBlocksInFours : kPairedBlocks;
}

constexpr std::string_view kGroupAccessors = R"(
fn x_group(p: u32) -> x_Group { return x_group_at((views.x_offset + p) / x_GROUP); }
fn x_get(p: u32) -> f32 {
  let q = views.x_offset + p;
  return x_group_four(x_group_at(q / x_GROUP), q % x_GROUP / 4u)[q % 4u];
}
)";
// For encodings that have x_eighth: a word for each of eight lanes, which the bits of a lane's number move on
// by s4, s2 and s1.
constexpr std::string_view kEighths = R"(
fn x_eight(at: u32, s4: u32, s2: u32, s1: u32, lane: u32) -> u32 {
  return x_word(at + s4 * (lane >> 2u) + s2 * ((lane >> 1u) & 1u) + s1 * (lane & 1u));
}
)";
constexpr std::string_view kGetEighth = R"(
fn x_get_eighth(p: u32, lane: u32) -> array<vec4f, 8> { return x_eighth((views.x_offset + p) / 256u, lane); }
fn x_get_factors(p: u32, lane: u32) -> vec4f { return x_eighth_factors((views.x_offset + p) / 256u, lane); }
)";

constexpr std::string_view kGetFour = R"(
fn x_get4(p: u32) -> vec4f {
  let q = views.x_offset + p;
  return x_group_four(x_group_at(q / x_GROUP), q % x_GROUP / 4u);
}
)";
constexpr std::string_view kGetFourUnaligned =
    "fn x_get4(p: u32) -> vec4f { return vec4f(x_get(p), x_get(p + 1u), x_get(p + 2u), x_get(p + 3u)); }\n";

}  // namespace

std::string AccessorWriter::load(const std::string& binding, const std::string& index) const {
  const std::string at = formatted("{}[{}]", binding, index);
  return is_atomic() ? "atomicLoad(&" + at + ")" : at;
}

std::string AccessorWriter::decode(const std::string& word, const std::string& e) const {
  switch (p_.dtype) {
    case DType::f16:
      return formatted("unpack2x16float({})[{}]", word, e);
    case DType::bf16:
      return formatted("bitcast<f32>(({} >> (16u * {})) << 16u)", word, e);
    case DType::i8:
      return formatted("extractBits(bitcast<i32>({}), 8u * {}, 8u)", word, e);
    case DType::u8:
      return formatted("extractBits({}, 8u * {}, 8u)", word, e);
    case DType::bool_:
      return formatted("(extractBits({}, 8u * {}, 8u) != 0u)", word, e);
    case DType::f32:
      return formatted("bitcast<f32>({})", word);
    case DType::i32:
    case DType::i64:
      return formatted("bitcast<i32>({})", word);
    default:
      return word;
  }
}

std::string AccessorWriter::read(const std::string& q) const {
  std::string value;
  if (p_.dtype == DType::c64 && is_words()) {
    return formatted("vec2f(bitcast<f32>({0}_raw(2u * ({1}))), bitcast<f32>({0}_raw(2u * ({1}) + 1u)))", x_,
                     q);
  }
  if (is_words()) {
    const int64_t n = per_word();
    value = n == 1 ? decode(formatted("{}_raw({})", x_, q), "0u")
                   : decode(formatted("{}_raw(({}) / {}u)", x_, q, n), formatted("(({}) % {}u)", q, n));
  } else if (element_ == Element::vec4f || element_ == Element::vec4h) {
    value = formatted("f32({0}_raw(({1}) / 4u)[({1}) % 4u])", x_, q);
  } else if (element_ == Element::f16) {
    value = formatted("f32({}_raw({}))", x_, q);
  } else {
    value = formatted("{}_raw({})", x_, q);
  }
  return as_kind(value, p_.dtype, decl_.kind);
}

void AccessorWriter::get(std::string& out) const {
  raw(out);
  out += formatted("fn {0}_get(p: u32) -> {0}_t {{\n  let q = views.{0}_offset + p;\n  return {1};\n}}\n", x_,
                   read("q"));
}

void AccessorWriter::decoding(std::string& out) const {
  const Encoding& e = encoding_of(p_.dtype);
  raw(out);
  out += formatted("fn {0}_word(i: u32) -> u32 {{ return {0}_raw(views.{0}_start + i); }}\n", x_);
  out += formatted("const {}_STRIDE: u32 = {}u;  // words from blocks that lie together to the next\n", x_,
                   e.device_bytes(e.device_blocks()) / 4);
  out += for_operand(blocks_of(e), x_);
  out += formatted("const {}_GROUP: u32 = {}u;\n", x_, e.group_elements);
  const bool eighths = e.wgsl.contains("fn x_eighth(");
  if (eighths) out += for_operand(kEighths, x_);
  out += for_operand(e.wgsl, x_) + for_operand(kGroupAccessors, x_);
  if (eighths) out += for_operand(kGetEighth, x_);
  if (!decl_.x4) return;
  out += for_operand(p_.aligned4 ? kGetFour : kGetFourUnaligned, x_);
}

void AccessorWriter::get4(std::string& out) const {
  if (decl_.out && !reads()) raw(out);
  out += formatted("fn {0}_get4(p: u32) -> vec4<{0}_t> {{\n  let q = views.{0}_offset + p;\n", x_);
  if (element_ == Element::vec4f || element_ == Element::vec4h) {
    out += formatted("  return vec4f({}_raw(q / 4u));\n}}\n", x_);
  } else if (packed() && p_.aligned4) {
    // Whole words: each is read once.
    const int64_t n = per_word();
    out += formatted("  let w = q / {}u;\n", n);
    for (int64_t word = 0; word < 4 / n; ++word)
      out += formatted("  let w{0} = {1}_raw(w + {0}u);\n", word, x_);
    std::string values;
    for (int64_t e = 0; e < 4; ++e) {
      const std::string value = decode(formatted("w{}", e / n), formatted("{}u", e % n));
      values += (e ? ", " : "") + as_kind(value, p_.dtype, decl_.kind);
    }
    out += formatted("  return vec4<{}_t>({});\n}}\n", x_, values);
  } else {
    out += formatted("  return vec4<{}_t>({}, {}, {}, {});\n}}\n", x_, read("q"), read("q + 1u"),
                     read("q + 2u"), read("q + 3u"));
  }
}

}  // namespace rlx
