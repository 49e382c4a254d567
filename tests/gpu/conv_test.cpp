// Convolutions on the device: against PyTorch, fused with what follows, joined and packed.
#include "ops/convolution/conv.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/products/product.h"
#include "rlx/compile.h"
#include "rlx/device.h"
#include "rlx/dtype.h"
#include "rlx/executable.h"
#include "rlx/graph.h"
#include "rlx/ops/convolution.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/reductions.h"
#include "rlx/report.h"
#include "rlx/tensor.h"
#include "rlx/value.h"
#include "tests/support/compare.h"
#include "tests/support/conv_cases.h"
#include "tests/support/devices.h"
#include "tests/support/sample.h"

namespace rlx::testing {
namespace {

Graph graph_of(const std::string& body) { return parse_graph("graph g {\n" + body + "\n}"); }

// Random leaves, the params of which are given to the executable.
struct Leaves {
  NamedTensors all, inputs;

  explicit Leaves(const Graph& g) {
    std::mt19937 random(11);
    for (const Node& n : g.nodes()) {
      if (!n.op->is(LeafKind::input) && !n.op->is(LeafKind::param)) continue;
      set(g, n.name, random_tensor(n.outputs[0].dtype, n.outputs[0].shape.values(), -2, 2, random));
    }
  }
  void set(const Graph& g, const std::string& name, const Tensor& value) {
    all[name] = value;
    if (g.node(g.find(name)).op->is(LeafKind::input)) inputs[name] = value;
  }
};

NamedTensors run(Executable& exe, const Graph& g, const Leaves& leaves) {
  for (const Node& n : g.nodes()) {
    if (n.op->is(LeafKind::param)) exe.set_param(n.name, leaves.all.at(n.name));
  }
  return exe.run(leaves.inputs);
}

// As much as sums of this many products of numbers in [-2, 2] may be off.
Tolerance sums_of(double terms) { return {.ulps = 8, .terms = terms, .scale = 4 * std::sqrt(terms)}; }

// The plan has this many dispatches in each run; what is computed is what the reference of the graph as it
// was written gives.
void expect_dispatches(const Graph& g, size_t count, double terms, const Device& device = full_device()) {
  Executable exe = compile(g, device);
  std::string steps;
  const std::vector<StepReport> run_steps = exe.plan_report().run;
  for (const StepReport& s : run_steps) steps += s.node + ": " + s.kernel + "\n";
  EXPECT_EQ(run_steps.size(), count) << steps << to_text(*exe.graph());
  const Leaves leaves(g);
  const auto want = run_reference(g, leaves.all);
  for (const auto& [name, got] : run(exe, g, leaves))
    EXPECT_TRUE(close(got, want.at(name), sums_of(terms))) << name << "\n" << steps;
}

// --- PyTorch ---

void expect_pytorch(const Device& device) {
  for (const ConvCase& c : conv_cases()) {
    SCOPED_TRACE(c.name);
    const Node& n = c.graph.node(c.graph.find("y"));
    std::vector<TensorType> types;
    for (const ValueId v : n.inputs) types.push_back(v.is_absent() ? TensorType{} : c.graph.type(v));
    const Tolerance tolerance = n.op->tolerance(types);
    Executable exe = compile(c.graph, device);
    EXPECT_TRUE(close(exe.run(c.inputs).at("y"), RefTensor::from(c.y), tolerance));
    // Weights that are params are packed once, before the first run.
    std::string text = to_text(c.graph);
    for (const std::string leaf : {"w", "bias"}) {
      const std::string input = "%" + leaf + " = input";
      if (const size_t at = text.find(input); at != std::string::npos)
        text.replace(at, input.size(), "%" + leaf + " = param");
    }
    Executable packed = compile(parse_graph(text), device);
    NamedTensors inputs = c.inputs;
    for (const char* leaf : {"w", "bias"}) {
      if (const auto found = inputs.find(leaf); found != inputs.end()) {
        packed.set_param(leaf, found->second);
        inputs.erase(found);
      }
    }
    EXPECT_TRUE(close(packed.run(inputs).at("y"), RefTensor::from(c.y), tolerance)) << "packed";
  }
}

TEST(ConvOnDevice, IsPyTorchs) { expect_pytorch(full_device()); }
TEST(ConvOnDevice, IsPyTorchsUnderSmallLimits) { expect_pytorch(small_device()); }

// --- plans ---

// One dispatch, nothing rearranged before or after it.
TEST(ConvOnDevice, WithKernelsOfOneIsAPlainProduct) {
  const auto one = [](const std::string& x, const std::string& w, const std::string& attributes) {
    return graph_of("%x = input : " + x + "\n%w = param : " + w + "\n%y = conv(%x, %w)" + attributes +
                    "\noutput y = %y");
  };
  expect_dispatches(one("f32[2, 8, 5, 6]", "f32[12, 8, 1, 1]", ""), 1, 8);
  expect_dispatches(one("f32[2, 8, 5, 6]", "f32[12, 8, 1, 1]", " {strides=[2, 1]}"), 1, 8);
  expect_dispatches(one("f32[2, 5, 6, 8]", "f32[12, 8, 1, 1]", " {layout=\"channels_last\"}"), 1, 8);
  expect_dispatches(one("f32[2, 8, 5, 6]", "f32[12, 4, 1, 1]", " {groups=2}"), 1, 4);
  // With windows too: there is no matrix of them.
  expect_dispatches(one("f32[2, 8, 5, 6]", "f32[12, 8, 3, 3]", " {pads=[1, 1, 1, 1]}"), 1, 72);
}

const char* const kTail = R"(
  %x = input : f32[2, 4, 9, 7]
  %w = param : f32[6, 4, 3, 3]
  %b = param : f32[6, 1, 1]
  %s = param : f32[6, 1, 1]
  %r = input : f32[2, 6, 9, 7]
  %c = conv(%x, %w) {pads=[1, 1, 1, 1]}
  %d = add(%c, %b)
  %e = mul(%d, %s)
  %f = relu(%e)
  %y = add(%f, %r)
  output y = %y)";

TEST(ConvOnDevice, TakesBiasScaleActivationAndResidual) {
  expect_dispatches(graph_of(kTail), 1, 36);
  expect_dispatches(graph_of(R"(
    %x = input : f32[1, 9, 7, 4]
    %w = param : f32[6, 4, 3, 3]
    %b = param : f32[6]
    %r = input : f32[1, 7, 5, 6]
    %c = conv(%x, %w, %b) {layout="channels_last"}
    %d = silu(%c)
    %y = add(%d, %r)
    output y = %y)"),
                    1, 36);
}

// What a value that spreads does is the same, fused or not: at the border, where the padding is, and inside.
TEST(ConvOnDevice, FusedOrNotSpreadsNaNAndInfinity) {
  const Graph g = graph_of(kTail);
  Executable fused = compile(g, full_device());
  Executable plain = compile(g, full_device(), {.optimize = false});
  const double inf = std::numeric_limits<double>::infinity();
  const Leaves usual(g);
  for (const char* leaf : {"x", "w", "r"}) {
    for (const double bad : {inf, -inf, std::nan("")}) {
      Leaves leaves = usual;
      const Tensor& t = usual.all.at(leaf);
      std::vector<double> values = t.doubles();
      for (const size_t at : {size_t{0}, values.size() / 2, values.size() - 1}) values[at] = bad;
      leaves.set(g, leaf, Tensor::from_doubles(t.dtype(), t.shape(), values));
      const auto want = run_reference(g, leaves.all);
      EXPECT_TRUE(close(run(fused, g, leaves).at("y"), want.at("y"), sums_of(36))) << leaf << " " << bad;
      EXPECT_TRUE(close(run(plain, g, leaves).at("y"), want.at("y"), sums_of(36))) << leaf << " " << bad;
    }
  }
}

// Two convolutions of one input are one, which reads the input once.
TEST(ConvOnDevice, JoinedEqualsSeparate) {
  for (const std::string layout : {"channels_first", "channels_last"}) {
    const bool last = layout == "channels_last";
    const Graph g = graph_of(std::string("%x = input : ") + (last ? "f32[2, 7, 6, 5]" : "f32[2, 5, 7, 6]") +
                             R"(
      %w = param : f32[3, 5, 3, 3]
      %u = param : f32[8, 5, 3, 3]
      %b = param : f32[3]
      %c = param : f32[8]
      %p = conv(%x, %w, %b) {pads=[1, 1, 1, 1], layout=")" +
                             layout + R"("}
      %q = conv(%x, %u, %c) {pads=[1, 1, 1, 1], layout=")" +
                             layout + R"("}
      %m = max(%p) {axes=[1]}
      %n = max(%q) {axes=[1]}
      output p = %m
      output q = %n)");
    expect_dispatches(g, 3, 45);
    expect_dispatches(g, 3, 45, small_device());
  }
}

// Past all bindings: the image in rows, each with what it needs of x, and their tails.
TEST(ConvOnDevice, LargeImagesWithTailsUnderSmallLimits) {
  const Graph g = graph_of(R"(
    %x = input : f32[1, 40, 65, 63]
    %w = param : f32[9, 40, 3, 3]
    %r = input : f32[1, 9, 33, 32]
    %c = conv(%x, %w) {pads=[1, 1, 1, 1], strides=[2, 2]}
    %d = add(%c, %r)
    %y = relu(%d)
    output y = %y)");
  Executable exe = compile(g, small_device());
  const Leaves leaves(g);
  const auto want = run_reference(g, leaves.all);
  EXPECT_TRUE(close(run(exe, g, leaves).at("y"), want.at("y"), sums_of(360)));
}

// Parts of such an image may lie in the padding alone.
TEST(ConvOnDevice, LargePaddingUnderSmallLimits) {
  for (const char* layout : {"channels_first", "channels_last"}) {
    const bool last = std::string_view(layout) == "channels_last";
    const Graph g =
        graph_of(std::string("%x = input : ") + (last ? "f32[1, 4, 49, 800]" : "f32[1, 800, 4, 49]") +
                 "\n%w = param : f32[2, 800, 2, 3]\n%y = conv(%x, %w) {pads=[9, 1, 13, 2], layout=\"" +
                 layout + "\"}\noutput y = %y");
    Executable exe = compile(g, small_device());
    const Leaves leaves(g);
    const auto want = run_reference(g, leaves.all);
    EXPECT_TRUE(close(run(exe, g, leaves).at("y"), want.at("y"), sums_of(4800))) << layout;
  }
}

// A transposed convolution adds no zeros to x: a tap that reaches no element of it is no part of a sum,
// whatever its weight. In convolutions the zeros of the padding are multiplied.
TEST(ConvOnDevice, InfiniteWeightsOfTapsThatReachNothing) {
  const auto inf = std::numeric_limits<float>::infinity();
  const auto expect_alike = [&](const std::string& body, const std::string& op, const std::string& kernel,
                                const Device& device) {
    SCOPED_TRACE(body + ", " + kernel);
    const Graph g = graph_of(body);
    Leaves leaves(g);
    std::vector<double> w = leaves.all.at("w").doubles();
    w[0] = inf;
    w[w.size() / 2] = -inf;
    w.back() = std::numeric_limits<double>::quiet_NaN();
    leaves.set(g, "w", Tensor::from_doubles(DType::f32, leaves.all.at("w").shape(), w));
    CompileOptions options;
    if (!kernel.empty()) options.kernels = {{op, kernel}};
    Executable exe = compile(g, device, options);
    const RefTensor want = run_reference(g, leaves.all).at("y");
    const Tensor got = run(exe, g, leaves).at("y");
    int64_t numbers = 0;
    for (int64_t i = 0; i < got.elements(); ++i) {
      const double a = got.real(i);
      const double b = want.real[static_cast<size_t>(i)];
      numbers += std::isfinite(b);
      ASSERT_TRUE(std::isnan(b) ? std::isnan(a) : a == b || std::abs(a - b) < 1e-4)
          << i << ": " << a << ", " << b;
    }
    EXPECT_GT(numbers, 0);
    EXPECT_LT(numbers, got.elements());
  };
  const auto transposed = [](const std::string& attributes, const std::string& x = "f32[2, 5, 4, 3]") {
    return "%x = input : " + x +
           "\n%w = param : f32[5, 6, 3, 3]\n%b = param : f32[6]\n%y = conv_transpose(%x, %w, %b)" +
           attributes + "\noutput y = %y";
  };
  for (const std::string& kernel : products::variant_names())
    expect_alike(transposed(""), "conv_transpose", kernel, full_device());
  expect_alike(transposed(" {strides=[2, 1], pads=[1, 0, 1, 2], output_padding=[1, 0]}"), "conv_transpose",
               "", full_device());
  expect_alike(transposed(" {layout=\"channels_last\", dilations=[1, 2]}", "f32[2, 4, 3, 5]"),
               "conv_transpose", "", full_device());
  expect_alike(transposed(" {strides=[3, 3]}"), "conv_transpose", "", full_device());
  expect_alike(transposed(" {strides=[2, 2]}", "f32[1, 5, 60, 70]"), "conv_transpose", "", small_device());
  for (const std::string kernel : {"slide", "taps"}) {
    const std::string weights = "\n%w = param : f32[5, 1, 3, 3]\n";
    expect_alike("%x = input : f32[2, 5, 4, 6]" + weights +
                     "%y = conv_transpose(%x, %w) {groups=5, pads=[1, 0, 1, 2]}\noutput y = %y",
                 "conv_transpose", kernel, full_device());
    expect_alike("%x = input : f32[2, 5, 4, 6]" + weights +
                     "%y = conv(%x, %w) {groups=5, pads=[1, 1, 1, 1]}\noutput y = %y",
                 "conv", kernel, full_device());
  }
  expect_alike(
      "%x = input : f32[2, 1, 90]\n%w = param : f32[9, 1, 12]\n%y = conv(%x, %w) {strides=[4], pads=[5, 9]}\n"
      "output y = %y",
      "conv", "", full_device());
  for (const std::string kernel : {"rows", "tiled", "taps", "plain"}) {
    expect_alike(
        "%x = input : f32[2, 5, 4, 6]\n%w = param : f32[6, 5, 3, 3]\n%y = conv(%x, %w) {pads=[1, 1, 1, 1]}\n"
        "output y = %y",
        "conv", kernel, full_device());
  }
}

// Filters whose channels lie side by side, six to a tap: fours of them must not reach into the next tap.
TEST(ConvOnDevice, FiltersInAnotherOrder) {
  for (const std::string layout : {"channels_first", "channels_last"}) {
    const bool last = layout == "channels_last";
    expect_dispatches(graph_of(std::string("%x = input : ") + (last ? "f32[1, 6, 5, 6]" : "f32[1, 6, 6, 5]") +
                               "\n%v = input : f32[12, 2, 1, 6]\n%w = transpose(%v) {perm=[0, 3, 1, 2]}\n"
                               "%y = conv(%x, %w) {layout=\"" +
                               layout + "\"}\noutput y = %y"),
                      1, 12);
  }
}

// Several neighbouring windows of one channel by one invocation, as many as there can be.
TEST(ConvOnDevice, NeighbouringWindowsTogether) {
  const std::string first =
      "%x = input : f32[2, 3, 9, 17]\n%w = param : f32[3, 1, 3, 3]\n%r = input : f32[2, 3, 9, 17]\n"
      "%c = conv(%x, %w) {groups=3, pads=[1, 1, 1, 1]}\n%y = add(%c, %r)\noutput y = %y";
  const std::string last =
      "%x = input : f32[2, 9, 17, 3]\n%w = param : f32[6, 1, 2, 3]\n%b = param : f32[6]\n"
      "%c = conv(%x, %w, %b) {layout=\"channels_last\", groups=3, dilations=[2, 1], pads=[2, 2, 1, 0]}\n"
      "%y = relu(%c)\noutput y = %y";
  const std::string strided =
      "%x = input : f32[1, 257, 40]\n%w = param : f32[257, 1, 7]\n"
      "%y = conv(%x, %w) {groups=257, strides=[2], pads=[3, 4]}\noutput y = %y";
  const std::pair<std::string, const char*> cases[] = {
      {first, "ROWS=1 WIDE=16 ACROSS=0 LANES=8"},  {first, "ROWS=4 WIDE=8 ACROSS=0 LANES=64"},
      {first, "ROWS=2 WIDE=4 ACROSS=1 LANES=8"},   {last, "ROWS=4 WIDE=4 ACROSS=1 LANES=8"},
      {last, "ROWS=2 WIDE=8 ACROSS=0 LANES=8"},    {strided, "ROWS=1 WIDE=8 ACROSS=1 LANES=64"},
      {strided, "ROWS=1 WIDE=16 ACROSS=0 LANES=8"}};
  for (const auto& [body, constants] : cases) {
    SCOPED_TRACE(constants);
    const Graph g = graph_of(body);
    Executable exe = compile(g, full_device(), {.kernels = {{"conv", std::string("slide ") + constants}}});
    ASSERT_EQ(exe.plan_report().run.size(), 1);
    EXPECT_EQ(exe.plan_report().run[0].kernel, "loop_slide");
    const Leaves leaves(g);
    const auto want = run_reference(g, leaves.all);
    EXPECT_TRUE(close(run(exe, g, leaves).at("y"), want.at("y"), sums_of(9)));
  }
}

// A spectrum as a convolution: one product over windows where they lie, also under limits that cut them.
TEST(ConvOnDevice, LongKernelsOfOneChannel) {
  const auto spectrum = [](const std::string& samples, const std::string& attributes) {
    return "%x = input : f32[2, 1, " + samples +
           "]\n%w = param : f32[34, 1, 64]\n%y = conv(%x, %w) {strides=[16]" + attributes +
           "}\noutput y = %y";
  };
  for (const char* attributes : {"", ", pads=[31, 40]"}) {
    expect_dispatches(graph_of(spectrum("1617", attributes)), 1, 64);
    const Graph large = graph_of(spectrum("16017", attributes));
    Executable exe = compile(large, small_device());
    const Leaves leaves(large);
    EXPECT_TRUE(
        close(run(exe, large, leaves).at("y"), run_reference(large, leaves.all).at("y"), sums_of(64)));
  }
}

// Sizes that are known only when the graph runs.
TEST(ConvOnDevice, SymbolicSizesOfSound) {
  Graph g;
  const Value x = g.input("x", DType::f32, {"n", 1, "samples"});
  const Value spectrum = conv(x, g.param("w", DType::f32, {16, 1, 32}), {}, {.strides = {8}});
  const Value mixed = conv(spectrum, g.param("u", DType::f32, {16, 1, 5}), g.param("b", DType::f32, {16}),
                           {.pads = {2, 2}, .groups = 16});
  g.output("y", relu(mixed));
  Executable exe = compile(g, full_device());
  for (const auto& [n, samples] : {std::pair<int64_t, int64_t>{1, 32}, {2, 333}, {1, 1000}}) {
    const Graph bound = bind_symbols(g, {{"n", n}, {"samples", samples}});
    const Leaves leaves(bound);
    const auto want = run_reference(bound, leaves.all);
    EXPECT_TRUE(close(run(exe, bound, leaves).at("y"), want.at("y"), sums_of(160)));
  }
}

// Sizes that are known only when the graph runs.
TEST(ConvOnDevice, SymbolicSizes) {
  Graph g;
  const Value x = g.input("x", DType::f32, {"n", 3, "h", 8});
  const Value w = g.param("w", DType::f32, {5, 3, 3, 3});
  g.output("y", relu(conv(x, w, g.param("b", DType::f32, {5}), {.strides = {2, 1}, .pads = {1, 1, 1, 1}})));
  Executable exe = compile(g, full_device());
  for (const auto& [n, h] : {std::pair<int64_t, int64_t>{1, 5}, {2, 8}, {1, 5}}) {
    const Graph bound = bind_symbols(g, {{"n", n}, {"h", h}});
    const Leaves leaves(bound);
    const auto want = run_reference(bound, leaves.all);
    EXPECT_TRUE(close(run(exe, bound, leaves).at("y"), want.at("y"), sums_of(27)));
  }
}

}  // namespace
}  // namespace rlx::testing
