// Writes the WGSL of a bound kernel: declarations and accessors before the kernel's own source.
#include <algorithm>

#include "base/checked.h"
#include "base/format.h"
#include "kernels/binder.h"
#include "kernels/fragment.h"

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
  }
  return "";
}

std::string_view value_type(DType dtype, OperandDecl::Kind kind) {
  return kind == OperandDecl::Kind::int_ ? "i32" : wgsl_type(dtype);
}

// The value of `kind int` operands, from their natural value.
std::string as_kind(const std::string& value, DType dtype, OperandDecl::Kind kind) {
  if (kind != OperandDecl::Kind::int_ || value_type(dtype, OperandDecl::Kind::any) == "i32") return value;
  return "i32(" + value + ")";
}

class OperandWriter {
 public:
  OperandWriter(const Kernel& kernel, const Pattern& pattern, size_t index)
      : kernel_(kernel),
        pattern_(pattern),
        decl_(kernel.operands[index]),
        p_(pattern.operands[index]),
        element_(p_.present ? pattern.bindings[static_cast<size_t>(p_.first_binding)].element : Element::f32),
        x_(decl_.name) {}

  // Members of the `views` uniform, in the order in which bind_dispatch fills them.
  void members(std::string& out) const {
    if (!p_.present) return;
    out += formatted("  {}_offset: u32,\n", x_);
    if (p_.windowed) out += formatted("  {0}_window_begin: u32,\n  {0}_window_length: u32,\n", x_);
    if (uses("_base")) walk_members(out, "outer", p_.outer);
    if (uses("_step")) walk_members(out, "inner", p_.inner);
    if (uses_flat()) walk_members(out, "flat", p_.flat);
  }

  void accessors(std::string& out) const {
    const std::string_view type = value_type(p_.dtype, decl_.kind);
    out += formatted("const {}_present: bool = {};\nalias {}_t = {};\n", x_, p_.present, x_, type);
    if (!p_.present) {
      absent(out);
      return;
    }
    if (!decl_.out || uses("_get")) get(out);
    if (decl_.x4) get4(out);
    if (uses("_base")) walk(out, "base", "outer", p_.outer);
    if (uses("_step")) walk(out, "step", "inner", p_.inner);
    if (uses_flat()) {
      walk(out, "flat", "flat", p_.flat);
      if (uses("_at")) {
        out += formatted("fn {0}_at(i: u32) -> {0}_t {{ return {0}_get({0}_flat(i)); }}\n", x_);
      }
    }
    if (uses("_has")) has(out);
    if (decl_.out) put(out);
    if (uses("_from_bits")) from_bits(out, type);
  }

 private:
  bool uses(std::string_view suffix) const { return contains_word(kernel_, x_ + std::string(suffix)); }
  bool uses_flat() const { return uses("_at") || uses("_flat"); }

  void absent(std::string& out) const {
    const std::string zero = x_ + "_t()";
    out += formatted("fn {0}_get(p: u32) -> {0}_t {{ return {1}; }}\n", x_, zero);
    if (decl_.x4) out += formatted("fn {0}_get4(p: u32) -> vec4<{0}_t> {{ return vec4<{0}_t>(); }}\n", x_);
    for (std::string_view f : {"base", "step", "flat"}) {
      out += formatted("fn {}_{}(i: u32) -> u32 {{ return 0u; }}\n", x_, f);
    }
    out += formatted("fn {0}_at(i: u32) -> {0}_t {{ return {1}; }}\n", x_, zero);
    if (decl_.out) out += formatted("fn {0}_put(p: u32, v: {0}_t) {{}}\n", x_);
    if (decl_.out && decl_.x4) out += formatted("fn {0}_put4(p: u32, v: vec4<{0}_t>) {{}}\n", x_);
  }

  void walk_members(std::string& out, std::string_view part, const WalkPattern& w) const {
    for (int i = 1; i < w.rank; ++i) out += formatted("  {}_{}_d{}: u32,\n", x_, part, i);
    for (int i = 0; i < w.rank; ++i) out += formatted("  {}_{}_s{}: u32,\n", x_, part, i);
  }

  // Strides are added modulo 2^32, so a negative one counts backwards.
  void walk(std::string& out, std::string_view function, std::string_view part, const WalkPattern& w) const {
    out += formatted("fn {}_{}(i: u32) -> u32 {{\n", x_, function);
    const std::string v = formatted("views.{}_{}_", x_, part);
    if (w.rank == 0) {
      out += "  return 0u;\n}\n";
      return;
    }
    const auto stride = [&](int axis) {
      return w.unit && axis == w.rank - 1 ? std::string() : formatted(" * {}s{}", v, axis);
    };
    if (w.rank == 1) {
      out += formatted("  return i{};\n}}\n", stride(0));
      return;
    }
    out += "  var rest = i;\n  var p = 0u;\n";
    for (int axis = w.rank - 1; axis > 0; --axis) {
      out += formatted("  let q{0} = rest / {1}d{0};\n  p += (rest - q{0} * {1}d{0}){2};\n  rest = q{0};\n",
                       axis, v, stride(axis));
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

  // An expression for the element `index` of the operand's binding array, over its segments.
  std::string load(const std::string& binding, const std::string& index) const {
    const std::string at = formatted("{}[{}]", binding, index);
    return element_ == Element::atomic_word ? "atomicLoad(&" + at + ")" : at;
  }

  // fn x_raw(i) reads one array element of the binding(s).
  void raw(std::string& out) const {
    const std::string type = element_ == Element::atomic_word ? "u32" : std::string(element_text(element_));
    out += formatted("fn {}_raw(i: u32) -> {} {{\n", x_, type);
    const int b = p_.first_binding;
    if (p_.segments == 1) {
      out += formatted("  return {};\n}}\n", load(formatted("buf{}", b), "i"));
      return;
    }
    const int64_t per_segment = pattern_.segment_bytes / element_bytes();
    out += formatted("  let j = i % {}u;\n  switch i / {}u {{\n", per_segment, per_segment);
    for (int s = 1; s < p_.segments; ++s) {
      out += formatted("    case {}u: {{ return {}; }}\n", s, load(formatted("buf{}", b + s), "j"));
    }
    out += formatted("    default: {{ return {}; }}\n  }}\n}}\n", load(formatted("buf{}", b), "j"));
  }

  // fn x_raw_set(i, v) writes one array element.
  void raw_set(std::string& out) const {
    const std::string type = element_ == Element::atomic_word ? "u32" : std::string(element_text(element_));
    out += formatted("fn {}_raw_set(i: u32, v: {}) {{\n", x_, type);
    const auto store = [&](int binding, std::string_view index) {
      if (element_ == Element::atomic_word) return formatted("atomicStore(&buf{}[{}], v);", binding, index);
      return formatted("buf{}[{}] = v;", binding, index);
    };
    const int b = p_.first_binding;
    if (p_.segments == 1) {
      out += "  " + store(b, "i") + "\n}\n";
      return;
    }
    const int64_t per_segment = pattern_.segment_bytes / element_bytes();
    out += formatted("  let j = i % {}u;\n  switch i / {}u {{\n", per_segment, per_segment);
    for (int s = 1; s < p_.segments; ++s) out += formatted("    case {}u: {{ {} }}\n", s, store(b + s, "j"));
    out += formatted("    default: {{ {} }}\n  }}\n}}\n", store(b, "j"));
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

  void get4(std::string& out) const {
    if (decl_.out && !uses("_get")) raw(out);
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
    const bool by_words = std::ranges::contains(kernel_.libs, "flat");
    if (uses("_get") == false && !decl_.x4 && pattern_.partial) raw(out);
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

  // Each element of a word belongs to another invocation: clear and set only its own bits.
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
    out += formatted("  let w = q / {}u;\n", n);
    if (p_.segments == 1) {
      out += "  " + update(p_.first_binding, "w") + "\n}\n";
      return;
    }
    const int64_t per_segment = pattern_.segment_bytes / 4;
    out += formatted("  let j = w % {0}u;\n  switch w / {0}u {{\n", per_segment);
    for (int s = 1; s < p_.segments; ++s)
      out += formatted("    case {}u: {{ {} }}\n", s, update(p_.first_binding + s, "j"));
    out += formatted("    default: {{ {} }}\n  }}\n}}\n", update(p_.first_binding, "j"));
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
      // Only this invocation writes the other three elements, or nobody does: see the kernels that declare
      // x4.
      const int b = p_.first_binding;
      const std::string value = element_ == Element::vec4h ? "f16(v)" : "v";
      if (p_.segments == 1) {
        out += formatted("  buf{}[q / 4u][q % 4u] = {};\n", b, value);
      } else {
        const int64_t per_segment = pattern_.segment_bytes / element_bytes();
        out += formatted("  let w = q / 4u;\n  let j = w % {0}u;\n  switch w / {0}u {{\n", per_segment);
        for (int s = 1; s < p_.segments; ++s) {
          out += formatted("    case {}u: {{ buf{}[j][q % 4u] = {}; }}\n", s, b + s, value);
        }
        out += formatted("    default: {{ buf{}[j][q % 4u] = {}; }}\n  }}\n", b, value);
      }
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
    } else if (packed() && (p_.aligned4 || std::ranges::contains(kernel_.libs, "flat"))) {
      // Whole words, so nobody else writes to them.
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

// Puts the chosen values into the lines `const NAME: type = value;  //@ spec`.
std::string with_specs(std::string source, const std::vector<SpecValue>& specs) {
  for (const SpecValue& spec : specs) {
    const std::string head = "const " + spec.name + ":";
    const size_t at = source.find(head);
    check(at != std::string::npos, "a spec constant is in the kernel source");
    const size_t equals = source.find('=', at);
    const size_t end = source.find(';', equals);
    source.replace(equals, end - equals, "= " + spec.value);
  }
  return source;
}

}  // namespace

std::string module_text(const Kernel& kernel, const Pattern& pattern) {
  std::string out = "// " + kernel.name + "\n";
  if (pattern.f16) out += "enable f16;\n";
  std::string views = "struct Views {\n  first_group: u32,\n  group_count: u32,\n";
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
  const std::string own = "//# accessors 1\n" + accessors + with_specs(kernel.source, pattern.specs);
  const std::string shared = needed_declarations(kernel, own);
  const bool subgroups = own.contains("subgroup_size") || shared.contains("subgroup_size");
  return (subgroups ? "enable subgroups;\n" : "") + out + shared + own;
}

std::string default_module_text(const Kernel& kernel) {
  Dispatch d;
  d.kernel = std::make_shared<const Kernel>(kernel);
  d.groups = 1;
  std::vector<Placement> placements;
  for (const OperandDecl& decl : kernel.operands) {
    Operand o;
    o.storage = static_cast<int32_t>(placements.size());
    o.dtype = decl.kind == OperandDecl::Kind::int_ ? DType::i32 : DType::f32;
    o.view = View::contiguous({2, 2});
    o.outer_rank = 1;
    d.operands.push_back(o);
    placements.push_back({static_cast<int32_t>(placements.size()), 0, 256});
  }
  Caps caps;
  caps.max_storage_buffers = 16;
  return module_text(kernel, bind_dispatch(d, placements, caps).at(0).pattern);
}

}  // namespace rlx
