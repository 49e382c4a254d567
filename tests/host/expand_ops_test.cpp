// Ops that are written in terms of others.
#include <gtest/gtest.h>

#include "ir/evaluate.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "passes/pass_order.h"
#include "passes/passes.h"
#include "plan/program.h"
#include "rlx/diagnostics.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"
#include "tests/support/message.h"
#include "tests/support/sample.h"

namespace rlx::testing {
namespace {

// y = scale * x; the test decides what it expands into.
template <class Self>
struct Scaled : OpOf<Self> {
  double scale = 2;
  std::vector<TensorType> infer(const InferArgs& in) const override { return {in[0]}; }
  void reference(RefContext& r) const override {
    r.out() = r.in(0);
    for (double& v : r.out().real) v *= scale;
  }
};

using Values = std::optional<std::vector<Value>>;

struct Twice final : Scaled<Twice> {
  static constexpr auto kName = "twice";
  Values expand(const ExpandArgs& in) const override { return std::vector{in[0] + in[0]}; }
};

struct Thrice final : Scaled<Thrice> {
  static constexpr auto kName = "thrice";
  Thrice() { scale = 3; }
  Values expand(const ExpandArgs& in) const override {
    const Value twice = in.graph.add_value(std::make_shared<Twice>(), {in[0]}, "two");
    return std::vector{twice + in[0]};
  }
};

struct Wrong final : Scaled<Wrong> {
  static constexpr auto kName = "wrong";
  Values expand(const ExpandArgs& in) const override { return std::vector{in[0] * 2.001}; }
};

struct Endless final : Scaled<Endless> {
  static constexpr auto kName = "endless";
  Values expand(const ExpandArgs& in) const override {
    auto smaller = std::make_shared<Endless>();
    smaller->scale = scale / 2;
    return std::vector{in.graph.add_value(smaller, {in[0]}) + in.graph.add_value(smaller, {in[0]})};
  }
};

struct Pong;
struct Ping final : Scaled<Ping> {
  static constexpr auto kName = "ping";
  Values expand(const ExpandArgs& in) const override;
};
struct Pong final : Scaled<Pong> {
  static constexpr auto kName = "pong";
  Values expand(const ExpandArgs& in) const override {
    return std::vector{in.graph.add_value(std::make_shared<Ping>(), {in[0]})};
  }
};
Values Ping::expand(const ExpandArgs& in) const {
  return std::vector{in.graph.add_value(std::make_shared<Pong>(), {in[0]})};
}

struct Shorter final : Scaled<Shorter> {
  static constexpr auto kName = "shorter";
  Values expand(const ExpandArgs& in) const override { return std::vector{sum(in[0], {0})}; }
};

struct Mistaken final : Scaled<Mistaken> {
  static constexpr auto kName = "mistaken";
  Values expand(const ExpandArgs& in) const override { return std::vector{transpose(in[0], {0, 0})}; }
};

struct Nothing final : Scaled<Nothing> {
  static constexpr auto kName = "nothing";
};

struct Sometimes final : Scaled<Sometimes> {
  static constexpr auto kName = "sometimes";
  Values expand(const ExpandArgs&) const override { return std::nullopt; }
};

// x + the second input, if that is given.
struct Maybe final : OpOf<Maybe> {
  static constexpr auto kName = "maybe";
  bool optional_input(int64_t input) const override { return input == 1; }
  std::vector<TensorType> infer(const InferArgs& in) const override { return {in[0]}; }
  void reference(RefContext&) const override {}
  Values expand(const ExpandArgs& in) const override {
    return std::vector{in[1] ? in[0] + in[1] : neg(in[0])};
  }
};

template <class T>
Graph graph_of(Shape shape = {3, 4}) {
  Graph g;
  const Value x = g.input("x", DType::f32, std::move(shape));
  g.output("y", g.add_value(std::make_shared<T>(), {x}, "y"));
  return g;
}

TEST(ExpandOps, UntilNothingExpands) {
  EXPECT_EQ(to_text(expand_ops(graph_of<Thrice>({"n", 4}))),
            "graph graph {\n"
            "  %x = input : f32[n, 4]\n"
            "  %y.two = add(%x, %x) : f32[n, 4]\n"
            "  %y = add(%y.two, %x) : f32[n, 4]\n"
            "  output y = %y\n"
            "}\n");
  EXPECT_EQ(to_text(inline_calls(graph_of<Thrice>())), to_text(graph_of<Thrice>()));
}

TEST(ExpandOps, AbsentInputsAreEmptyValues) {
  Graph g;
  const Value x = g.input("x", DType::f32, {2});
  g.output("a", g.add_value(std::make_shared<Maybe>(), {x, x}, "a"));
  g.output("b", g.add_value(std::make_shared<Maybe>(), {x, Value()}, "b"));
  const std::string text = to_text(expand_ops(g));
  EXPECT_TRUE(text.contains("%a = add(%x, %x)") && text.contains("%b = neg(%x)")) << text;
}

TEST(ExpandOps, TheOriginalIsJudgedByItsOwnReference) {
  std::mt19937 random(5);
  const NamedTensors leaves = {{"x", random_tensor(DType::f32, {3, 4}, -2, 2, random)}};
  const auto wrong = [&](const Graph& written) {
    NamedTensors outputs;
    for (const auto& [name, value] : run_reference(expand_ops(written), leaves))
      outputs[name] = value.to_tensor();
    return verify_outputs(written, leaves, outputs).at(0).wrong;
  };
  EXPECT_EQ(wrong(graph_of<Thrice>()), 0);
  EXPECT_GT(wrong(graph_of<Wrong>()), 6);
}

TEST(ExpandOps, MistakesNameTheOriginal) {
  const auto said = [](const Graph& g) { return message([&] { expand_ops(g); }); };
  EXPECT_EQ(said(graph_of<Endless>()),
            "while expanding node 'y' (endless): while expanding node 'y.endless' (endless): the op endless "
            "expands into itself (endless, endless)");
  EXPECT_SAYS(expand_ops(graph_of<Ping>()), "the op ping expands into itself (ping, pong, ping)");
  EXPECT_EQ(said(graph_of<Shorter>()),
            "while expanding node 'y' (shorter): output 0 of the expansion is f32[4] instead of f32[3, 4]");
  EXPECT_SAYS(expand_ops(graph_of<Mistaken>()),
              "while expanding node 'y' (mistaken): node 'transpose.1': transpose: ");
}

TEST(ExpandOps, AnOpHasKernelsOrAnExpansion) {
  OpTable table;
  table.add<Twice>({.formula = "2 x"});
  EXPECT_EQ(message([&] { table.add<Nothing>({.formula = "?"}); }),
            "the op 'nothing' has neither lower nor expand, and is no view: nothing can run it");
  EXPECT_EQ(message([] { lower(expand_ops(graph_of<Nothing>()), Target{}); }),
            "while lowering node 'y' (nothing): the op nothing has neither kernels nor an expansion");
  EXPECT_EQ(
      message([] { lower(expand_ops(graph_of<Sometimes>()), Target{}); }),
      "while lowering node 'y' (sometimes): the op sometimes has an expansion, but not for this case, and "
      "no kernels");
}

TEST(ExpandOps, DotGeneralIsAMatmulThatFuses) {
  const Graph g = parse_graph(R"(graph g {
    %x = input : f32[n, 4]
    %w = param : f32[6, 4]
    %b = param : f32[6]
    %p = dot_general(%x, %w) {a_contracting=[1], b_contracting=[1]}
    %y = add(%p, %b)
    output y = %y
  })");
  const std::string plain = to_text(expand_ops(g));
  EXPECT_TRUE(plain.contains("matmul(")) << plain;
  const std::string fused = to_text(optimize(expand_ops(g), {}));
  EXPECT_TRUE(fused.contains("%y = matmul(") && fused.contains("{epilogue=\"add($0,$1)\"}")) << fused;
}

// A matmul would need a copy of what does not lie in that order.
TEST(ExpandOps, DotGeneralOverSeveralAxesStaysAndFuses) {
  const Graph g = parse_graph(R"(graph g {
    %x = input : f32[n, 4, 5]
    %w = param : f32[6, 5, 4]
    %b = param : f32[6]
    %p = dot_general(%x, %w) {a_contracting=[1, 2], b_contracting=[2, 1]}
    %y = add(%p, %b)
    output y = %y
  })");
  const std::string fused = to_text(optimize(expand_ops(g), {}));
  EXPECT_TRUE(fused.contains("%y = dot_general(%x, %w, %b)") && fused.contains("epilogue=\"add($0,$1)\""))
      << fused;
}

}  // namespace
}  // namespace rlx::testing
