// Accessors, what all operands have: names in the struct `views`, walks over a view, and the elements of a
// binding's array, which may lie in several segments.
#include "kernels/accessors.h"

#include "base/format.h"

namespace rlx {

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

std::string as_kind(const std::string& value, DType dtype, OperandDecl::Kind kind) {
  if (kind != OperandDecl::Kind::int_ || value_type(dtype, OperandDecl::Kind::any) == "i32") return value;
  return "i32(" + value + ")";
}

AccessorWriter::AccessorWriter(const Kernel& kernel, const Pattern& pattern, size_t index)
    : kernel_(kernel),
      pattern_(pattern),
      decl_(kernel.operands[index]),
      p_(pattern.operands[index]),
      element_(p_.present ? pattern.bindings[static_cast<size_t>(p_.first_binding)].element : Element::f32),
      x_(decl_.name) {}

void AccessorWriter::members(std::string& out) const {
  for_each_view_word(decl_, p_, [&](const ViewWord& w) { out += formatted("  {}: u32,\n", member(w)); });
}

void AccessorWriter::accessors(std::string& out) const {
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
  if (decl_.calls.at) out += formatted("fn {0}_at(i: u32) -> {0}_t {{ return {0}_get({0}_flat(i)); }}\n", x_);
  if (decl_.calls.has) has(out);
  if (decl_.out) put(out);
  if (decl_.atomic) atomics(out);
  if (decl_.calls.from_bits) from_bits(out, type);
}

std::string AccessorWriter::member(const ViewWord& w) const {
  static constexpr std::string_view kNames[] = {"offset", "start", "window_begin", "window_length"};
  static constexpr std::string_view kParts[] = {"outer", "inner", "flat"};
  if (w.kind < ViewWord::Kind::dim) return formatted("{}_{}", x_, kNames[static_cast<size_t>(w.kind)]);
  return formatted("{}_{}_{}{}", x_, kParts[static_cast<size_t>(w.part)],
                   w.kind == ViewWord::Kind::dim ? "d" : "s", w.axis);
}

void AccessorWriter::absent(std::string& out) const {
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
void AccessorWriter::walk(std::string& out, WalkPart part) const {
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

void AccessorWriter::has(std::string& out) const {
  out += formatted(
      "fn {0}_has(p: u32) -> bool {{ return {1}; }}\n", x_,
      p_.windowed ? formatted("(p - views.{0}_window_begin) < views.{0}_window_length", x_) : "true");
}

void AccessorWriter::from_bits(std::string& out, std::string_view type) const {
  const std::string value = type == "bool"    ? "bits != 0u"
                            : type == "vec2f" ? "vec2f(bitcast<f32>(bits), 0.0)"
                                              : formatted("bitcast<{}>(bits)", type);
  out += formatted("fn {0}_from_bits(bits: u32) -> {0}_t {{ return {1}; }}\n", x_, value);
}

int64_t AccessorWriter::element_bytes() const {
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

std::string_view AccessorWriter::raw_type() const {
  return element_ == Element::atomic_i32 ? "i32" : is_atomic() ? "u32" : element_text(element_);
}

void AccessorWriter::raw(std::string& out) const {
  out += formatted("fn {}_raw(i: u32) -> {} {{\n", x_, raw_type());
  out += in_segment("i", [&](int b, std::string_view i) {
    return formatted("return {};", load(formatted("buf{}", b), std::string(i)));
  });
  out += "}\n";
}

void AccessorWriter::raw_set(std::string& out) const {
  out += formatted("fn {}_raw_set(i: u32, v: {}) {{\n", x_, raw_type());
  const auto store = [&](int binding, std::string_view index) {
    if (is_atomic()) return formatted("atomicStore(&buf{}[{}], v);", binding, index);
    return formatted("buf{}[{}] = v;", binding, index);
  };
  out += in_segment("i", store) + "}\n";
}

std::string AccessorWriter::in_segment(std::string_view index,
                                       const std::function<std::string(int, std::string_view)>& body) const {
  const int b = p_.first_binding;
  if (p_.segments == 1) return formatted("  {}\n", body(b, index));
  const int64_t per_segment = pattern_.segment_bytes / element_bytes();
  std::string out = formatted("  let j = {0} % {1}u;\n  switch {0} / {1}u {{\n", index, per_segment);
  for (int s = 1; s < p_.segments; ++s) out += formatted("    case {}u: {{ {} }}\n", s, body(b + s, "j"));
  return out + formatted("    default: {{ {} }}\n  }}\n", body(b, "j"));
}

}  // namespace rlx
