// Accessors that write: an element, four neighbours or the elements of a word, and those that change an
// element atomically.
#include "base/format.h"
#include "kernels/accessors.h"

namespace rlx {

std::string AccessorWriter::encode(const std::string& v) const {
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

void AccessorWriter::put(std::string& out) const {
  const bool by_words = kernel_.flat && !decl_.atomic;  // which is no place for element(i)
  if (!reads() && !decl_.x4 && pattern_.partial) raw(out);
  if (packed() && is_atomic()) {
    put_atomic(out);
    if (decl_.x4) raw_set(out);
  } else {
    raw_set(out);
    if (!packed()) put_plain(out);
  }
  if (decl_.x4) put4(out);
  if (by_words) store_words(out);
}

void AccessorWriter::atomics(std::string& out) const {
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
    out += formatted("fn {}_swap(i: u32, old: {}, new_word: {}) -> vec2<{}> {{\n", x_, raw_type(), raw_type(),
                     raw_type());
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
    out +=
        formatted("fn {0}_{1}(p: u32, v: {0}_t) -> {0}_t {{\n  let q = views.{0}_offset + p;\n", x_, f.name);
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
void AccessorWriter::put_atomic(std::string& out) const {
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

std::string AccessorWriter::as_element(const std::string& v) const {
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

void AccessorWriter::put_plain(std::string& out) const {
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

void AccessorWriter::put4(std::string& out) const {
  out += formatted("fn {0}_put4(p: u32, v: vec4<{0}_t>) {{\n", x_);
  if (element_ == Element::vec4f || element_ == Element::vec4h) {
    out += formatted("  {0}_raw_set((views.{0}_offset + p) / 4u, {1}(v));\n}}\n", x_, element_text(element_));
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
void AccessorWriter::store_words(std::string& out) const {
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
  out += formatted("      word = (word & ~({0} << ({1}u * e))) | ({2} << ({1}u * e));\n    }}\n  }}\n", mask,
                   bits, encode("element(i)"));
  out += formatted("  {}_raw_set(w, word);\n}}\n", x_);
}

}  // namespace rlx
