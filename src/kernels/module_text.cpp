// Writes the WGSL of a bound kernel: declarations and accessors before the kernel's own source.
#include <algorithm>
#include <functional>

#include "base/checked.h"
#include "base/format.h"
#include "encodings/encoding.h"
#include "kernels/binder.h"
#include "kernels/fragment.h"
#include "kernels/rename.h"

namespace rlx {
namespace {

std::string_view element_text(Element e) {
  switch (e) {
    case Element::f32:
      return "f32";
    case Element::f16:
      return "f16";
    case Element::i32:
      return "i32";
    case Element::u32:
      return "u32";
    case Element::vec2f:
      return "vec2f";
    case Element::vec4f:
      return "vec4f";
    case Element::vec4h:
      return "vec4<f16>";
    case Element::word:
      return "u32";
    case Element::atomic_word:
      return "atomic<u32>";
    case Element::atomic_i32:
      return "atomic<i32>";
  }
  return "";
}

std::string_view value_type(DType dtype, OperandDecl::Kind kind) {
  return kind == OperandDecl::Kind::int_ ? "i32" : wgsl_type(dtype);
}

// The value as an operand of this kind has it: those declared `int` are i32.
std::string as_kind(const std::string& value, DType dtype, OperandDecl::Kind kind) {
  if (kind != OperandDecl::Kind::int_ || value_type(dtype, OperandDecl::Kind::any) == "i32") return value;
  return "i32(" + value + ")";
}

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

class OperandWriter {
 public:
  OperandWriter(const Kernel& kernel, const Pattern& pattern, size_t index)
      : kernel_(kernel),
        pattern_(pattern),
        decl_(kernel.operands[index]),
        p_(pattern.operands[index]),
        element_(p_.present ? pattern.bindings[static_cast<size_t>(p_.first_binding)].element : Element::f32),
        x_(decl_.name) {}

  void members(std::string& out) const {
    for_each_view_word(decl_, p_, [&](const ViewWord& w) { out += formatted("  {}: u32,\n", member(w)); });
  }

  void accessors(std::string& out) const {
    const std::string_view type = value_type(p_.dtype, decl_.kind);
    out += formatted("const {}_present: bool = {};\nalias {}_t = {};\n", x_, p_.present, x_, type);
    if (!p_.present) {
      absent(out);
      return;
    }
    if (is_encoded(p_.dtype)) {
      decoding(out);
    } else {
      if (!decl_.out || reads()) get(out);
      if (decl_.x4) get4(out);
    }
    for (const WalkPart part : kWalkParts) {
      if (calls_walk(decl_, part)) walk(out, part);
    }
    if (decl_.calls.at)
      out += formatted("fn {0}_at(i: u32) -> {0}_t {{ return {0}_get({0}_flat(i)); }}\n", x_);
    if (decl_.calls.has) has(out);
    if (decl_.out) put(out);
    if (decl_.atomic) atomics(out);
    if (decl_.calls.from_bits) from_bits(out, type);
  }

 private:
  bool reads() const { return decl_.calls.get || decl_.calls.at; }

  // Of the struct `views`.
  std::string member(const ViewWord& w) const {
    static constexpr std::string_view kNames[] = {"offset", "start", "window_begin", "window_length"};
    static constexpr std::string_view kParts[] = {"outer", "inner", "flat"};
    if (w.kind < ViewWord::Kind::dim) return formatted("{}_{}", x_, kNames[static_cast<size_t>(w.kind)]);
    return formatted("{}_{}_{}{}", x_, kParts[static_cast<size_t>(w.part)],
                     w.kind == ViewWord::Kind::dim ? "d" : "s", w.axis);
  }

  void absent(std::string& out) const {
    const std::string zero = x_ + "_t()";
    out += formatted("fn {0}_get(p: u32) -> {0}_t {{ return {1}; }}\n", x_, zero);
    if (decl_.x4) out += formatted("fn {0}_get4(p: u32) -> vec4<{0}_t> {{ return vec4<{0}_t>(); }}\n", x_);
    for (std::string_view f : {"base", "step", "flat"}) {
      out += formatted("fn {}_{}(i: u32) -> u32 {{ return 0u; }}\n", x_, f);
    }
    out += formatted("fn {0}_at(i: u32) -> {0}_t {{ return {1}; }}\n", x_, zero);
    if (decl_.calls.has) has(out);
    if (decl_.out) out += formatted("fn {0}_put(p: u32, v: {0}_t) {{}}\n", x_);
    if (decl_.out && decl_.x4) out += formatted("fn {0}_put4(p: u32, v: vec4<{0}_t>) {{}}\n", x_);
    for (std::string_view f : {"add", "min", "max", "exchange"}) {
      if (decl_.atomic) out += formatted("fn {0}_{1}(p: u32, v: {0}_t) -> {0}_t {{ return v; }}\n", x_, f);
    }
  }

  // Strides are added modulo 2^32, so a negative one counts backwards.
  void walk(std::string& out, WalkPart part) const {
    static constexpr std::string_view kFunctions[] = {"base", "step", "flat"};
    const WalkPattern& w = p_.walk(part);
    out += formatted("fn {}_{}(i: u32) -> u32 {{\n", x_, kFunctions[static_cast<size_t>(part)]);
    if (w.rank == 0) {
      out += "  return 0u;\n}\n";
      return;
    }
    const auto number = [&](ViewWord::Kind kind, int axis) { return "views." + member({kind, part, axis}); };
    const auto stride = [&](int axis) {
      return w.unit && axis == w.rank - 1 ? std::string() : " * " + number(ViewWord::Kind::stride, axis);
    };
    if (w.rank == 1) {
      out += formatted("  return i{};\n}}\n", stride(0));
      return;
    }
    out += "  var rest = i;\n  var p = 0u;\n";
    for (int axis = w.rank - 1; axis > 0; --axis) {
      out += formatted("  let q{0} = rest / {1};\n  p += (rest - q{0} * {1}){2};\n  rest = q{0};\n", axis,
                       number(ViewWord::Kind::dim, axis), stride(axis));
    }
    out += formatted("  return p + rest{};\n}}\n", stride(0));
  }

  void has(std::string& out) const {
    out += formatted(
        "fn {0}_has(p: u32) -> bool {{ return {1}; }}\n", x_,
        p_.windowed ? formatted("(p - views.{0}_window_begin) < views.{0}_window_length", x_) : "true");
  }

  void from_bits(std::string& out, std::string_view type) const {
    const std::string value = type == "bool"    ? "bits != 0u"
                              : type == "vec2f" ? "vec2f(bitcast<f32>(bits), 0.0)"
                                                : formatted("bitcast<{}>(bits)", type);
    out += formatted("fn {0}_from_bits(bits: u32) -> {0}_t {{ return {1}; }}\n", x_, value);
  }

  // The size of one array element of the binding.
  int64_t element_bytes() const {
    switch (element_) {
      case Element::f16:
        return 2;
      case Element::vec2f:
      case Element::vec4h:
        return 8;
      case Element::vec4f:
        return 16;
      default:
        return 4;
    }
  }

  bool is_atomic() const { return element_ == Element::atomic_word || element_ == Element::atomic_i32; }
  // The type of an array element's value.
  std::string_view raw_type() const {
    return element_ == Element::atomic_i32 ? "i32" : is_atomic() ? "u32" : element_text(element_);
  }

  // An expression that reads element `index` of a binding's array.
  std::string load(const std::string& binding, const std::string& index) const {
    const std::string at = formatted("{}[{}]", binding, index);
    return is_atomic() ? "atomicLoad(&" + at + ")" : at;
  }

  // fn x_raw(i) reads one array element of the binding(s).
  void raw(std::string& out) const {
    out += formatted("fn {}_raw(i: u32) -> {} {{\n", x_, raw_type());
    out += in_segment("i", [&](int b, std::string_view i) {
      return formatted("return {};", load(formatted("buf{}", b), std::string(i)));
    });
    out += "}\n";
  }

  // fn x_raw_set(i, v) writes one array element.
  void raw_set(std::string& out) const {
    out += formatted("fn {}_raw_set(i: u32, v: {}) {{\n", x_, raw_type());
    const auto store = [&](int binding, std::string_view index) {
      if (is_atomic()) return formatted("atomicStore(&buf{}[{}], v);", binding, index);
      return formatted("buf{}[{}] = v;", binding, index);
    };
    out += in_segment("i", store) + "}\n";
  }

  bool packed() const {
    return device_bytes(p_.dtype) < 4 && element_ != Element::f16 && element_ != Element::vec4h;
  }
  int64_t per_word() const { return packed() ? 4 / static_cast<int64_t>(device_bytes(p_.dtype)) : 1; }

  // The value of element e (0 .. per_word) of a word.
  std::string decode(const std::string& word, const std::string& e) const {
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

  // The bits of a value, in the low end of a word.
  std::string encode(const std::string& v) const {
    const std::string natural =
        decl_.kind == OperandDecl::Kind::int_ && p_.dtype == DType::bool_ ? v + " != 0" : v;
    switch (p_.dtype) {
      case DType::f16:
        return formatted("f16_bits({})", v);
      case DType::bf16:
        return formatted("bf16_bits({})", v);
      case DType::i8:
      case DType::u8:
        return formatted("(u32({}) & 0xffu)", v);
      case DType::bool_:
        return formatted("select(0u, 1u, {})", natural);
      default:
        return formatted("bitcast<u32>({})", v);
    }
  }

  bool is_words() const { return element_ == Element::word || element_ == Element::atomic_word; }

  // The value at position q of the binding's elements (offset included).
  std::string read(const std::string& q) const {
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

  void get(std::string& out) const {
    raw(out);
    out += formatted("fn {0}_get(p: u32) -> {0}_t {{\n  let q = views.{0}_offset + p;\n  return {1};\n}}\n",
                     x_, read("q"));
  }

  // Everything that reads an encoded operand.
  void decoding(std::string& out) const {
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

  void get4(std::string& out) const {
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

  void put(std::string& out) const {
    const bool by_words = kernel_.flat && !decl_.atomic;  // which is no place for element(i)
    if (!reads() && !decl_.x4 && pattern_.partial) raw(out);
    if (packed() && !by_words) {
      put_atomic(out);
      if (decl_.x4) raw_set(out);
    } else {
      raw_set(out);
      if (!packed()) put_plain(out);
    }
    if (decl_.x4) put4(out);
    if (by_words) store_words(out);
  }

  // The statements that `body(binding, index)` makes, for the segment in which array element `index` lies.
  std::string in_segment(std::string_view index,
                         const std::function<std::string(int, std::string_view)>& body) const {
    const int b = p_.first_binding;
    if (p_.segments == 1) return formatted("  {}\n", body(b, index));
    const int64_t per_segment = pattern_.segment_bytes / element_bytes();
    std::string out = formatted("  let j = {0} % {1}u;\n  switch {0} / {1}u {{\n", index, per_segment);
    for (int s = 1; s < p_.segments; ++s) out += formatted("    case {}u: {{ {} }}\n", s, body(b + s, "j"));
    return out + formatted("    default: {{ {} }}\n  }}\n", body(b, "j"));
  }

  // y_add and the like: WGSL's own atomics where the binding has integers of that type, else a
  // compare-and-swap loop on the word that holds the element.
  void atomics(std::string& out) const {
    struct Function {
      std::string_view name, native, integers, floats, bools;
      bool called;
    };
    const Function functions[] = {
        {"add", "atomicAdd", "was + v", "was + v", "was || v", decl_.calls.add},
        {"min", "atomicMin", "min(was, v)", "min_nan(was, v)", "was && v", decl_.calls.min},
        {"max", "atomicMax", "max(was, v)", "max_nan(was, v)", "was || v", decl_.calls.max},
        {"exchange", "atomicExchange", "v", "v", "v", decl_.calls.exchange},
    };
    const std::string_view type = value_type(p_.dtype, decl_.kind);
    const bool native =
        !packed() && (element_ == Element::atomic_i32 || p_.dtype == DType::u32) && raw_type() == type;
    if (!native) {
      if (!reads() && !pattern_.partial) raw(out);
      out += formatted("fn {}_swap(i: u32, old: {}, new_word: {}) -> vec2<{}> {{\n", x_, raw_type(),
                       raw_type(), raw_type());
      out += in_segment("i", [&](int b, std::string_view i) {
        return formatted(
            "let r = atomicCompareExchangeWeak(&buf{}[{}], old, new_word); return vec2<{}>(r.old_value, "
            "select({}(0), {}(1), "
            "r.exchanged));",
            b, i, raw_type(), raw_type(), raw_type());
      });
      out += "}\n";
    }
    for (const Function& f : functions) {
      if (!f.called) continue;
      out += formatted("fn {0}_{1}(p: u32, v: {0}_t) -> {0}_t {{\n  let q = views.{0}_offset + p;\n", x_,
                       f.name);
      if (native) {
        out += in_segment("q", [&](int b, std::string_view i) {
          return formatted("return {}(&buf{}[{}], v);", f.native, b, i);
        });
        out += "}\n";
        continue;
      }
      const int64_t n = per_word();
      const int64_t bits = 32 / n;
      const std::string shift = formatted("({}u * (q % {}u))", bits, n);
      const std::string was =
          as_kind(decode("old", n == 1 ? "0u" : formatted("(q % {}u)", n)), p_.dtype, decl_.kind);
      const std::string word = n == 1 ? encode("now")
                                      : formatted("((old & ~({0}u << {1})) | ({2} << {1}))",
                                                  bits == 8 ? 255 : 65535, shift, encode("now"));
      out += formatted(
          "  let w = q / {0}u;\n  var old = {1}_raw(w);\n  loop {{\n    let was = {2};\n    let now = "
          "{1}_t({3});\n"
          "    let r = {1}_swap(w, old, {4});\n    if (r.y == 1u) {{ break; }}\n    old = r.x;\n  "
          "}}\n  return {2};\n}}\n",
          n, x_, was,
          type == "bool"  ? f.bools
          : type == "f32" ? f.floats
                          : f.integers,
          word);
    }
  }

  // Other elements of the word belong to other invocations: only this element's bits are cleared and set.
  void put_atomic(std::string& out) const {
    const int64_t n = per_word();
    const int64_t bits = 32 / n;
    out += formatted(
        "fn {0}_put(p: u32, v: {0}_t) {{\n  let q = views.{0}_offset + p;\n  let shift = {1}u * (q % "
        "{2}u);\n",
        x_, bits, n);
    out += formatted("  let bits = {} << shift;\n  let mask = {}u << shift;\n", encode("v"),
                     bits == 8 ? 255 : 65535);
    const auto update = [&](int b, std::string_view i) {
      return formatted("atomicAnd(&buf{0}[{1}], ~mask); atomicOr(&buf{0}[{1}], bits);", b, i);
    };
    out += formatted("  let w = q / {}u;\n", n) + in_segment("w", update) + "}\n";
  }

  // v as the binding's element type.
  std::string as_element(const std::string& v) const {
    switch (element_) {
      case Element::word:
      case Element::atomic_word:
        return encode(v);
      case Element::f16:
        return formatted("f16({})", v);
      default:
        return v;
    }
  }

  void put_plain(std::string& out) const {
    out += formatted("fn {0}_put(p: u32, v: {0}_t) {{\n  let q = views.{0}_offset + p;\n", x_);
    if (p_.dtype == DType::c64 && is_words()) {
      out += formatted(
          "  {0}_raw_set(2u * q, bitcast<u32>(v.x));\n  {0}_raw_set(2u * q + 1u, bitcast<u32>(v.y));\n", x_);
    } else if (element_ == Element::vec4f || element_ == Element::vec4h) {
      // No other invocation writes to the same vector: kernels that declare x4 guarantee it.
      const std::string_view value = element_ == Element::vec4h ? "f16(v)" : "v";
      out += "  let w = q / 4u;\n";
      out += in_segment(
          "w", [&](int b, std::string_view i) { return formatted("buf{}[{}][q % 4u] = {};", b, i, value); });
    } else {
      out += formatted("  {}_raw_set(q, {});\n", x_, as_element("v"));
    }
    out += "}\n";
  }

  void put4(std::string& out) const {
    out += formatted("fn {0}_put4(p: u32, v: vec4<{0}_t>) {{\n", x_);
    if (element_ == Element::vec4f || element_ == Element::vec4h) {
      out +=
          formatted("  {0}_raw_set((views.{0}_offset + p) / 4u, {1}(v));\n}}\n", x_, element_text(element_));
    } else if (packed() && (p_.aligned4 || kernel_.flat)) {
      // Whole words: no other invocation writes to them.
      const int64_t n = per_word();
      out += formatted("  let w = (views.{}_offset + p) / {}u;\n", x_, n);
      for (int64_t word = 0; word < 4 / n; ++word) {
        std::string bits;
        for (int64_t e = 0; e < n; ++e) {
          const std::string one = formatted("v[{}]", word * n + e);
          bits += formatted("{}({} << {}u)", e ? " | " : "", encode(one), e * 32 / n);
        }
        out += formatted("  {}_raw_set(w + {}u, {});\n", x_, word, bits);
      }
      out += "}\n";
    } else {
      out += formatted("  {0}_put(p, v.x); {0}_put(p + 1u, v.y);\n", x_);
      out += formatted("  {0}_put(p + 2u, v.z); {0}_put(p + 3u, v.w);\n}}\n", x_);
    }
  }

  // One invocation writes all elements of a word, so that no bits of a neighbour are lost.
  void store_words(std::string& out) const {
    const int64_t n = per_word();
    out += formatted("const {}_pack: u32 = {}u;\n", x_, n);
    out += formatted("fn {}_store(first: u32) {{\n", x_);
    if (n == 1) {
      if (pattern_.partial) {
        out += formatted("  if (owns(first)) {{ {}_put(first, element(first)); }}\n}}\n", x_);
      } else {
        out += formatted("  {}_put(first, element(first));\n}}\n", x_);
      }
      return;
    }
    const int64_t bits = 32 / n;
    const std::string mask = bits == 8 ? "255u" : "65535u";
    out += formatted("  let w = (views.{}_offset + first) / {}u;\n", x_, n);
    out += pattern_.partial ? formatted("  var word = {}_raw(w);\n", x_) : "  var word = 0u;\n";
    out += formatted("  for (var e = 0u; e < {}u; e++) {{\n    let i = first + e;\n", n);
    out += formatted("    if (i < flat_count(){}) {{\n", pattern_.partial ? " && owns(i)" : "");
    out += formatted("      word = (word & ~({0} << ({1}u * e))) | ({2} << ({1}u * e));\n    }}\n  }}\n",
                     mask, bits, encode("element(i)"));
    out += formatted("  {}_raw_set(w, word);\n}}\n", x_);
  }

  const Kernel& kernel_;
  const Pattern& pattern_;
  const OperandDecl& decl_;
  const OperandPattern& p_;
  Element element_;
  std::string x_;
};

// The source with the chosen values of its spec constants.
std::string with_specs(const Kernel& kernel, const SpecList& specs) {
  for (const SpecValue& s : specs) {
    check(std::ranges::contains(kernel.specs, s.name, &SpecDecl::name),
          "a spec constant is in the kernel source");
  }
  std::string source;
  size_t at = 0;
  for (const SpecDecl& decl : kernel.specs) {
    const auto given = std::ranges::find(specs, decl.name, &SpecValue::name);
    source.append(kernel.source, at, decl.begin - at);
    source += given == specs.end() ? decl.value : given->wgsl();
    at = decl.end;
  }
  return source.append(kernel.source, at);
}

}  // namespace

std::string module_text(const Kernel& kernel, const Pattern& pattern) {
  std::string out = "// " + kernel.name + "\n";
  if (pattern.f16 && !std::ranges::contains(kernel.enables, "f16")) out += "enable f16;\n";
  for (const std::string& extension : kernel.enables) out += formatted("enable {};\n", extension);
  std::string views = "struct Views {\n";
  for (const std::string_view word : kViewsHead) views += formatted("  {}: u32,\n", word);
  std::string accessors;
  for (size_t i = 0; i < kernel.operands.size(); ++i) {
    const OperandWriter writer(kernel, pattern, i);
    writer.members(views);
    writer.accessors(accessors);
  }
  out += views + "}\n@group(0) @binding(0) var<uniform> views: Views;\n";
  if (kernel.params_bytes > 0) out += "@group(0) @binding(1) var<uniform> params: Params;\n";
  for (size_t i = 0; i < pattern.bindings.size(); ++i) {
    const BindingPattern& b = pattern.bindings[i];
    out += formatted("@group(0) @binding({}) var<storage, {}> buf{}: array<{}>;\n", i + 2,
                     b.writable ? "read_write" : "read", i, element_text(b.element));
  }
  const std::string own = "//# accessors 1\n" + accessors + with_specs(kernel, pattern.specs);
  return out + needed_declarations(kernel, own) + own;
}

std::string default_module_text(const KernelPtr& kernel, DType encoding) {
  Dispatch d;
  d.kernel = kernel;
  d.groups = 1;
  std::vector<Placement> placements;
  for (const OperandDecl& decl : kernel->operands) {
    Operand o;
    o.storage = static_cast<int32_t>(placements.size());
    o.dtype = decl.kind == OperandDecl::Kind::int_      ? DType::i32
              : decl.kind == OperandDecl::Kind::encoded ? encoding
                                                        : DType::f32;
    o.view = View::contiguous({2, 2 * block_elements(o.dtype)});
    o.outer_rank = 1;
    d.operands.push_back(o);
    placements.push_back({static_cast<int32_t>(placements.size()), 0, 256});
  }
  Caps caps;
  caps.max_storage_buffers = 16;
  return module_text(*kernel, bind_dispatch(d, placements, caps)[0].pattern);
}

}  // namespace rlx
