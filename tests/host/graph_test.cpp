// The graph: builder, text form, verifier, and what users get wrong.
#include <gtest/gtest.h>

#include "ir/reference.h"
#include "rlx/call.h"
#include "rlx/dtype.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/rearrange.h"
#include "rlx/shape.h"
#include "rlx/tensor.h"
#include "rlx/value.h"
#include "tests/support/message.h"

namespace rlx {
namespace {

using testing::message;

TEST(Graph, TextParsesBack) {
  const std::string text = R"(graph tiny {
  symbol seq <= 512
  %x = input : f32[batch, seq, 8]
  %w = param : f32[8, 4]
  %"odd name/0" = matmul(%x, %w) : f32[batch, seq, 4]
  %c = constant {value=tensor f32[4] (0.5,-1.0,inf,3.0)} : f32[4]
  %z = constant {value=tensor i64[2] fill 7} : i64[2]
  %s = add(%"odd name/0", %c) : f32[batch, seq, 4]
  %t = transpose(%s) {perm=[1, 0, 2]} : f32[seq, batch, 4]
  %r = reshape(%s) {shape=[batch*seq, 4]} : f32[batch*seq, 4]
  output first = %t
  output second = %r
}
)";
  EXPECT_EQ(to_text(parse_graph(text)), text);
}

TEST(Graph, SubGraphsAreBoundPrintedAndVerified) {
  const Graph g = parse_graph(R"(graph g {
    %a = input : f32[n]
    %c = call(%a) {body=graph twice { %x = input : f32[n]  %y = add(%x, %x)  output y = %y }}
    output y = %c
  })");
  verify(g);
  EXPECT_EQ(to_text(parse_graph(to_text(g))), to_text(g));
  EXPECT_EQ(g.symbols(), std::set<std::string>{"n"});
  EXPECT_EQ(bind_symbols(g, {{"n", 3}}).type({1, 0}).text(), "f32[3]");
  EXPECT_EQ(message([] {
              parse_graph(
                  "graph g {\n %a = input : f32[2]\n %c = call(%a) {body=graph b { %x = input : f32[3] "
                  "output x = %x }}\n}");
            }),
            "line 3: node 'c': call: 'x' of the body 'b' is f32[3], but it is given f32[2]");
}

TEST(Graph, LongConstantsSurviveTheText) {
  std::vector<float> values(300);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * 0.37f;
  Graph g;
  g.output("y", g.constant(Tensor::of<float>({300}, values)) + g.input("x", DType::f32, {300}));
  const Graph back = parse_graph(to_text(g));
  EXPECT_EQ(to_text(back), to_text(g));
}

TEST(Graph, BuilderInfersShapes) {
  Graph g;
  const Value x = g.input("x", DType::f32, {"batch", 3, 4});
  const Value y = (x * 2.0 + 1.0).named("y");
  EXPECT_EQ(y.type().text(), "f32[batch, 3, 4]");
  EXPECT_EQ(reshape(y, {-1, 4}).shape().text(), "[3*batch, 4]");
  EXPECT_EQ(cast(less(x, y), DType::i32).type().text(), "i32[batch, 3, 4]");
  EXPECT_EQ(matmul(x, transpose(x, {0, 2, 1})).shape().text(), "[batch, 3, 3]");
}

TEST(Graph, NumbersInTextTakeTheTypeBesideThem) {
  const Graph g = parse_graph("graph g { %x = input : f16[3]\n %y = leaky_relu(%x, 0.1)\n output y = %y }");
  EXPECT_EQ(g.type(g.outputs()[0].value).text(), "f16[3]");
}

TEST(Graph, BindingReplacesSymbols) {
  Graph g;
  const Value x = g.input("x", DType::f32, {"batch", "seq"});
  g.output("y", reshape(x, {Dim("batch") * Dim("seq")}));
  EXPECT_EQ(bind_symbols(g, {{"batch", 2}, {"seq", 5}}).type({1, 0}).text(), "f32[10]");
}

// --- Mistakes ---

TEST(Mistakes, Shapes) {
  EXPECT_EQ(
      message([] {
        Graph g;
        (g.input("a", DType::f32, {2, 3}) + g.input("b", DType::f32, {4})).named("s");
      }),
      "node 'add.2': add: the shapes [2, 3] and [4] do not broadcast: 3 against 4 on axis 1 of the result");
  EXPECT_EQ(message([] {
              Graph g;
              matmul(g.input("a", DType::f32, {2, 3}), g.input("b", DType::f32, {4, 5}));
            }),
            "node 'matmul.2': matmul: the inner sizes of [2, 3] and [4, 5] differ: 3 against 4");
}

TEST(Mistakes, Types) {
  EXPECT_EQ(message([] {
              Graph g;
              (void)(g.input("a", DType::f32, {2}) + g.input("b", DType::i32, {2}));
            }),
            "node 'add.2': add: the inputs have the types f32 and i32; they must be equal (use cast)");
  EXPECT_EQ(message([] {
              Graph g;
              gelu(g.input("a", DType::i32, {2}));
            }),
            "node 'gelu.1': gelu: is not defined for i32");
}

TEST(Mistakes, NamesAndAttributes) {
  EXPECT_EQ(message([] {
              Graph g;
              g.input("x", DType::f32, {2});
              g.param("x", DType::f32, {2});
            }),
            "the name 'x' is used twice");
  EXPECT_EQ(message([] { parse_graph("graph g {\n %x = input : f32[2]\n %y = sofmax(%x)\n}"); }),
            "line 3: there is no op named 'sofmax' (similar: softmax; `rlx ops` lists all)");
  EXPECT_EQ(message([] { parse_graph("graph g {\n %x = input : f32[2]\n %y = cast(%x) {two=f16}\n}"); }),
            "line 3: node 'y': cast: has no attribute 'two' (it has: to)");
  EXPECT_EQ(message([] { parse_graph("graph g {\n %x = input : f32[2]\n %y = cast(%x)\n}"); }),
            "line 3: node 'y': cast: the attribute 'to' is missing");
  EXPECT_EQ(message([] { parse_graph("graph g {\n %x = input : f32[2]\n %y = add(%x, %z)\n}"); }),
            "line 3: no value is named '%z' so far, at ')'");
  EXPECT_SAYS(
      parse_graph("graph g {\n %x = input : float[2]\n}"),
      "line 2: 'float' is not an element type (f32, f16, bf16, i32, u32, i64, bool, i8, u8, c64, q8_0, ");
  EXPECT_EQ(message([] {
              parse_graph("graph g {\n %x = input : f32[2]\n %y = neg(%x) : f32[3]\n output y = %y\n}");
            }),
            "line 3: node 'y' says its type is f32[3], but its inputs give f32[2]");
}

TEST(Mistakes, OutputsAndValues) {
  EXPECT_EQ(message([] { verify(Graph{}); }), "the graph 'graph' has no output");
  EXPECT_EQ(message([] { relu(Value{}); }), "an empty Value was used; it belongs to no graph");
  EXPECT_EQ(message([] {
              Graph a, b;
              (void)(a.input("x", DType::f32, {2}) + b.input("y", DType::f32, {2}));
            }),
            "add: an input belongs to another graph");
}

TEST(Mistakes, CountedOutputs) {
  const auto checked = [](const char* outputs) {
    return message([&] {
      verify(parse_graph(
          std::string("graph g {\n %x = input : f32[4]\n %n = sum(%x)\n %i = cast(%n) {to=i64}\n ") +
          outputs + "\n}"));
    });
  };
  EXPECT_EQ(checked("output n = %i  output y = %x counted n"), "no error");
  EXPECT_EQ(checked("output y = %x counted n"), "the output 'y' is counted by 'n', which is not an output");
  EXPECT_EQ(checked("output n = %n  output y = %x counted n"),
            "the output 'y' is counted by 'n', which is f32[]; it must be an integer scalar");
  EXPECT_EQ(checked("output n = %i  output y = %x counted n along 1"),
            "the output 'y' is counted along axis 1, but its rank is 1");
}

TEST(Mistakes, Tensors) {
  EXPECT_EQ(message([] { Tensor(DType::f32, {2, 3}, std::vector<std::byte>(20)); }),
            "a tensor of type f32[2, 3] needs 24 bytes, not 20");
  EXPECT_EQ(message([] { Tensor::of<float>({1}, {1.0f}).to_vector<int32_t>(); }),
            "the tensor has type f32, not i32");
}

}  // namespace
}  // namespace rlx
