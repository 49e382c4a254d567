// Writes the text form (docs/text-form.md).
#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/border.h"
#include "base/format.h"
#include "ir/op.h"
#include "ir/text.h"
#include "rlx/graph.h"

namespace rlx {
namespace {

bool plain_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, is_name_character);
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string name_text(std::string_view name) { return plain_name(name) ? std::string(name) : quoted(name); }

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string hex_text(std::span<const std::byte> bytes) {
  std::string out;
  for (std::byte b : bytes) out += formatted("{:02x}", static_cast<unsigned>(b));
  return out;
}

std::string tensor_text(const Tensor& t, int64_t max_constant) {
  std::string out = t.type_text();
  const auto value = [&](int64_t i) {
    if (t.dtype() == DType::c64) {
      const auto c = t.complex(i);
      return number_text(c.real()) + "," + number_text(c.imag());
    }
    return is_float(t.dtype()) ? number_text(t.real(i)) : std::to_string(t.integer(i));
  };
  if (t.is_uniform() && t.elements() > 0 && !is_encoded(t.dtype()))
    return out + " fill " +
           (is_integer(t.dtype()) || t.dtype() == DType::bool_ ? std::to_string(t.integer(0))
                                                               : number_text(t.real(0)));
  if (max_constant > 0 && t.elements() > max_constant) return out + " (...)";
  // Long constants as raw bytes: exact, and half the size of numbers. Of encoded ones only the bytes are
  // exact.
  if (t.elements() > 64 || is_encoded(t.dtype())) return out + " hex " + hex_text(t.bytes());
  out += " (";
  for (int64_t i = 0; i < t.elements(); ++i) out += (i ? "," : "") + value(i);
  return out + ")";
}

std::string value_text(const Graph& graph, ValueId v) {
  if (v.is_absent()) return "none";
  std::string out = "%" + name_text(graph.producer(v).name);
  if (v.output != 0) out += ":" + std::to_string(v.output);
  return out;
}

std::string list_text(const auto& values, const auto& text) {
  std::string out = "[";
  for (const auto& v : values) out += (out.size() > 1 ? ", " : "") + text(v);
  return out + "]";
}

std::string attr_text(const AttrValue& value, int64_t max_constant, const std::string& indent);

std::string print_graph(const Graph& graph, int64_t max_constant, const std::string& indent) {
  std::string out = "graph " + name_text(graph.name) + " {\n";
  const std::string inner = indent + "  ";
  for (const auto& [symbol, largest] : graph.capacities()) {
    out += formatted("{}symbol {} <= {}\n", inner, symbol, largest);
  }
  for (const Node& n : graph.nodes()) {
    out += inner + "%" + name_text(n.name) + " = " + std::string(n.op->name());
    const bool is_leaf = dynamic_cast<const Leaf*>(n.op.get()) != nullptr;
    if (!n.inputs.empty()) {
      out += "(";
      out += joined(n.inputs, [&](ValueId v) { return value_text(graph, v); });
      out += ")";
    }
    std::string attrs;
    if (!is_leaf) {
      for (const auto& [name, value] : attributes(*n.op)) {
        attrs += (attrs.empty() ? "" : ", ") + name + "=" + attr_text(value, max_constant, inner);
      }
    }
    if (!attrs.empty()) out += " {" + attrs + "}";
    out += " : " + joined(n.outputs, &TensorType::text);
    out += "\n";
  }
  for (const Graph::Output& o : graph.outputs()) {
    out += inner + "output " + name_text(o.name) + " = " + value_text(graph, o.value);
    if (!o.count.empty()) out += formatted(" counted {} along {}", name_text(o.count), o.axis);
    out += "\n";
  }
  return out + indent + "}";
}

std::string attr_text(const AttrValue& value, int64_t max_constant, const std::string& indent) {
  struct Printer {
    int64_t max_constant;
    const std::string& indent;
    std::string operator()(std::monostate) { return "none"; }
    std::string operator()(bool b) { return b ? "true" : "false"; }
    std::string operator()(int64_t n) { return std::to_string(n); }
    std::string operator()(double d) { return number_text(d); }
    std::string operator()(const std::string& s) { return quoted(s); }
    std::string operator()(DType t) { return std::string(to_string(t)); }
    std::string operator()(const Dim& d) { return d.is_static() ? d.text() : "dim(" + d.text() + ")"; }
    std::string operator()(const std::vector<int64_t>& v) { return Shape(v).text(); }
    std::string operator()(const std::vector<double>& v) { return list_text(v, number_text); }
    std::string operator()(const std::vector<std::string>& v) { return list_text(v, quoted); }
    std::string operator()(const Shape& s) { return s.text(); }
    std::string operator()(const TensorType& t) { return "type " + t.text(); }
    std::string operator()(const Tensor& t) { return "tensor " + tensor_text(t, max_constant); }
    std::string operator()(const ExprAttr& e) { return quoted(e.text()); }
    std::string operator()(const GraphPtr& g) { return g ? print_graph(*g, max_constant, indent) : "none"; }
  };
  return std::visit(Printer{max_constant, indent}, value);
}

}  // namespace

std::string to_text(const Graph& graph, int64_t max_constant) try {
  return print_graph(graph, max_constant, "") + "\n";
} catch (...) {
  throw_as_error("printing a graph");
}

std::string attribute_text(const AttrValue& value) { return attr_text(value, 64, ""); }

}  // namespace rlx
