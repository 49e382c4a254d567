// Encoded tensors on the device: decoded by copies and gathers through every kind of view and under small
// limits, and read in blocks by products.
#include "encodings/encoding.h"

#include <gtest/gtest.h>

#include <cmath>

#include "gpu/device.h"
#include "kernels/binder.h"
#include "kernels/candidate.h"
#include "kernels/copy.wgsl.h"
#include "rlx/compile.h"
#include "rlx/device.h"
#include "rlx/diagnostics.h"
#include "rlx/dtype.h"
#include "rlx/executable.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/rearrange.h"
#include "rlx/report.h"
#include "rlx/shape.h"
#include "rlx/tensor.h"
#include "rlx/value.h"
#include "tests/support/compare.h"
#include "tests/support/devices.h"
#include "tests/support/encoded.h"
#include "tests/support/full.h"
#include "tests/support/message.h"
#include "tests/support/sample.h"

namespace rlx::testing {
namespace {

class EncodingsOnDevice : public ::testing::TestWithParam<DType> {
 protected:
  DType dtype() const { return GetParam(); }
  int64_t block() const { return block_elements(dtype()); }

  // Runs the graph and compares every output with the reference.
  static void expect_right(const Graph& g, const Device& device, const NamedTensors& params,
                           const NamedTensors& inputs, const Tolerance& tolerance) {
    Executable exe = compile(g, device);
    for (const auto& [name, value] : params) exe.set_param(name, value);
    NamedTensors leaves = params;
    leaves.insert(inputs.begin(), inputs.end());
    const auto want = run_reference(g, leaves);
    for (const auto& [name, got] : exe.run(inputs)) EXPECT_TRUE(close(got, want.at(name), tolerance)) << name;
  }

  // Decoding is a product and a difference, each rounded once; values are of the size of a few tens.
  static constexpr Tolerance kDecoded{.ulps = 2, .scale = 32};

  // A reader for every layout of [rows, blocks, block()].
  Graph views(int64_t rows, int64_t blocks, bool param) const {
    Graph g;
    const Shape shape{rows, blocks, block()};
    const Value w = param ? g.param("w", dtype(), shape) : g.input("w", dtype(), shape);
    const Value i = g.input("i", DType::i32, {5});
    g.output("all", w);
    g.output("rows", slice(w, 0, 1, rows - 2));
    g.output("columns", slice(w, 2, 3, block() - 10));
    g.output("backwards", slice(w, 0, rows - 1, rows, -1));
    g.output("transposed", transpose(w, {2, 0, 1}));
    g.output("reshaped", reshape(w, {blocks * rows * block() / 16, 16}));
    g.output("gathered", gather(w, i));
    g.output("gathered_inside", gather(transpose(w, {1, 2, 0}), i, 1));
    g.output("computed", abs(slice(w, 1, blocks - 1, 1)) * 2.0);
    g.output("last", slice(slice(w, 0, rows - 1, 1), 1, blocks - 1, 1));
    return g;
  }

  Tensor indices() const { return Tensor::of<int32_t>({5}, {0, -1, 2, 1, 100}); }
};

std::vector<DType> all_types() {
  std::vector<DType> out;
  for (const Encoding& e : encoding_table().all()) out.push_back(e.dtype);
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, EncodingsOnDevice, ::testing::ValuesIn(all_types()),
                         [](const auto& test) { return std::string(to_string(test.param)); });

TEST_P(EncodingsOnDevice, DecodeWhatLibggmlDecodes) {
  const Tensor values = encoded_fixture().tensor(formatted("{}.values", to_string(dtype())));
  Graph g;
  g.output("y", g.param("w", dtype(), {values.elements()}));
  Executable exe = compile(g, full_device());
  exe.set_param("w", ggml_tensor(dtype(), {values.elements()}));
  EXPECT_TRUE(close(exe.run({}).at("y"), RefTensor::from(values), kDecoded));
}

// The row of a product that has such a block, and no other.
TEST_P(EncodingsOnDevice, ScalesThatAreNaNSpread) {
  if (!is_quick(dtype())) GTEST_SKIP() << "only in a full run";
  if (dtype() == DType::mxfp4 || dtype() == DType::nvfp4) GTEST_SKIP() << "has no scale that is NaN";
  const Tensor good = ggml_tensor(dtype(), {3, block()});
  std::vector<std::byte> bytes(good.bytes().begin(), good.bytes().end());
  const auto size = static_cast<size_t>(encoding_of(dtype()).block_bytes);
  std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(size), size, std::byte{0xff});
  Graph g;
  const Value w = g.param("w", dtype(), {3, block()});
  g.output("w", w);
  g.output("y", matmul(g.input("x", DType::f32, {1, block()}), transpose(w)));
  Executable exe = compile(g, full_device());
  exe.set_param("w", Tensor(dtype(), {3, block()}, std::move(bytes)));
  const auto out = exe.run({{"x", Tensor::full(DType::f32, {1, block()}, 0.5)}});
  for (int64_t i = 0; i < 3 * block(); ++i) EXPECT_EQ(std::isnan(out.at("w").real(i)), i / block() == 1) << i;
  for (int64_t row = 0; row < 3; ++row) EXPECT_EQ(std::isnan(out.at("y").real(row)), row == 1) << row;
}

// Rows of an odd number of blocks begin inside a pair, where blocks lie in pairs.
TEST_P(EncodingsOnDevice, AreReadThroughViews) {
  if (!is_quick(dtype())) GTEST_SKIP() << "only in a full run";
  for (const int64_t blocks : {1, 2, 3}) {
    SCOPED_TRACE(blocks);
    const Tensor w = ggml_tensor(dtype(), {5, blocks, block()});
    expect_right(views(5, blocks, true), full_device(), {{"w", w}}, {{"i", indices()}}, kDecoded);
    expect_right(views(5, blocks, false), full_device(), {}, {{"w", w}, {"i", indices()}}, kDecoded);
  }
}

// Uploaded in several pieces.
TEST_P(EncodingsOnDevice, AreDecodedBeyondTheFirstMegabytes) {
  const int64_t rows = (int64_t{9} << 20) / encoding_of(dtype()).block_bytes / 2 * 2 + 1;
  Graph g;
  const Value w = g.param("w", dtype(), {rows, block()});
  g.output("y", gather(w, g.input("i", DType::i32, {64})));
  std::vector<int32_t> at;
  for (int64_t i = 0; i < 64; ++i) at.push_back(static_cast<int32_t>(i * (rows - 1) / 63));
  expect_right(g, full_device(), {{"w", ggml_tensor(dtype(), {rows, block()})}},
               {{"i", Tensor::of<int32_t>({64}, at)}}, kDecoded);
}

// With eight bindings of 64 KiB: tensors that lie in several of them, decoded in one dispatch or in parts,
// and one that is more than all of them hold.
TEST_P(EncodingsOnDevice, AreReadInPiecesWhereABindingIsTooSmall) {
  if (!is_quick(dtype())) GTEST_SKIP() << "only in a full run";
  for (const int64_t bytes : {1 << 15, 3 << 16, 9 << 16}) {
    const int64_t rows = bytes / (3 * encoding_of(dtype()).block_bytes) / 2 * 2 + 3;
    const Tensor w = ggml_tensor(dtype(), {rows, 3, block()});
    const Tensor i = Tensor::of<int32_t>({5}, {0, -1, static_cast<int32_t>(rows / 2), 1, 1 << 30});
    expect_right(views(rows, 3, true), small_device(), {{"w", w}}, {{"i", i}}, kDecoded);
  }
}

// Slices from the second block of a pair on, where a binding may begin between the bytes of the two.
TEST_P(EncodingsOnDevice, ASliceFindsWhatItsFirstBlockSharesWithTheOneBefore) {
  const int64_t bytes = encoding_of(dtype()).block_bytes;
  const int64_t rows = (3 << 16) / bytes / 2 * 2 + 1;  // more than a binding, so that slices are bound alone
  Graph g;
  const Value w = g.param("w", dtype(), {rows, block()});
  for (int64_t at = 1; at < 100; at += 2) {
    if ((at - 1) * bytes / kBindingAlignment == at * bytes / kBindingAlignment) continue;
    g.output(formatted("one{}", at), slice(w, 0, at, 1));
    g.output(formatted("two{}", at), slice(w, 0, at, 2));
  }
  EXPECT_GE(g.outputs().size(), 6u);
  expect_right(g, small_device(), {{"w", ggml_tensor(dtype(), {rows, block()})}}, {}, kDecoded);
}

TEST_P(EncodingsOnDevice, LeavesOfEveryKindAndEachBeforeAnother) {
  if (!is_quick(dtype())) GTEST_SKIP() << "only in a full run";
  Graph g;
  // Neighbours in memory whose bytes are no multiple of four.
  const Value a = g.param("a", dtype(), {block()});
  const Value b = g.param("b", dtype(), {3, block()});
  const Value c = g.constant(ggml_tensor(dtype(), {block()}));
  const Value x = g.input("x", DType::f32, {3, block()});
  g.output("y", (a + b) * x + c);
  g.output("p", matmul(x, transpose(b)) + slice(transpose(slice(b, 1, 0, 1)), 0, 0, 1));
  const double terms = static_cast<double>(block());
  expect_right(g, full_device(),
               {{"a", ggml_tensor(dtype(), {block()})}, {"b", ggml_tensor(dtype(), {3, block()})}},
               {{"x", Tensor::full(DType::f32, {3, block()}, 0.5)}},
               {.ulps = 4, .terms = terms, .scale = 32 * std::sqrt(terms)});
}

// --- products ---

// A product of x [.., k] with weights [n, k], of which `weight` makes what matmul takes, and what follows it.
struct WeightCase {
  std::vector<int64_t> x;
  std::vector<int64_t> weight;
  std::function<Value(Value)> view = [](Value w) { return transpose(w); };
  std::function<Value(Graph&, Value)> tail = [](Graph&, Value y) { return y; };
};

class EncodedWeights : public EncodingsOnDevice {
 protected:
  // Compares with sums in double of the numbers that libggml decodes.
  void run(const WeightCase& c, const Device& device = full_device(), const CompileOptions& options = {}) {
    const auto graph = [&](DType weight) {
      Graph g;
      const Value x = g.input("x", DType::f32, Shape(c.x));
      g.output("y", c.tail(g, matmul(x, c.view(g.param("w", weight, Shape(c.weight))))));
      return g;
    };
    std::mt19937 random(3);
    const Tensor x = random_tensor(DType::f32, c.x, -1, 1, random);
    const auto want = run_reference(graph(DType::f32), {{"x", x}, {"w", ggml_values(dtype(), c.weight)}});
    Executable exe = compile(graph(dtype()), device, options);
    const Tensor w = ggml_tensor(dtype(), c.weight);
    exe.set_param("w", w);
    const auto terms = static_cast<double>(c.x.back());
    EXPECT_TRUE(close(exe.run({{"x", x}}).at("y"), want.at("y"),
                      {.ulps = 8, .terms = terms, .scale = 32 * std::sqrt(terms)}))
        << Shape(c.x).text();
    report_ = exe.plan_report();
    weight_bytes_ = static_cast<int64_t>(w.byte_size());
  }

  // The last run read the blocks where they are.
  void expect_packed() {
    for (const StepReport& step : report_.run) EXPECT_NE(step.op, "contiguous") << step.node;
    EXPECT_TRUE(report_.load.empty());
    EXPECT_EQ(report_.memory.derived_bytes, 0);
    EXPECT_GE(report_.memory.weight_bytes, weight_bytes_);
    EXPECT_LT(report_.memory.weight_bytes, weight_bytes_ + 512);
  }

  PlanReport report_;
  int64_t weight_bytes_ = 0;
};

INSTANTIATE_TEST_SUITE_P(All, EncodedWeights, ::testing::ValuesIn(all_types()),
                         [](const auto& test) { return std::string(to_string(test.param)); });

TEST_P(EncodedWeights, AreReadInBlocks) {
  for (const int64_t blocks : {3, 2, 1}) {
    if (short_run() && !is_quick(dtype()) && blocks < 3) break;
    const int64_t k = blocks * block();
    const std::vector<std::vector<int64_t>> shapes = {{1, k}, {3, k}, {7, k}, {33, k}, {2, 3, k}, {k}};
    for (const std::vector<int64_t>& x : shapes) {
      run({.x = x, .weight = {21, k}});
      expect_packed();
    }
    // Few columns: the weights are the left factor of the transposed product.
    run({.x = {33, k}, .weight = {3, k}});
    expect_packed();
  }
}

TEST_P(EncodedWeights, WithAnEpilogue) {
  if (!is_quick(dtype())) GTEST_SKIP() << "only in a full run";
  const int64_t k = 2 * block();
  for (const int64_t m : {1, 7}) {
    run({.x = {m, k}, .weight = {20, k}, .tail = [](Graph& g, Value y) {
           std::vector<double> bias(20);
           for (size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<double>(i);
           return relu(y + g.constant(Tensor::from_doubles(DType::f32, {20}, bias))) * 0.5;
         }});
    EXPECT_EQ(report_.run.size(), 1u);
  }
}

// Some rows, some of the batches, a batch of weights for a batch of rows, and rows backwards.
TEST_P(EncodedWeights, ThroughViewsOfOuterAxes) {
  if (!is_quick(dtype())) GTEST_SKIP() << "only in a full run";
  const int64_t k = 2 * block();
  run({.x = {5, k}, .weight = {20, k}, .view = [](Value w) { return transpose(slice(w, 0, 3, 11)); }});
  expect_packed();
  run({.x = {5, k}, .weight = {20, k}, .view = [](Value w) { return transpose(slice(w, 0, 19, 7, -2)); }});
  expect_packed();
  run({.x = {5, k}, .weight = {3, 20, k}, .view = [k](Value w) {
         return transpose(reshape(slice(w, 0, 1, 1), {20, k}));
       }});
  expect_packed();
  run({.x = {3, 5, k}, .weight = {3, 20, k}, .view = [](Value w) { return transpose(w, {0, 2, 1}); }});
  expect_packed();
  run({.x = {20, 5, k}, .weight = {3, 20, k}, .view = [](Value w) { return transpose(w, {1, 2, 0}); }});
  expect_packed();
  // Whole groups of k.
  run({.x = {5, block()}, .weight = {20, k}, .view = [this](Value w) {
         return transpose(slice(w, 1, block(), block()));
       }});
  expect_packed();
  // Rows that begin with the second block of a pair, the last of which has none after it.
  const int64_t odd = 3 * block();
  run({.x = {5, odd}, .weight = {21, odd}, .view = [](Value w) { return transpose(slice(w, 0, 3, 18)); }});
  expect_packed();
  run({.x = {5, odd}, .weight = {3, 7, odd}, .view = [odd](Value w) {
         return transpose(reshape(slice(w, 0, 1, 1), {7, odd}));
       }});
  expect_packed();
  run({.x = {3, 5, odd}, .weight = {3, 7, odd}, .view = [](Value w) { return transpose(w, {0, 2, 1}); }});
  expect_packed();
}

// Blocks along the columns, or lines that begin inside a group: decoded first.
TEST_P(EncodedWeights, InAnotherOrderAreDecoded) {
  const int64_t n = block();
  const auto decodes = [&] {
    return std::ranges::any_of(report_.load, [](const StepReport& s) { return s.op == "contiguous"; }) ||
           std::ranges::any_of(report_.run, [](const StepReport& s) { return s.op == "contiguous"; });
  };
  run({.x = {5, 20}, .weight = {20, n}, .view = [](Value w) { return w; }});
  EXPECT_TRUE(decodes());
  run({.x = {5, n - 4}, .weight = {20, n}, .view = [&](Value w) {
         return transpose(slice(w, 1, 4, n - 4));
       }});
  EXPECT_TRUE(decodes());
}

TEST_P(EncodedWeights, WithEveryLoop) {
  if (!is_quick(dtype())) GTEST_SKIP() << "only in a full run";
  const int64_t k = 2 * block();
  for (const char* kernel : {"rows", "staged", "dot", "tiled", "plain", "split_k"}) {
    SCOPED_TRACE(kernel);
    run({.x = {9, k}, .weight = {20, k}}, full_device(), {.kernels = {{"matmul", kernel}}});
    expect_packed();
    EXPECT_TRUE(has_words(report_.run.front().variant, kernel)) << report_.run.front().variant;
  }
}

// Eight lanes share 256 elements, in the formats that have a text for it.
TEST_P(EncodedWeights, InEighths) {
  if (!encoding_of(dtype()).wgsl.contains("fn x_eighth(")) GTEST_SKIP() << "not in this format";
  const CompileOptions forced{.kernels = {{"matmul", "eighths"}}};
  const auto expect_eighths = [&] {
    expect_packed();
    EXPECT_TRUE(std::ranges::any_of(report_.run, [](const StepReport& s) { return s.variant == "eighths"; }));
  };
  for (const int64_t n : {1, 16, 37}) {
    run({.x = {1, 768}, .weight = {n, 768}}, full_device(), forced);
    expect_eighths();
  }
  if (short_run() && !is_quick(dtype())) return;
  run({.x = {3, 512}, .weight = {20, 512}}, full_device(), forced);
  expect_eighths();
  run({.x = {3, 2, 256}, .weight = {3, 20, 256}, .view = [](Value w) { return transpose(w, {0, 2, 1}); }},
      full_device(), forced);
  expect_eighths();
  run({.x = {1, 256},
       .weight = {20, 768},
       .view = [](Value w) { return transpose(slice(slice(w, 0, 19, 7, -2), 1, 256, 256)); }},
      full_device(), forced);
  expect_eighths();
  run({.x = {1, 512}, .weight = {20, 512}, .tail = [](Graph&, Value y) { return relu(y) * 0.5; }},
      full_device(), forced);
  expect_eighths();
  // Cut where bindings end.
  run({.x = {1, 1024}, .weight = {301, 1024}}, small_device(), forced);
}

// Weights in one binding of 64 KiB, in several, and past all of them.
TEST_P(EncodedWeights, UnderSmallLimits) {
  if (!is_quick(dtype())) GTEST_SKIP() << "only in a full run";
  const Encoding& e = encoding_of(dtype());
  for (const int64_t bytes : {1 << 15, 3 << 16, 9 << 16}) {
    const int64_t n = bytes / (3 * e.block_bytes) / 2 * 2 + 3;
    run({.x = {3, 3 * block()}, .weight = {n, 3 * block()}}, small_device());
    expect_packed();
  }
  // Long lines: sums in parts.
  for (const int64_t more : {0, 1}) {
    const int64_t k = ((3 << 15) / e.block_bytes + more) * block();
    run({.x = {2, k}, .weight = {5, k}}, small_device());
    expect_packed();
  }
}

// Several products of one input, which are not joined: that would decode their weights.
TEST_P(EncodedWeights, OfOneInputStayApart) {
  const int64_t k = block();
  Graph g;
  const Value x = g.input("x", DType::f32, {3, k});
  const Value u = g.param("u", dtype(), {8, k});
  const Value v = g.param("v", dtype(), {4, k});
  g.output("p", matmul(x, transpose(u)));
  g.output("q", matmul(x, transpose(v)));
  Executable exe = compile(g, full_device());
  const PlanReport report = exe.plan_report();
  EXPECT_TRUE(report.load.empty());
  EXPECT_EQ(report.run.size(), 2u);
  const auto terms = static_cast<double>(k);
  expect_right(g, full_device(), {{"u", ggml_tensor(dtype(), {8, k})}, {"v", ggml_tensor(dtype(), {4, k})}},
               {{"x", Tensor::full(DType::f32, {3, k}, 0.5)}},
               {.ulps = 4, .terms = terms, .scale = 32 * std::sqrt(terms)});
}

TEST_P(EncodingsOnDevice, RowsOfAnInputMayBeSymbolic) {
  Graph g;
  g.set_capacity("n", 9);
  const Value w = g.input("w", dtype(), {"n", block()});
  g.output("y", w * 2.0);
  Executable exe = compile(g, full_device());
  for (const int64_t n : {2, 9, 4, 1, 3}) {
    const Tensor value = ggml_tensor(dtype(), {n, block()});
    const Tensor y = exe.run({{"w", value}}).at("y");
    EXPECT_EQ(y.shape(), (std::vector<int64_t>{n, block()}));
    std::vector<double> doubled = value.doubles();
    for (double& v : doubled) v *= 2;
    const Tensor want = Tensor::from_doubles(DType::f32, {n, block()}, doubled);
    EXPECT_TRUE(close(y, RefTensor::from(want), kDecoded)) << n;
    // By the length of the bytes alone.
    std::vector<float> out(static_cast<size_t>(n * block()));
    exe.run({InputRef{"w", dtype(), value.bytes().data(), value.byte_size(), {}}},
            {OutputRef{"y", DType::f32, out.data(), out.size() * sizeof(float)}});
    EXPECT_EQ(out, y.to_vector<float>());
  }
}

TEST_P(EncodingsOnDevice, NodesCanBeReadAndVerified) {
  if (!is_quick(dtype())) GTEST_SKIP() << "only in a full run";
  for (const int64_t rows : {2, 3}) {
    Graph g;
    const Value w = g.param("w", dtype(), {rows, block()});
    const Value t = transpose(w).named("t");
    g.output("y", abs(t));
    g.output("z", abs(g.input("x", dtype(), {rows, block()})));
    Executable exe = compile(g, full_device(), {.keep_intermediates = true});
    const Tensor value = ggml_tensor(dtype(), {rows, block()});
    exe.set_param("w", value);
    exe.run({{"x", value}});
    EXPECT_EQ(exe.value("w").doubles(), value.doubles());
    EXPECT_EQ(exe.value("x").doubles(), value.doubles());
    EXPECT_EQ(exe.value("t").real(1), value.real(block()));
    for (const NodeCheck& check : verify_nodes(exe)) EXPECT_EQ(check.wrong, 0) << check.node;
  }
}

TEST_P(EncodingsOnDevice, MisuseIsAnError) {
  Graph g;
  g.output("y", g.param("w", dtype(), {2, block()}));
  g.output("z", g.input("x", dtype(), {2, block()}));
  Executable exe = compile(g, full_device());
  EXPECT_SAYS(exe.set_param("w", Tensor::full(DType::f32, {2, block()}, 1)), "f32 values were given");
  EXPECT_SAYS(exe.set_param("w", ggml_tensor(dtype(), {1, block()})), "was given");
  EXPECT_SAYS(exe.set_param("w", dtype(), std::vector<std::byte>(5)), "but 5 bytes were given");
  exe.set_param("w", ggml_tensor(dtype(), {2, block()}));
  EXPECT_SAYS(exe.run({{"x", ggml_tensor(dtype(), {1, block()})}}), "was given");
  EXPECT_SAYS(exe.feed("x", "z"), "cannot feed");
  EXPECT_EQ(exe.outputs().at(0).type.dtype, DType::f32);
}

// Kernels that declare an operand encoded are written once for all encodings; here, one that uses all there
// is.
TEST_P(EncodingsOnDevice, GroupsAreReadAsDeclared) {
  const KernelPtr kernel = parse_kernel(
      "//# groups.wgsl 1\n"
      "//@ in weight encoded x4\n"
      "//@ out y float\n"
      "struct Params { first: u32, end: u32, }\n"
      "//@ use flat\n"
      "fn element(i: u32) -> y_t {\n"
      "  let g = weight_group(weight_flat(i));\n"
      "  return dot(weight_group_four(g, i % weight_GROUP / 4u), weight_get4(i & ~3u)) + weight_at(i);\n"
      "}\n");
  const auto device = gpu::Device::open();
  gpu::PipelineRequest request{.label = "groups", .wgsl = default_module_text(kernel, dtype())};
  request.bindings = {gpu::BindingKind::uniform, gpu::BindingKind::uniform, gpu::BindingKind::read,
                      gpu::BindingKind::read_write};
  EXPECT_EQ(message([&] { device->pipeline(request); }), "no error");
}

}  // namespace
}  // namespace rlx::testing
