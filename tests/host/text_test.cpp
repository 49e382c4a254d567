// The text form: literals, attributes of every kind, and what its errors say.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "ir/reference.h"
#include "ops/elementwise/elementwise.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "rlx/dtype.h"
#include "rlx/error.h"
#include "rlx/graph.h"
#include "rlx/ops/attention.h"
#include "rlx/ops/elementwise.h"
#include "rlx/schema.h"
#include "rlx/shape.h"
#include "rlx/tensor.h"
#include "rlx/value.h"
#include "tests/support/message.h"
#include "tests/support/paths.h"
#include "tests/support/random_graph.h"
#include "tests/support/sample.h"

namespace rlx {
namespace {

using testing::message;

// One node after inputs of many types.
std::string with_inputs(const std::string& node) {
  return "graph g {\n%x = input : f32[3] %u = input : u8[3] %i = input : i32[3] %l = input : i64[3]"
         " %h = input : f16[3] %m = input : bool[3]\n%y = " +
         node + "\noutput y = %y\n}";
}

std::string said(const std::string& node) {
  return message([&] { verify(parse_graph(with_inputs(node))); });
}

double scalar_operand(const Graph& g, size_t input) {
  const Node& n = g.node(g.find("y"));
  return op_cast<Constant>(*g.producer(n.inputs[input]).op)->value.real(0);
}

TEST(Literals, ThatTheTypeCannotHoldAreErrors) {
  EXPECT_EQ(said("add(%u, 300)"),
            "line 3: node 'y': the number 300 does not fit in u8, which goes from 0 to 255");
  EXPECT_EQ(said("sub(%u, -1)"),
            "line 3: node 'y': the number -1 does not fit in u8, which goes from 0 to 255");
  EXPECT_EQ(said("add(%i, 1.5)"), "line 3: node 'y': the number 1.5 is not whole, but its type is i32");
  EXPECT_EQ(said("add(%i, nan)"), "line 3: node 'y': the number nan is not whole, but its type is i32");
  EXPECT_EQ(said("add(%i, inf)"), "line 3: node 'y': the number inf does not fit in i32");
  EXPECT_EQ(said("add(%l, 1e19)"), "line 3: node 'y': the number 1e+19 does not fit in i64");
  EXPECT_EQ(said("logical_and(%m, 2)"),
            "line 3: node 'y': the number 2 does not fit in bool, which goes from 0 to 1");
  EXPECT_EQ(said("add(%h, 70000)"), "line 3: node 'y': the number 70000 does not fit in f16");
  EXPECT_EQ(said("add(%x, 1e39)"), "line 3: node 'y': the number 1e+39 does not fit in f32");
  for (const char* fine : {"add(%u, 255)", "add(%i, 2.0)", "add(%h, 65504)", "add(%x, -inf)", "add(%x, 0.1)",
                           "logical_and(%m, 1)", "maximum(%l, -9223372036854775808)"}) {
    EXPECT_EQ(said(fine), "no error") << fine;
  }
}

TEST(Literals, KeepAll64Bits) {
  const Graph g = parse_graph(with_inputs("add(%l, 9007199254740993)"));
  const Node& n = g.node(g.find("y"));
  EXPECT_EQ(op_cast<Constant>(*g.producer(n.inputs[1]).op)->value.integer(0), 9007199254740993);
  EXPECT_EQ(to_text(parse_graph(to_text(g))), to_text(g));
}

TEST(Literals, TakeNoNameFromTheText) {
  const Graph g = parse_graph(
      "graph g { %x = input : f32[3] %a = add(%x, 1) %constant.1 = neg(%a) %constant.1.number = neg(%x) "
      "output y = %constant.1 }");
  EXPECT_EQ(g.producer(g.outputs()[0].value).op->name(), "neg");
  EXPECT_EQ(to_text(parse_graph(to_text(g))), to_text(g));
}

TEST(Literals, InTensorsAreChecked) {
  EXPECT_EQ(said("constant {value=tensor u8[2] (300, -1)}"),
            "line 3: the number 300 does not fit in u8, which goes from 0 to 255");
  EXPECT_EQ(said("constant {value=tensor u8[2] fill -1}"),
            "line 3: the number -1 does not fit in u8, which goes from 0 to 255");
  EXPECT_EQ(said("constant {value=tensor f16[2] (1, 1e6)}"), "line 3: the number 1e+06 does not fit in f16");
  EXPECT_EQ(said("constant {value=tensor c64[2] fill 3}"), "no error");
  EXPECT_EQ(said("constant {value=tensor i64[2] fill 9007199254740993}"),
            "line 3: `fill` keeps a double, which cannot be 9007199254740993, at '}'");
  EXPECT_EQ(said("constant {value=tensor f32[200] (...)}"),
            "line 3: a constant was abbreviated when this text was printed; its values are gone, at ')}'");
}

TEST(Literals, UniformTensorsOfEveryTypeSurviveTheText) {
  for (DType t : kAllDTypes) {
    Graph g;
    g.output("y", g.constant(Tensor::full(t, {2, 3}, 1)));
    const Graph back = parse_graph(to_text(g));
    EXPECT_EQ(to_text(back), to_text(g));
    EXPECT_TRUE(op_cast<Constant>(*back.node(0).op)->value == Tensor::full(t, {2, 3}, 1)) << to_string(t);
  }
}

TEST(Literals, AreCheckedInTheBuilderToo) {
  Graph g;
  const Value u = g.input("u", DType::u8, {3});
  EXPECT_EQ(message([&] { (void)(u + 300.0); }),
            "the number 300 does not fit in u8, which goes from 0 to 255");
  EXPECT_EQ(message([&] { (void)(1.5 - u); }), "the number 1.5 is not whole, but its type is u8");
  EXPECT_EQ(message([&] { g.scalar(DType::f16, 1e6); }), "the number 1e+06 does not fit in f16");
  EXPECT_EQ(message([&] { g.scalar(DType::bf16, -HUGE_VAL); }), "no error");
}

TEST(Literals, ThatFillPaddingAreChecked) {
  EXPECT_EQ(said("pad(%u) {before=[1], after=[0], value=300}"),
            "line 3: node 'y': the number 300 does not fit in u8, which goes from 0 to 255");
  EXPECT_EQ(said("pad(%i) {before=[1], after=[0], value=0.5}"),
            "line 3: node 'y': the number 0.5 is not whole, but its type is i32");
  EXPECT_EQ(said("pad(%x) {before=[1], after=[0], value=0.5}"), "no error");
}

TEST(Literals, OfWhereHaveTheTypeOfTheValues) {
  const Graph g = parse_graph(with_inputs("where(%m, %x, -1e9)"));
  EXPECT_EQ(g.type({g.find("y"), 0}).text(), "f32[3]");
  EXPECT_EQ(scalar_operand(g, 2), -1e9);
  EXPECT_EQ(scalar_operand(parse_graph(with_inputs("where(%m, 7, %u)")), 1), 7);
  EXPECT_EQ(
      said("where(%m, 1, 2)"),
      "line 3: node 'y': where: a number needs a tensor next to it, whose type it takes; or write it as a "
      "constant: {value=tensor f32[] fill 1}");
}

// --- Attributes ---

// An attribute of each kind, including those that no op has yet.
struct Everything final : OpOf<Everything> {
  static constexpr auto kName = "everything";
  std::vector<double> reals = {};
  std::vector<std::string> texts = {};
  std::optional<double> real;
  std::optional<int64_t> whole;
  std::optional<std::string> text;
  std::optional<std::vector<double>> list;
  void visit_attributes(AttributeVisitor& v) override {
    v("reals", reals, {});
    v("texts", texts, {});
    v("real", real);
    v("whole", whole);
    v("text", text);
    v("list", list);
  }
  std::vector<TensorType> infer(const InferArgs&) const override { return {}; }
  void reference(RefContext&) const override {}
};

Attrs parsed(std::initializer_list<std::pair<const char*, const char*>> texts) {
  Attrs attrs;
  for (const auto& [name, text] : texts) attrs.emplace_back(name, parse_attribute(text));
  return attrs;
}

std::string shown(const Op& op) {
  std::string out;
  for (const auto& [name, value] : attributes(op)) out += name + "=" + attribute_text(value) + " ";
  return out;
}

TEST(Attributes, ListsAndOptionalsInTheText) {
  Everything op;
  EXPECT_EQ(shown(op), "");
  set_attributes(op, parsed({{"reals", "[0.5, 1, -inf]"},
                             {"texts", R"(["a", "b, ]\"c"])"},
                             {"real", "0"},
                             {"whole", "0"},
                             {"text", "\"\""},
                             {"list", "[]"}}));
  EXPECT_EQ(op.reals, (std::vector<double>{0.5, 1, -HUGE_VAL}));
  EXPECT_EQ(op.texts, (std::vector<std::string>{"a", "b, ]\"c"}));
  EXPECT_EQ(op.real, 0.0);  // given, as opposed to absent
  EXPECT_EQ(op.whole, 0);
  EXPECT_EQ(shown(op), R"(reals=[0.5, 1.0, -inf] texts=["a", "b, ]\"c"] real=0.0 whole=0 text="" list=[] )");
  Everything back;
  Attrs again;
  for (const auto& [name, value] : attributes(op))
    again.emplace_back(name, parse_attribute(attribute_text(value)));
  set_attributes(back, again);
  EXPECT_TRUE(same(op, back));

  set_attributes(op, parsed({{"reals", "[1, 2]"}, {"real", "none"}, {"texts", "[]"}}));
  EXPECT_EQ(op.reals, (std::vector<double>{1, 2}));
  EXPECT_FALSE(op.real || op.whole || op.text || op.list);
  EXPECT_TRUE(op.texts.empty());
  EXPECT_FALSE(same(op, back));
}

TEST(Attributes, OfTheWrongKindAreErrors) {
  const auto set = [](const char* name, const char* text) {
    return message([&] {
      Everything op;
      set_attributes(op, parsed({{name, text}}));
    });
  };
  EXPECT_EQ(set("whole", "1.5"), "the attribute whole takes a value of the kind 'whole number', not 1.5");
  EXPECT_EQ(set("texts", "[1]"), "the attribute texts takes a value of the kind 'list of texts', not [1]");
  EXPECT_EQ(set("reals", "none"),
            "the attribute reals takes a value of the kind 'list of numbers', not none");
  EXPECT_EQ(set("reals", "[n]"), "the attribute reals takes a value of the kind 'list of numbers', not [n]");
  EXPECT_EQ(message([] {
              Everything op;
              set_attributes(op, parsed({{"real", "1"}, {"real", "2"}}));
            }),
            "everything: the attribute 'real' is given twice");
}

TEST(Attributes, UnknownOnesGetTheListOrThePresentName) {
  EXPECT_EQ(said("sum(%x) {keep=true}"),
            "line 3: node 'y': sum: has no attribute 'keep' (it is named keepdims now)");
  EXPECT_EQ(said("sum(%x) {axis=1}"),
            "line 3: node 'y': sum: has no attribute 'axis' (it has: axes, keepdims)");
  EXPECT_EQ(said("neg(%x) {axis=1}"), "line 3: node 'y': neg: has no attribute 'axis' (it has none)");
}

TEST(Attributes, AttentionScaleZeroIsZero) {
  const std::string shapes = "graph g { %q = input : f32[1,1,2,2] %v = input : f32[1,1,2,2] ";
  const Graph g = parse_graph(
      shapes +
      "%y = attention(%q, %q, %v) {scale=0} %z = attention(%q, %q, %v) output y = %y output z = %z }");
  EXPECT_NE(to_text(g).find("{scale=0.0}"), std::string::npos);
  EXPECT_EQ(to_text(parse_graph(to_text(g))), to_text(g));
  const auto out = run_reference(g, {{"q", Tensor::of<float>({1, 1, 2, 2}, {9, 0, 0, 9})},
                                     {"v", Tensor::of<float>({1, 1, 2, 2}, {1, 2, 3, 6})}});
  EXPECT_EQ(out.at("y").real, (std::vector<double>{2, 4, 2, 4}));  // all scores are 0
  EXPECT_NE(out.at("z").real, out.at("y").real);

  Graph built;
  const Value q = built.input("q", DType::f32, {1, 1, 2, 2});
  built.output("y", attention(q, q, q, {.scale = 0.0}));
  EXPECT_NE(to_text(built).find("{scale=0.0}"), std::string::npos);
  EXPECT_EQ(message([&] { parse_graph(shapes + "%y = attention(%q, %q, %v) {soft_cap=0} }"); }),
            "line 1: node 'y': attention: the soft cap is 0; it must be positive");
}

// --- Names ---

TEST(Names, FormerOpsGetThePresentName) {
  const std::pair<const char*, const char*> names[] = {{"reduce_sum", "sum"},
                                                       {"reduce_mean", "mean"},
                                                       {"reduce_max", "max"},
                                                       {"reduce_min", "min"},
                                                       {"reduce_prod", "prod"},
                                                       {"narrow", "slice"},
                                                       {"eq", "equal"},
                                                       {"ne", "not_equal"},
                                                       {"lt", "less"},
                                                       {"le", "less_equal"},
                                                       {"gt", "greater"},
                                                       {"ge", "greater_equal"},
                                                       {"bit_and", "bitwise_and"},
                                                       {"bit_or", "bitwise_or"},
                                                       {"bit_xor", "bitwise_xor"},
                                                       {"bit_not", "bitwise_not"},
                                                       {"shift_left", "left_shift"},
                                                       {"shift_right", "right_shift"}};
  for (const auto& [former, present] : names) {
    EXPECT_EQ(said(std::string(former) + "(%x)"),
              std::string("line 3: the op '") + former + "' is named '" + present + "' now");
    EXPECT_TRUE(op_table().find(present)) << present;
  }
  EXPECT_EQ(said("max(%x, %x)"),
            "line 3: node 'y': max: takes 1 input, not 2; the element-wise op is maximum");
  EXPECT_EQ(said("min(%x, 0)"),
            "line 3: node 'y': min: takes 1 input, not 2; the element-wise op is minimum");
}

TEST(Names, UnknownOpsGetNearOnes) {
  EXPECT_EQ(said("layernorm(%x)"),
            "line 3: there is no op named 'layernorm' (similar: layer_norm; `rlx ops` lists all)");
  EXPECT_EQ(said("frobnicate(%x)"), "line 3: there is no op named 'frobnicate' (`rlx ops` lists all)");
  Graph g;
  const Value x = g.input("x", DType::f32, {2});
  EXPECT_EQ(message([&] { apply_function("eq", {x, x}); }), "the op 'eq' is named 'equal' now");
  EXPECT_EQ(message([&] { apply_function("softmax", {x}); }),
            "the op 'softmax' is not an element-wise function");
}

TEST(Names, EmptyOrTwiceAreErrors) {
  EXPECT_EQ(message([] { parse_graph("graph g {\n%\"\" = input : f32[2]\n}"); }),
            "line 2: the name of a node is empty, at '= input : f32[2]'");
  EXPECT_EQ(message([] { parse_graph("graph g {\nsymbol n <= 3\nsymbol n <= 4\n}"); }),
            "line 3: the capacity of 'n' is given twice");
  EXPECT_EQ(message([] { parse_graph("graph g {\n%x = input : f32[2]\noutput x = %x\noutput x = %x\n}"); }),
            "line 4: the output name 'x' is used twice");
}

TEST(Names, OfLeavesAreNotChangedSilently) {
  Graph g;
  const Value x = g.input("x", DType::f32, {2});
  const Value w = g.param("w", DType::f32, {2});
  EXPECT_EQ(message([&] { w.named("x"); }), "the name 'x' is used twice");
  EXPECT_EQ(message([&] { w.named(""); }), "node 'w' cannot be renamed to an empty name");
  w.named("v");
  EXPECT_EQ(g.find("v"), 1);
  EXPECT_EQ(g.node(relu(x).named("x").id().node).name, "x_1");
}

// --- Sizes ---

TEST(Texts, ThatAreCutSaySo) {
  const auto says = [](const std::string& text) { return message([&] { parse_graph(text); }); };
  EXPECT_EQ(says("graph tiny {\n  %x = input : f32[2]\n  output y = %x\n"),
            "line 4: the text ends before the graph 'tiny' is closed by a '}'");
  EXPECT_EQ(says("graph g {\n  %x = input : f32[2, 3"),
            "line 2: the text ends before a list is closed by a ']'");
  EXPECT_EQ(says("graph g {\n  %x = input : f32[2]\n  %y = sum(%x) {axes=[0,"),
            "line 3: the text ends before a list is closed by a ']'");
  EXPECT_EQ(says("graph g {\n  %x = input : f32[2]\n  %y = sum(%x"),
            "line 3: the text ends before ')', which is expected here");
  EXPECT_EQ(says("graph g {\n  %x ="), "line 2: the text ends before a name, which is expected here");
  // Only the end is an end.
  EXPECT_EQ(says("graph g {\n  x = input : f32[2]\n}"), "line 2: expected '%', at 'x = input : f32[2]'");
}

TEST(Sizes, AreNotNegative) {
  EXPECT_SAYS(parse_graph("graph g {\n%x = input : f32[-2]\n}"),
              "node 'x': input: the tensor has the shape [-2]; sizes cannot be negative");
}

TEST(Sizes, ThatNoTensorCanHaveAreErrors) {
  EXPECT_EQ(message([] { parse_graph("graph g {\n%x = input : f32[4611686018427387904]\n}"); }),
            "line 2: node 'x': input: the result f32[4611686018427387904] is larger than 64 bits can count");
  EXPECT_EQ(
      message([] { parse_graph("graph g {\n%x = input : f32[0, 4611686018427387904, 4]\n}"); }),
      "line 2: node 'x': input: the result f32[0, 4611686018427387904, 4] is larger than 64 bits can count");
  EXPECT_EQ(message([] {
              Graph g;
              g.input("x", DType::u8, {int64_t{1} << 40, int64_t{1} << 40});
            }),
            "node 'x': input: the result u8[1099511627776, 1099511627776] is larger than 64 bits can count");
  EXPECT_NE(message([] { Tensor(DType::f32, {int64_t{1} << 62}, std::vector<std::byte>()); }), "no error");
  EXPECT_EQ(said("split(%x) {axis=0, sizes=[9223372036854775807, 9223372036854775807, 5]}"),
            "line 3: node 'y': split: the sum of the sizes [9223372036854775807, 9223372036854775807, 5] "
            "does not fit in "
            "64 bits");
  EXPECT_EQ(said("add(%y:4294967296, %x)"), "line 3: no value is named '%y' so far, at ':4294967296, %x)'");
  EXPECT_EQ(said("add(%x:4294967296, %x)"), "line 3: 'x' has no output 4294967296, at ', %x)'");
}

TEST(Sizes, MessagesStayShortWhateverTheInput) {
  const std::string digits(200000, '7');
  const std::string letters(200000, 'a');
  const std::string texts[] = {
      with_inputs("add(%x, " + digits + ")"),
      with_inputs("add(%x, " + letters + ")"),
      with_inputs("add(%x, %" + letters + ")"),
      with_inputs(letters + "(%x)"),
      with_inputs("sum(%x) {" + letters + "=1}"),
      with_inputs("sum(%x) {axes=\"" + letters + "\"}"),
      with_inputs("slice(%x) {axis=0, start=0, length=" + digits + "}"),
      with_inputs("cast(%x) {to=" + letters + "}"),
      with_inputs("pad(%x) {before=[0], after=[0], mode=\"" + letters + "\"}"),
      with_inputs("fused_elementwise(%x) {expr=\"" + letters + "\"}"),
      with_inputs("neg(%x) : f32[" + digits + "]"),
      with_inputs("neg(%x) : f32[" + letters + "]"),
      with_inputs("neg(%x) : " + letters + "[3]"),
      "graph g {\nsymbol " + letters + " <= " + digits + "\n}",
      "graph g {\n%" + letters + " = input : f32[2]\n%" + letters + " = input : f32[2]\n}",
      "graph g {\n%" + letters + " = input : f32[2]\n%y = sum(%" + letters + ") {axes=[7]}\n}",
      "graph g {\n%y = input : f32[2]\noutput " + letters + " = %y\noutput " + letters + " = %y\n}",
      "graph " + letters + " {\n%y = input : f32[2]\n" + letters + "\n}",
  };
  for (const std::string& text : texts) {
    const std::string got = message([&] { parse_graph(text); });
    EXPECT_NE(got, "no error") << text.substr(0, 200);
    EXPECT_LE(got.size(), 420u) << got.substr(0, 200);
    EXPECT_EQ(got.find(letters), std::string::npos);
  }
}

// --- Access ---

TEST(Access, OutOfRangeIsAnError) {
  Graph g;
  const Value x = g.input("x", DType::f32, {"n", 3});
  EXPECT_EQ(message([&] { (void)g.node(99); }), "the graph 'graph' has 1 nodes; there is no node 99");
  EXPECT_EQ(message([&] { (void)g.node(-1); }), "the graph 'graph' was asked for an absent value");
  EXPECT_EQ(message([&] { (void)g.type({0, 7}); }), "node 'x' (input) has 1 output; there is no output 7");
  EXPECT_EQ(message([&] { (void)g.value({9, 7}); }), "the graph 'graph' has 1 nodes; there is no node 9");
  EXPECT_EQ(message([&] { g.rename(5, "y"); }), "the graph 'graph' has 1 nodes; there is no node 5");
  EXPECT_EQ(message([&] { g.add_output({"y", {3, 0}}); }),
            "the graph 'graph' has 1 nodes; there is no node 3");
  EXPECT_EQ(message([&] { (void)x.shape()[2]; }), "the shape [n, 3] has rank 2; there is no axis 2");
  EXPECT_EQ(message([&] { (void)x.shape()[-1]; }), "the shape [n, 3] has rank 2; there is no axis -1");
  EXPECT_EQ(message([&] { Shape{2}.erase(1); }), "the shape [2] has rank 1; there is no axis 1");
}

TEST(Access, NodesWithoutOutputsAreNoValues) {
  const std::string call = "call(%x) {body=graph b { %v = input : f32[3] }}";
  EXPECT_EQ(said(call + " : f32[3]"),
            "line 3: node 'y' says its type is f32[3], but its inputs give nothing");
  EXPECT_EQ(said(call), "line 4: 'y' has no output 0, at '}'");
}

// --- The header and the document ---

std::string read_file(const std::string& path) {
  std::ifstream in(in_source(path));
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string all_headers() {
  std::string text;
  for (const auto& file : std::filesystem::directory_iterator(in_source("include/rlx/ops")))
    text += read_file("include/rlx/ops/" + file.path().filename().string());
  return text;
}

// What the function of that name returns: "Value", or a struct; "" if there is none. (`quantize` is also one
// of tensors.)
std::string returned_type(const std::string& headers, std::string_view function) {
  const std::regex type("[A-Za-z:<>]+");
  const std::string name = formatted(" {}(", function);
  for (size_t at = headers.find(name); at != std::string::npos; at = headers.find(name, at + 1)) {
    const size_t line = headers.rfind('\n', at) + 1;
    const std::string before = headers.substr(line, at - line);
    if (before != "Tensor" && std::regex_match(before, type)) return before;
  }
  return "";
}

// The names of the Values of a struct.
std::vector<std::string> members(const std::string& headers, const std::string& type) {
  const size_t begin = headers.find("\nstruct " + type + " {");
  const std::string body = headers.substr(begin, headers.find("\n};", begin) - begin);
  const std::regex member("\n  Value ([a-z_]+);");
  std::vector<std::string> names;
  for (std::sregex_iterator it(body.begin(), body.end(), member), end; it != end; ++it)
    names.push_back((*it)[1].str());
  return names;
}

TEST(Header, HasAFunctionForEveryOp) {
  const std::string headers = all_headers();
  std::set<std::string_view> internal;
  for (const auto& [name, info] : op_table().all()) {
    if (info.internal) internal.insert(name);
    EXPECT_NE(returned_type(headers, name == "if" ? "if_else" : name) != "", info.internal) << name;
  }
  EXPECT_EQ(internal, (std::set<std::string_view>{
                          "batch_elementwise", "byte_conv", "call", "contiguous", "dynamic_quantize_rows",
                          "fused_elementwise", "mapped_reduce", "nucleus", "recurrence",
                          "residual_layer_norm", "residual_rms_norm", "rope_write", "selective_steps"}));
}

// Outputs have the same names in graph texts, in other languages and in C++.
TEST(Header, NamesOutputsAsTheTableDoes) {
  const std::string headers = all_headers();
  int structs = 0;
  for (const std::string& name : op_names()) {
    const std::string type = returned_type(headers, name == "if" ? "if_else" : name);
    const std::vector<OpSchema::Tensor>& outputs = op_schema(name).outputs;
    std::vector<std::string> names;
    for (const OpSchema::Tensor& o : outputs) names.push_back(o.name);
    if (type == "Value") {
      // Further outputs have functions of their own: max_pool_with_indices.
      for (size_t i = 1; i < outputs.size(); ++i)
        EXPECT_TRUE(outputs[i].optional || outputs[i].variadic) << name;
    } else if (type == "std::vector<Value>") {
      EXPECT_TRUE(outputs.back().variadic) << name;
    } else if (!type.empty()) {
      EXPECT_EQ(members(headers, type), names) << name;
      ++structs;
    }
  }
  EXPECT_GE(structs, 25);
  for (const char* op : {"max_pool", "adaptive_max_pool"}) {
    const std::vector<OpSchema::Tensor>& outputs = op_schema(op).outputs;
    ASSERT_EQ(outputs.size(), 2U);
    EXPECT_EQ(members(headers, "PooledWithIndices"), (std::vector{outputs[0].name, outputs[1].name}));
  }
  const std::vector<OpSchema::Tensor>& attention = op_schema("attention").outputs;
  EXPECT_EQ(members(headers, "AttentionPart"), (std::vector{attention[0].name, attention[1].name}));
}

std::vector<std::string> code_blocks(const std::string& document) {
  std::vector<std::string> blocks;
  const std::string open = "```rlx\n";
  for (size_t at = document.find(open); at != std::string::npos; at = document.find(open, at)) {
    at += open.size();
    blocks.push_back(document.substr(at, document.find("```", at) - at));
  }
  return blocks;
}

TEST(Operands, MayHaveNames) {
  const auto parsed = [](const std::string& operands) {
    return to_text(parse_graph("graph g { %x = input : f32[3, 4] %b = input : f32[4] %y = layer_norm(" +
                               operands + ") output y = %y }"));
  };
  EXPECT_EQ(parsed("%x, beta=%b"), parsed("%x, none, %b"));
  EXPECT_EQ(parsed("x = %x, gamma=%b, beta=%b"), parsed("%x, %b, %b"));
  EXPECT_EQ(parsed("%x, gamma=none, beta=%b"), parsed("%x, none, %b"));
  EXPECT_SAYS(parsed("%x, bias=%b"), "line 1: layer_norm has no operand named 'bias'");
  EXPECT_SAYS(parsed("%x, beta=%b, gamma=%b"), "the operand 'gamma' comes twice, or after a later one");
  EXPECT_SAYS(parsed("%x, x=%x"), "the operand 'x' comes twice, or after a later one");
  EXPECT_SAYS(parsed("%x, beta=%b, %b"), "an operand without a name follows one with a name");
  const auto numbers = [](const std::string& operands) {
    return to_text(parse_graph("graph g { %x = input : f32[3] %y = clamp(" + operands + ") output y = %y }"));
  };
  EXPECT_EQ(numbers("%x, low=-inf, high=2"), numbers("%x, -inf, 2"));
  EXPECT_SAYS(parse_graph("graph g { %x = input : f32[3] %y = concat(parts=%x) {axis=0} output y = %y }"),
              "concat has no operand named 'parts'");
}

TEST(Document, ExamplesParse) {
  const std::vector<std::string> examples = code_blocks(read_file("docs/text-form.md"));
  EXPECT_EQ(examples.size(), 3u);
  for (const std::string& text : examples) {
    const Graph g = parse_graph(text);
    verify(g);
    EXPECT_EQ(to_text(parse_graph(to_text(g))), to_text(g));
  }
}

// --- Mutations ---

class Mutator {
 public:
  explicit Mutator(uint32_t seed) : random_(seed) {}

  std::string mutate(std::string text) {
    for (size_t n = 1 + pick(2); n > 0; --n) {
      const size_t at = pick(text.size());
      const size_t digit = text.find_first_of("0123456789", at);
      switch (pick(7)) {
        case 0:
          text.erase(at, 1 + pick(12));
          break;
        case 1:
          text.insert(at, kPieces[pick(std::size(kPieces))]);
          break;
        case 2:
          text[at] = static_cast<char>(pick(256));
          break;
        case 3:
          text.insert(at, text.substr(pick(text.size()), pick(30)));
          break;
        case 4:
        case 5:
          if (digit != std::string::npos) text.replace(digit, 1, std::to_string(pick(12)));
          break;
        default:
          text.replace(at, 1 + pick(6), kPieces[pick(std::size(kPieces))]);
      }
      if (text.empty()) text = " ";
    }
    return text;
  }

 private:
  static constexpr std::string_view kPieces[] = {"none",
                                                 "-1",
                                                 "0",
                                                 "1.5",
                                                 "1e999",
                                                 "nan",
                                                 "inf",
                                                 "9223372036854775807",
                                                 "4611686018427387904",
                                                 "%x",
                                                 "%",
                                                 "\"",
                                                 "\\",
                                                 "//",
                                                 "(",
                                                 ")",
                                                 "[",
                                                 "]",
                                                 "{",
                                                 "}",
                                                 ",",
                                                 ":1",
                                                 "=",
                                                 "n",
                                                 "f16",
                                                 "bool",
                                                 "tensor u8[2] (1,2)",
                                                 "fill",
                                                 "hex",
                                                 "dim(n)",
                                                 "graph g",
                                                 "type",
                                                 "true",
                                                 "c64[2]",
                                                 "counted",
                                                 "floor((n)/2)"};

  size_t pick(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  std::mt19937 random_;
};

// Types that need not be written contradict most changes.
std::string without_types(const std::string& text) {
  std::istringstream lines(text);
  std::string out;
  for (std::string line; std::getline(lines, line);) {
    if (line.contains("(%")) line.erase(std::min(line.find(" : "), line.size()));
    out += line + "\n";
  }
  return out;
}

std::vector<std::string> seed_texts() {
  std::vector<std::string> texts = code_blocks(read_file("docs/text-form.md"));
  for (uint32_t seed = 0; seed < 8; ++seed)
    texts.push_back(without_types(to_text(testing::random_graph(seed).graph)));
  for (const char* op :
       {"concat", "pad", "residual_layer_norm", "attention", "rope", "call", "split", "dot_general"}) {
    const OpInfo& info = op_table().at(op);
    texts.push_back(testing::make_sample(info, info.samples[0], DType::f32, testing::Reach::direct, 1).text);
  }
  return texts;
}

TEST(Mutations, EitherParseAndPrintBackOrAreErrors) {
  const std::vector<std::string> texts = seed_texts();
  Mutator mutator(2024);
  int good = 0;
  for (int i = 0; i < 6000; ++i) {
    const std::string text = mutator.mutate(texts[static_cast<size_t>(i) % texts.size()]);
    std::string printed;
    try {
      const Graph g = parse_graph(text);
      printed = to_text(g);
      verify(g);
    } catch (const Error& e) {
      ASSERT_NE(e.kind(), ErrorKind::internal) << e.what() << "\n" << text;
      ASSERT_LE(std::string_view(e.what()).size(), 420u) << text;
      if (printed.empty()) continue;
    }
    ++good;
    ASSERT_EQ(message([&] { ASSERT_EQ(to_text(parse_graph(printed)), printed) << text; }), "no error")
        << text;
  }
  EXPECT_GT(good, 300);  // else nothing was tried
}

}  // namespace
}  // namespace rlx
