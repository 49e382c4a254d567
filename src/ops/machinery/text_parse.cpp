// The text form of a graph:
//
//   graph tiny {
//     symbol seq <= 512
//     %x = input : f32[batch, seq]
//     %s = softmax(%x) {axis=0} : f32[batch, seq]
//     output probs = %s               (with `counted n along 0`: only the first n, an output too)
//   }
//
// The type after the colon may be left out except for inputs, params and states. A number in place of an
// operand is a scalar constant of the type of the first tensor operand, `none` an optional one that is not
// given. %n:1 is the second output of node n. docs/text-form.md has the grammar.
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include "base/border.h"
#include "base/format.h"
#include "encodings/encoding.h"
#include "ir/literal.h"
#include "ir/text.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/operand_name.h"
#include "rlx/graph.h"

namespace rlx {
namespace {

constexpr size_t kLongestMessage = 400;

std::string types_text(const std::vector<TensorType>& types) {
  return types.empty() ? "nothing" : joined(types, &TensorType::text);
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Graph all() {
    Graph graph = parse_graph_body();
    skip();
    if (at_ != text_.size()) wrong("more text after the end of the graph");
    return graph;
  }

  AttrValue single_value() {
    AttrValue v = value();
    skip();
    if (at_ != text_.size()) wrong("more text after the end of the value");
    return v;
  }

 private:
  Graph parse_graph_body() {
    if (++depth_ > 32) wrong("graphs are nested more than 32 deep");
    expect_word("graph");
    Graph graph;
    graph.name = name();
    expect("{");
    while (!take("}")) {
      if (peek() == '\0' && at_ == text_.size())
        ends_early(formatted("the graph '{}' is closed by a '}}'", excerpt(graph.name)));
      const size_t line = line_number();
      try {
        statement(graph);
      } catch (const Error& e) {
        if (std::string_view(e.what()).starts_with("line ")) throw;
        throw e.within(formatted("line {}", line));
      }
    }
    --depth_;
    std::erase_if(unnamed_, [&](const auto& place) { return place.first == &graph; });
    return graph;
  }

  void statement(Graph& graph) {
    if (take_word("symbol")) {
      const std::string symbol = word();
      if (graph.capacities().contains(symbol)) fail("the capacity of '{}' is given twice", excerpt(symbol));
      expect("<=");
      graph.set_capacity(symbol, integer());
    } else if (take_word("output")) {
      Graph::Output output{.name = name()};
      expect("=");
      output.value = operand(graph);
      if (take_word("counted")) {
        output.count = name();
        if (output.count.empty()) wrong("the name of an output is empty");
        if (take_word("along")) output.axis = integer();
      }
      graph.add_output(std::move(output));
    } else {
      node(graph);
    }
  }

  // A number in place of operand `input`.
  struct Number {
    size_t input;
    double real;
    std::optional<int64_t> whole;  // if it is written as one, and fits
  };

  void node(Graph& graph) {
    expect("%");
    const std::string node_name = name();
    if (node_name.empty()) wrong("the name of a node is empty");
    make_free(graph, node_name);
    expect("=");
    const std::shared_ptr<Op> op = make_op(word());
    std::vector<Number> numbers;
    std::vector<ValueId> inputs = operands(graph, op->name(), numbers);
    Attrs attrs = attribute_list();
    std::vector<TensorType> types;
    if (take(":")) {
      do types.push_back(type());
      while (take(","));
    }
    if (dynamic_cast<Leaf*>(op.get())) {
      if (types.size() != 1) fail("{} '{}' needs its type: `: f32[2, 3]`", op->name(), excerpt(node_name));
      attrs.emplace_back("type", types[0]);
    }
    try {
      set_attributes(*op, attrs);
      add_scalars(graph, *op, inputs, numbers);
    } catch (const Error& e) {
      throw e.within("node '" + excerpt(node_name) + "'");
    }
    const ValueId id = graph.add(op, std::move(inputs), node_name);
    if (const auto& inferred = graph.node(id.node).outputs; !types.empty() && inferred != types) {
      fail("node '{}' says its type is {}, but its inputs give {}", excerpt(node_name),
           excerpt(types_text(types)), excerpt(types_text(inferred)));
    }
  }

  // A constant made for a number was named by the parser, and gives up its name if the text uses it.
  void make_free(Graph& graph, const std::string& node_name) {
    const int32_t other = graph.find(node_name);
    if (other < 0) return;
    if (!unnamed_.contains({&graph, other})) fail("the name '{}' is used twice", excerpt(node_name));
    graph.rename(other, node_name + ".number");
  }

  std::vector<ValueId> operands(Graph& graph, std::string_view op, std::vector<Number>& numbers) {
    std::vector<ValueId> inputs;
    bool named = false;
    if (!take("(") || take(")")) return inputs;
    do {
      if (const std::string name = name_before_equals(); !name.empty()) {
        named = true;
        skip_to(op, name, inputs);
      } else if (named) {
        wrong("an operand without a name follows one with a name");
      }
      if (peek() == '%') {
        inputs.push_back(operand(graph));
        continue;
      }
      if (!take_word("none")) {
        const std::string_view token = number_token();
        numbers.push_back({.input = inputs.size(), .real = number_in(token), .whole = whole_number(token)});
      }
      inputs.push_back({});
    } while (take(","));
    expect(")");
    return inputs;
  }

  // "sinks" of "sinks=%s", which is then read; "" if there is none.
  std::string name_before_equals() {
    const size_t start = at_;
    if (!is_name_character(peek())) return "";
    std::string name = word();
    if (take("=")) return name;
    at_ = start;
    return "";
  }

  // Leaves out the operands before the one of that name.
  void skip_to(std::string_view op, const std::string& name, std::vector<ValueId>& inputs) {
    const std::optional<int64_t> number = find_operand(op, name);
    if (!number) {
      wrong(formatted("{} has no operand named '{}' (those with names are {}; attributes are in braces)", op,
                      excerpt(name), named_operands(op)));
    }
    if (*number < std::ssize(inputs)) {
      wrong(formatted("the operand '{}' comes twice, or after a later one: they are {}, in this order", name,
                      named_operands(op)));
    }
    inputs.resize(static_cast<size_t>(*number));
  }

  Attrs attribute_list() {
    Attrs attrs;
    if (!take("{") || take("}")) return attrs;
    do {
      std::string attr = word();
      expect("=");
      attrs.emplace_back(std::move(attr), value());
    } while (take(","));
    expect("}");
    return attrs;
  }

  void add_scalars(Graph& graph, const Op& op, std::vector<ValueId>& inputs,
                   const std::vector<Number>& numbers) {
    if (numbers.empty()) return;
    std::optional<DType> dtype;
    for (size_t i = 0; i < inputs.size() && !dtype; ++i) {
      if (!inputs[i].is_absent() && op.types_numbers(static_cast<int64_t>(i)))
        dtype = value_dtype(graph.type(inputs[i]).dtype);
    }
    if (!dtype) {
      fail(
          "{}: a number needs a tensor next to it, whose type it takes; or write it as a constant: "
          "{{value=tensor f32[] fill 1}}",
          op.name());
    }
    for (const Number& n : numbers) {
      inputs[n.input] = graph.constant(n.whole ? literal(*dtype, *n.whole) : literal(*dtype, n.real)).id();
      unnamed_.emplace(&graph, inputs[n.input].node);
    }
  }

  ValueId operand(Graph& graph) {
    expect("%");
    const std::string wanted = name();
    ValueId id{graph.find(wanted), 0};
    if (id.node < 0) wrong("no value is named '%" + excerpt(wanted) + "' so far");
    int64_t output = 0;
    if (at_ + 1 < text_.size() && text_[at_] == ':' &&
        std::isdigit(static_cast<unsigned char>(text_[at_ + 1]))) {
      ++at_;
      output = integer();
    }
    if (output >= static_cast<int64_t>(graph.node(id.node).outputs.size()))
      wrong(formatted("'{}' has no output {}", excerpt(wanted), output));
    id.output = static_cast<int32_t>(output);
    return id;
  }

  AttrValue value() {
    skip();
    if (peek() == '"') return string();
    if (peek() == '[') return list();
    if (std::isdigit(static_cast<unsigned char>(peek())) || peek() == '-' || peek() == '.')
      return integer_or_double();
    const size_t start = at_;
    const std::string w = word();
    if (w == "true") return true;
    if (w == "false") return false;
    if (w == "inf" || w == "nan") return w == "inf" ? std::numeric_limits<double>::infinity() : std::nan("");
    if (w == "dim") return dim_in_parentheses();
    if (w == "type") return type();
    if (w == "tensor") return tensor();
    if (w == "none") return std::monostate();
    if (w == "graph") {
      at_ = start;
      return std::make_shared<const Graph>(parse_graph_body());
    }
    if (const auto dtype = parse_dtype(w)) return *dtype;
    wrong("'" + excerpt(w) + "' is not a value for an attribute");
  }

  AttrValue integer_or_double() {
    const std::string_view token = number_token();
    if (const auto whole = whole_number(token)) return *whole;
    return number_in(token);
  }

  // A list of texts; of numbers, if all are numbers and one is not whole; otherwise of dims, or of whole
  // numbers if no dim has a symbol.
  AttrValue list() {
    const size_t start = at_;
    expect("[");
    if (peek() == '"') {
      std::vector<std::string> texts;
      do texts.push_back(string());
      while (take(","));
      expect("]");
      return texts;
    }
    if (const auto numbers = list_of_numbers()) return *numbers;
    at_ = start;
    Shape shape = dims();
    if (shape.is_static()) return shape.values();
    return shape;
  }

  // After the bracket; nothing if it is another kind of list.
  std::optional<std::vector<double>> list_of_numbers() {
    std::vector<double> numbers;
    bool all_whole = true;
    if (take("]")) return std::nullopt;
    do {
      const std::string_view token = number_token();
      const std::optional<double> number = real_number(token);
      if (!number) return std::nullopt;
      numbers.push_back(*number);
      all_whole = all_whole && whole_number(token);
    } while (take(","));
    if (all_whole || !take("]")) return std::nullopt;
    return numbers;
  }

  Shape dims() {
    expect("[");
    Shape shape;
    if (take("]")) return shape;
    do shape.push_back(Dim::parse(dim_of_list()));
    while (take(","));
    expect("]");
    return shape;
  }

  Dim dim_in_parentheses() {
    expect("(");
    int open = 1;
    const size_t start = at_;
    for (; at_ < text_.size() && open > 0; ++at_) open += text_[at_] == '(' ? 1 : text_[at_] == ')' ? -1 : 0;
    if (open > 0) wrong("a closing parenthesis is missing");
    return Dim::parse(text_.substr(start, at_ - 1 - start));
  }

  TensorType type() {
    const std::string w = word();
    const auto dtype = parse_dtype(w);
    if (!dtype) {
      wrong(formatted("'{}' is not an element type ({}, {})", excerpt(w),
                      joined(kAllDTypes, [](DType t) { return to_string(t); }),
                      joined(encoding_table().all(), &Encoding::name)));
    }
    return TensorType{*dtype, dims()};
  }

  Tensor tensor() {
    const TensorType t = type();
    const std::vector<int64_t> shape = t.shape.values();
    if (take_word("fill")) return fill(t.dtype, shape);
    if (take_word("hex")) return Tensor(t.dtype, shape, hex());
    expect("(");
    if (take("...")) wrong("a constant was abbreviated when this text was printed; its values are gone");
    std::vector<double> reals;
    std::vector<int64_t> ints;
    const bool whole = is_integer(t.dtype) || t.dtype == DType::bool_;
    if (!take(")")) {
      do {
        if (whole) {
          ints.push_back(integer());
          expect_fits(t.dtype, ints.back());
        } else {
          reals.push_back(number());
          expect_fits(t.dtype, reals.back());
        }
      } while (take(","));
      expect(")");
    }
    if (whole) return Tensor::from_ints(t.dtype, shape, ints);
    if (t.dtype != DType::c64) return Tensor::from_doubles(t.dtype, shape, reals);
    const std::vector<float> parts(reals.begin(), reals.end());
    const auto bytes = std::as_bytes(std::span(parts));
    return Tensor(t.dtype, shape, std::vector<std::byte>(bytes.begin(), bytes.end()));
  }

  Tensor fill(DType dtype, const std::vector<int64_t>& shape) {
    const std::string_view token = number_token();
    const std::optional<int64_t> whole = whole_number(token);
    const double value = whole ? static_cast<double>(*whole) : number_in(token);
    if (whole) {
      expect_fits(dtype, *whole);
    } else {
      expect_fits(dtype, value);
    }
    Tensor all = Tensor::full(dtype, shape, value);
    if (whole && dtype == DType::i64 && all.elements() > 0 && all.integer(0) != *whole)
      wrong(formatted("`fill` keeps a double, which cannot be {}", *whole));
    return all;
  }

  std::vector<std::byte> hex() {
    skip();
    std::vector<std::byte> out;
    const auto digit = [&](char c) -> int {
      return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    };
    while (at_ + 1 < text_.size() && digit(text_[at_]) >= 0 && digit(text_[at_ + 1]) >= 0) {
      out.push_back(static_cast<std::byte>(digit(text_[at_]) * 16 + digit(text_[at_ + 1])));
      at_ += 2;
    }
    return out;
  }

  // Up to the comma or bracket that ends it; min(3,n) has a comma of its own.
  std::string_view dim_of_list() {
    skip();
    size_t end = at_;
    for (int open = 0; end < text_.size(); ++end) {
      const char c = text_[end];
      if (c == ']' || (c == ',' && open == 0)) break;
      open += c == '(' ? 1 : c == ')' ? -1 : 0;
    }
    if (end == text_.size()) ends_early("a list is closed by a ']'");
    std::string_view part = text_.substr(at_, end - at_);
    while (!part.empty() && std::isspace(static_cast<unsigned char>(part.back()))) part.remove_suffix(1);
    at_ = end;
    return part;
  }

  std::string_view number_token() {
    skip();
    size_t end = at_;
    while (end < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[end])) || text_[end] == '.' ||
                                  text_[end] == '-' || text_[end] == '+')) {
      ++end;
    }
    const std::string_view token = text_.substr(at_, end - at_);
    at_ = end;
    return token;
  }

  template <class T>
  static std::optional<T> parsed(std::string_view token) {
    T value = 0;
    const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), value);
    if (error != std::errc() || end != token.data() + token.size()) return std::nullopt;
    return value;
  }
  static std::optional<int64_t> whole_number(std::string_view token) { return parsed<int64_t>(token); }
  static std::optional<double> real_number(std::string_view token) {
    const std::string_view unsigned_part = token.substr(token.starts_with('-') ? 1 : 0);
    const bool word = !unsigned_part.empty() && std::isalpha(static_cast<unsigned char>(unsigned_part[0]));
    if (word && unsigned_part != "inf" && unsigned_part != "nan") return std::nullopt;
    return parsed<double>(token);
  }

  double number_in(std::string_view token) {
    if (const auto value = real_number(token)) return *value;
    wrong("'" + excerpt(token) + "' is not a number that a double can hold");
  }
  double number() { return number_in(number_token()); }

  int64_t integer() {
    const std::string_view token = number_token();
    if (const auto value = whole_number(token)) return *value;
    wrong("'" + excerpt(token) + "' is not a whole number of 64 bits");
  }

  std::string string() {
    expect("\"");
    std::string out;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) {
        ++at_;
        out += text_[at_] == 'n' ? '\n' : text_[at_];
      } else {
        out += text_[at_];
      }
      ++at_;
    }
    if (at_ >= text_.size()) wrong("a quote is not closed");
    ++at_;
    return out;
  }

  std::string name() { return peek() == '"' ? string() : word(); }

  std::string word() {
    skip();
    const size_t start = at_;
    while (at_ < text_.size() && is_name_character(text_[at_])) ++at_;
    if (start == text_.size()) ends_early("a name, which is expected here");
    if (start == at_) wrong("a name is missing");
    return std::string(text_.substr(start, at_ - start));
  }

  void skip() {
    while (at_ < text_.size()) {
      if (std::isspace(static_cast<unsigned char>(text_[at_]))) {
        ++at_;
      } else if (text_.substr(at_).starts_with("//")) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else {
        return;
      }
    }
  }
  char peek() {
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(std::string_view token) {
    skip();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  bool take_word(std::string_view wanted) {
    skip();
    const size_t end = at_ + wanted.size();
    if (!text_.substr(at_).starts_with(wanted) || (end < text_.size() && is_name_character(text_[end])))
      return false;
    at_ = end;
    return true;
  }
  void expect(std::string_view token) {
    if (take(token)) return;
    if (at_ == text_.size()) ends_early("'" + std::string(token) + "', which is expected here");
    wrong("expected '" + std::string(token) + "'");
  }
  void expect_word(std::string_view token) {
    if (!take_word(token)) wrong("expected '" + std::string(token) + "'");
  }
  size_t line_number() {
    if (at_ < counted_to_) counted_to_ = 0, line_ = 1;
    for (; counted_to_ < at_; ++counted_to_) line_ += text_[counted_to_] == '\n';
    return line_;
  }
  // "line 5: the text ends before a list is closed by a ']'"
  [[noreturn]] void ends_early(const std::string& what) {
    fail("line {}: the text ends before {}", line_number(), what);
  }
  [[noreturn]] void wrong(const std::string& what) {
    const size_t line = line_number();
    skip();
    const std::string_view rest = text_.substr(at_, std::min<size_t>(20, text_.size() - at_));
    fail("line {}: {}, at '{}'", line, what, rest.substr(0, rest.find('\n')));
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  std::set<std::pair<const Graph*, int32_t>> unnamed_;  // constants of numbers, by graph
  size_t counted_to_ = 0;  // line_ is the line of this place: lines are counted once, not once per node
  size_t line_ = 1;
};

}  // namespace

AttrValue parse_attribute(std::string_view text) { return Parser(text).single_value(); }

Graph parse_graph(std::string_view text) try {
  try {
    return Parser(text).all();
  } catch (const Error& e) {
    // A long name can be quoted anywhere in what an op says.
    const std::string_view all = e.what();
    if (all.size() <= kLongestMessage) throw;
    constexpr size_t kTail = 80;
    throw Error(e.kind(),
                excerpt(all, kLongestMessage - kTail) + std::string(all.substr(all.size() - kTail)));
  }
} catch (...) {
  throw_as_error("parsing a graph");
}

}  // namespace rlx
