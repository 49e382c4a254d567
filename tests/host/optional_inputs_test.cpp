// Optional inputs anywhere in an op's list: `none` in the text, an empty Value in C++.
#include <gtest/gtest.h>

#include "ir/load_phase.h"
#include "ir/reference.h"
#include "ir/states.h"
#include "passes/pass_order.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "plan/program.h"
#include "rlx/call.h"
#include "rlx/dtype.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/normalization.h"
#include "rlx/ops/rearrange.h"
#include "rlx/tensor.h"
#include "rlx/value.h"
#include "tests/support/message.h"

namespace rlx {
namespace {

using testing::message;

TEST(OptionalInputs, TextAndBuilderAgree) {
  Graph g;
  const Value x = g.input("x", DType::f32, {2, 4});
  const Value beta = g.param("beta", DType::f32, {4});
  g.output("y", layer_norm(x, Value{}, beta).named("y"));
  const std::string text = R"(graph graph {
  %x = input : f32[2, 4]
  %beta = param : f32[4]
  %y = layer_norm(%x, none, %beta) : f32[2, 4]
  output y = %y
}
)";
  EXPECT_EQ(to_text(g), text);
  EXPECT_EQ(to_text(parse_graph(text)), text);
  verify(g);
}

TEST(OptionalInputs, AbsentOnesAtTheEndAreDropped) {
  const Graph g = parse_graph(
      "graph g { %x = input : f32[2,4] %y = rms_norm(%x, none, none) %z = rms_norm(%x) output y = %y output "
      "z = "
      "%z }");
  EXPECT_EQ(g.node(g.find("y")).inputs, g.node(g.find("z")).inputs);
  const Graph merged = merge_common_subexpressions(g);
  EXPECT_EQ(merged.outputs()[0].value, merged.outputs()[1].value);
}

TEST(OptionalInputs, RequiredOnesMustBeGiven) {
  EXPECT_EQ(
      message([] { parse_graph("graph g {\n %b = input : f32[4]\n %y = layer_norm(none, none, %b)\n}"); }),
      "line 3: node 'y': layer_norm: x is not optional");
  EXPECT_EQ(message([] {
              Graph g;
              add(g.input("x", DType::f32, {2}), Value{});
            }),
            "node 'add.1': add: b is not optional");
  EXPECT_EQ(message([] { parse_graph("graph g {\n %x = input : f32[2]\n %y = sub(none, %x)\n}"); }),
            "line 3: node 'y': sub: a is not optional");
  EXPECT_EQ(message([] { parse_graph("graph g {\n %x = input : f32[2]\n %y = relu(%x, none)\n}"); }),
            "line 3: node 'y': relu: input 1 is not optional");
}

// A norm without gamma, inside a body that is called, of constants and of inputs, with dead code around it.
constexpr auto kGraph = R"(graph g {
  %x = input : f32[2, 4]
  %beta = param : f32[4]
  %c = constant {value=tensor f32[2, 4] (1,2,3,4,5,6,7,9)}
  %k = layer_norm(%c, none, %c.row)
  %sum = add(%x, %k)
  %n = layer_norm(%sum, none, %beta)
  %w = layer_norm(%beta, none, %beta)
  %called = call(%n) {body=graph b {
    %v = input : f32[2, 4]
    %u = constant {value=tensor f32[4] fill 0.5}
    %y = rms_norm(%v, none, %u)
    output y = %y
  }}
  %dead = rms_norm(%x, none, %beta)
  %t = transpose(%called)
  %back = transpose(%t)
  %y = layer_norm(%back, none, %w)
  output y = %y
}
)";

Graph sample_graph() {
  std::string text = kGraph;
  const std::string row = "  %c.row = constant {value=tensor f32[4] (0,1,0,1)}\n";
  text.insert(text.find("  %k"), row);
  return parse_graph(text);
}

TEST(OptionalInputs, PassesKeepWhatIsComputed) {
  const Graph g = sample_graph();
  verify(g);
  const NamedTensors leaves = {{"x", Tensor::of<float>({2, 4}, {1, 5, 2, 0, -1, 3, 3, 7})},
                               {"beta", Tensor::of<float>({4}, {0.5, 1, -1, 2})}};
  const std::vector<double> want = run_reference(g, leaves).at("y").real;
  Graph optimized = optimize(inline_calls(g), {});
  verify(optimized);
  EXPECT_NE(to_text(optimized).find("residual_layer_norm(%x, %k, none, none, %beta)"), std::string::npos)
      << to_text(optimized);
  EXPECT_EQ(optimized.find("dead"), -1);
  EXPECT_TRUE(op_cast<Constant>(*optimized.node(optimized.find("k")).op));  // folded
  optimized = parse_graph(to_text(materialize_views(optimized)));
  const std::vector<double> got = run_reference(optimized, leaves).at("y").real;
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6);  // %k is an f32 now
  EXPECT_EQ(reference_values(optimized, leaves).size(), static_cast<size_t>(optimized.size()));
}

TEST(OptionalInputs, PlansAndPhasesSkipThem) {
  const Graph g = materialize_views(inline_calls(sample_graph()));
  const std::vector<bool> loaded = in_load_phase(g);
  EXPECT_TRUE(loaded[static_cast<size_t>(g.find("w"))]);
  EXPECT_FALSE(loaded[static_cast<size_t>(g.find("n"))]);
  EXPECT_FALSE(uses(g).contains(ValueId{}));
  EXPECT_EQ(schedule(g).size(), static_cast<size_t>(g.size()));
  const Program program = lower(g, Target{});
  EXPECT_FALSE(program.values.contains(ValueId{}));
  EXPECT_FALSE(program.dispatches.empty());
}

}  // namespace
}  // namespace rlx
