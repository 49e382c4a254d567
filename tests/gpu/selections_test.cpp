// Scans, orders, quantiles, segments and matrices against NumPy and PyTorch
// (tests/fixtures/make_selections.py), and what samples cannot express: NaN payloads, symbols, several nodes.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <sstream>

#include "base/format.h"
#include "rlx/compile.h"
#include "rlx/device.h"
#include "rlx/dtype.h"
#include "rlx/executable.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/order.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"
#include "rlx/shape.h"
#include "rlx/tensor.h"
#include "rlx/value.h"
#include "tests/support/compare.h"
#include "tests/support/devices.h"
#include "tests/support/encoded.h"
#include "tests/support/fixture_cases.h"
#include "tests/support/message.h"

namespace rlx::testing {
namespace {

// --- NumPy and PyTorch ---

// A function that texts do not have: "@histogram 7 -1.5 2".
Graph function_graph(const FixtureCase& c) {
  std::istringstream words(c.call.substr(1));
  std::string name;
  int64_t size = 0;
  double low = 0, high = 0;
  words >> name >> size >> low >> high;
  Graph g;
  std::map<std::string, Value> in;
  for (const auto& [input, value] : c.inputs) in[input] = g.input(input, value.dtype(), Shape(value.shape()));
  const Value x = in.at("x");
  const Value weights = in.contains("weights") ? in.at("weights") : Value();
  g.output("y0", name == "bincount" ? bincount(x, size, weights) : histogram(x, size, low, high));
  return g;
}

// As many elements as the result has: `unique` has room for all.
Tensor first_of(const Tensor& got, const Tensor& want) {
  if (got.shape() == want.shape()) return got;
  size_t axis = 0;
  while (got.shape()[axis] == want.shape()[axis]) ++axis;
  Graph g;
  const Value x = g.input("x", got.dtype(), Shape(got.shape()));
  g.output("y", slice(x, static_cast<int64_t>(axis), 0, want.shape()[axis]));
  return run_reference(g, {{"x", got}}).at("y").to_tensor();
}

void expect_theirs(const Device* device) {
  const std::vector<FixtureCase> cases = fixture_cases("selections");
  EXPECT_GT(cases.size(), 70u);
  for (const FixtureCase& c : cases) {
    SCOPED_TRACE(c.name + ": " + c.call);
    const bool is_function = c.call.starts_with("@");
    const NamedTensors got = run_or_reference(is_function ? function_graph(c) : c.graph, c.inputs, device);
    const Tolerance tolerance = is_function ? Tolerance{} : rounded_tolerance(c);
    for (size_t i = 0; i < c.results.size(); ++i) {
      const Tensor& y = got.at(formatted("y{}", i));
      EXPECT_TRUE(close(first_of(y, c.results[i]), RefTensor::from(c.results[i]), tolerance)) << i;
    }
  }
}

TEST(Selections, AreNumPysAndPyTorchs) { expect_theirs(&full_device()); }
TEST(Selections, AreNumPysAndPyTorchsUnderSmallLimits) { expect_theirs(&small_device()); }
TEST(Selections, HaveTheSameReference) { expect_theirs(nullptr); }

// --- bitcast ---

std::vector<uint32_t> special_bits() {
  return {0x7f800001, 0x7fc00123, 0xffabcdef, 0x00000001, 0x80000000, 0x3f800000, 0x7f800000, 0xffffffff};
}

TEST(Bitcast, KeepsEveryBit) {
  const std::vector<uint32_t> bits = special_bits();
  const Tensor words = Tensor::of<uint32_t>({2, 4}, bits);
  const Tensor floats(DType::f32, {2, 4}, std::vector(words.bytes().begin(), words.bytes().end()));
  Graph g;
  const Value f = g.input("f", DType::f32, {2, 4});
  const Value u = g.input("u", DType::u32, {2, 4});
  g.output("f as u", bitcast(f, DType::u32));
  g.output("u as f", bitcast(u, DType::f32));
  g.output("round trip", bitcast(transpose(bitcast(transpose(u), DType::f32)), DType::u32));
  g.output("constant", bitcast(g.constant(words), DType::f32));
  g.output("constant back", bitcast(g.constant(floats), DType::u32));
  g.output("sum", bitcast(f, DType::u32) + u);
  const NamedTensors y = compile(g, full_device()).run({{"f", floats}, {"u", words}});
  for (size_t i = 0; i < bits.size(); ++i) {
    for (const char* name : {"f as u", "u as f", "round trip", "constant", "constant back"}) {
      uint32_t got = 0;
      std::memcpy(&got, y.at(name).bytes().data() + 4 * i, 4);
      EXPECT_EQ(got, bits[i]) << name;
    }
    EXPECT_EQ(y.at("sum").integer(static_cast<int64_t>(i)), static_cast<uint32_t>(bits[i] * 2));
  }
}

// A dispatch that reads the same memory as two types, and none for the view.
TEST(Bitcast, IsNoWork) {
  Graph g;
  const Value x = g.input("x", DType::f32, {257});
  g.output("y", cast(bitwise_and(bitcast(x, DType::i32), 0x7f800000), DType::f32) * x);
  Executable exe = compile(g, full_device());
  EXPECT_EQ(exe.plan_report().run.size(), 1u);
  std::vector<float> values(257);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::ldexp(1.25F, static_cast<int>(i % 60) - 30);
  const NamedTensors y = exe.run({{"x", Tensor::of<float>({257}, values)}});
  for (size_t i = 0; i < values.size(); ++i) {
    const auto exponent = static_cast<float>(std::bit_cast<int32_t>(values[i]) & 0x7f800000);
    EXPECT_EQ(y.at("y").span<float>()[i], exponent * values[i]);
  }
}

TEST(Bitcast, ReadsWhatAnEncodedWeightDecodesTo) {
  Graph g;
  g.output("bits", bitcast(g.param("w", DType::q8_0, {3, 64}), DType::i32));
  Executable exe = compile(g, full_device());
  exe.set_param("w", ggml_tensor(DType::q8_0, {3, 64}));
  EXPECT_TRUE(std::ranges::equal(exe.run({}).at("bits").bytes(), ggml_values(DType::q8_0, {3, 64}).bytes()));
}

TEST(Bitcast, NamesTheTypesThatItCannotRead) {
  Graph g;
  EXPECT_SAYS(bitcast(g.input("x", DType::f16, {2}), DType::i32), "the type f16 cannot be read as i32");
  EXPECT_SAYS(bitcast(g.input("u", DType::u8, {2}), DType::bool_), "the type u8 cannot be read as bool");
  EXPECT_SAYS(bitcast(g.input("i", DType::i64, {2}), DType::f32), "the type i64 cannot be read as f32");
}

// --- Symbols ---

TEST(Selections, SizesMayDependOnSymbols) {
  Graph g;
  const Value x = g.input("x", DType::f32, {"n"});
  const Value ids = g.input("ids", DType::i32, {"n"});
  const Dim n = Dim::symbol("n");
  g.output("best", topk(x, n - 2).values);
  g.output("median", median(x));
  g.output("sums", segment_reduce(x, ids, n, SegmentReduction::sum));
  g.output("means", segment_reduce(x, ids, Dim(3), SegmentReduction::mean));
  g.set_capacity("n", 40);
  Executable exe = compile(g, full_device());
  for (const int64_t size : {5, 40, 8, 17}) {
    std::vector<float> values;
    std::vector<int32_t> where;
    for (int64_t i = 0; i < size; ++i) {
      values.push_back(static_cast<float>((i * 7) % 11));
      where.push_back(static_cast<int32_t>(i % 4));
    }
    const NamedTensors inputs = {{"x", Tensor::of<float>({size}, values)},
                                 {"ids", Tensor::of<int32_t>({size}, where)}};
    const auto want = run_reference(bind_symbols(g, {{"n", size}}), inputs);
    for (const auto& [name, got] : exe.run(inputs))
      EXPECT_TRUE(close(got, want.at(name), {.ulps = 4})) << name << " " << size;
  }
}

// --- Scatters ---

// Long runs cross blocks of several levels; in between are slots without updates.
TEST(Selections, LongSegmentsAreWhole) {
  for (const Device* device : {&full_device(), &small_device()}) {
    for (const int64_t inner : {1, 3, 4}) {
      constexpr int64_t kRows = 70001;
      std::vector<float> values(static_cast<size_t>(kRows * inner));
      std::vector<int32_t> ids(kRows);
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7) - 3;
      for (size_t i = 0; i < ids.size(); ++i)
        ids[i] = i % 5 == 0 ? static_cast<int32_t>(i % 90) : i % 3 == 0 ? 7 : 64;
      Graph g;
      const Value x = g.input("x", DType::f32, {kRows, inner});
      g.output("y", segment_reduce(x, g.input("ids", DType::i32, {kRows}), 91));
      const NamedTensors inputs = {{"x", Tensor::of<float>({kRows, inner}, values)},
                                   {"ids", Tensor::of<int32_t>({kRows}, ids)}};
      const auto want = run_reference(g, inputs);  // whole numbers: any order is exact
      for (const bool deterministic : {true, false}) {
        Executable exe = compile(g, *device, {.deterministic = deterministic});
        EXPECT_TRUE(close(exe.run(inputs).at("y"), want.at("y"), {.ulps = 0})) << inner << deterministic;
      }
    }
  }
}

// --- Errors ---

TEST(Selections, MistakesAreNamed) {
  Graph g;
  const Value x = g.input("x", DType::f32, {3, 4});
  const Value whole = g.input("i", DType::i32, {4});
  EXPECT_SAYS(quantile(x, {1.5}), "q is 1.5, outside of [0, 1]");
  EXPECT_SAYS(quantile(x, {NAN}), "q is nan, outside of [0, 1]");
  EXPECT_SAYS(median(whole), "median: elements of the type i32 cannot be interpolated");
  EXPECT_SAYS(median(g.input("e", DType::f32, {0, 2}), {.axes = {0}}), "axis 0 of [0, 2] has no elements");
  EXPECT_SAYS(median(x, {.axes = {1, -1}}), "median: axis 1 is named twice");
  EXPECT_SAYS(segment_reduce(x, whole, 2), "a number for each of the 3 slices of x [3, 4]");
  EXPECT_SAYS(segment_reduce(x, whole, -1, SegmentReduction::sum, 1), "the number of segments is -1");
  EXPECT_SAYS(segment_reduce(whole, whole, 2, SegmentReduction::mean), "a float type");
  EXPECT_SAYS(topk(x, Dim(5)), "k is 5, but axis 1 has 4 elements");
  EXPECT_SAYS(argsort(x, 2), "argsort: ");
}

}  // namespace
}  // namespace rlx::testing
