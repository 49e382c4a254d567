// What docs/arithmetic.md promises, with and without fusion.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "rlx/compile.h"
#include "rlx/dtype.h"
#include "rlx/error.h"
#include "rlx/executable.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/order.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"
#include "rlx/ops/run_sizes.h"
#include "rlx/tensor.h"
#include "rlx/value.h"
#include "tests/support/devices.h"

namespace rlx::testing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

NamedTensors run(const Graph& g, const NamedTensors& inputs, bool optimize) {
  return compile(g, full_device(), {.optimize = optimize}).run(inputs);
}

bool same_bits(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

// Every output is the same, bit for bit, with and without the passes.
void expect_same(const Graph& g, const NamedTensors& inputs) {
  const NamedTensors plain = run(g, inputs, false);
  for (const auto& [name, fused] : run(g, inputs, true)) {
    const Tensor& want = plain.at(name);
    for (int64_t i = 0; i < fused.elements(); ++i) {
      EXPECT_TRUE(same_bits(fused.real(i), want.real(i)))
          << name << "[" << i << "]: " << fused.real(i) << " fused, " << want.real(i) << " not";
    }
  }
}

// A rotary embedding as exporters write it becomes one node, which rounds both of its products too.
TEST(Arithmetic, RotationsRoundTheirProducts) {
  Graph g;
  const Value x = g.input("x", DType::f32, {2, 3, 17, 10});
  const Value angles = g.input("angles", DType::f32, {2, 1, 17, 4});
  const Value twice = concat({angles, angles}, -1);
  const Value part = slice(x, -1, 0, 8);
  const Value turned = concat({neg(slice(part, -1, 4, 4)), slice(part, -1, 0, 4)}, -1);
  const Value rotated = part * cos(twice) + turned * sin(twice);
  g.output("rotated", concat({rotated, slice(x, -1, 8, 2)}, -1));
  std::mt19937 random(3);
  std::uniform_real_distribution<float> numbers(-4, 4);
  const auto some = [&](size_t n) {
    std::vector<float> values(n);
    for (float& v : values) v = numbers(random);
    values[0] = kInf;
    values[9] = kNan;
    values[12] = 0;
    return values;
  };
  const NamedTensors inputs = {{"x", Tensor::of({2, 3, 17, 10}, some(1020))},
                               {"angles", Tensor::of({2, 1, 17, 4}, some(136))}};
  expect_same(g, inputs);
  EXPECT_TRUE(to_text(*compile(g, full_device()).graph()).contains("= rope("));
}

// What is computed as a reduction reads it is rounded as the node that it was: squares in f16 and bf16, and
// in f32 products that are not fused with the sum.
TEST(Arithmetic, ReductionsRoundWhatTheyCompute) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    Graph g;
    const Value x = g.input("x", type, {5, 68});
    const Value y = g.input("y", type, {5, 67});
    const Value row = g.input("row", type, {68});
    const Value column = g.input("column", type, {5, 1});
    g.output("squares", sum(x * x, {1}));
    g.output("odd squares", sum(y * y, {1}));
    g.output("columns", mean(x * row, {0}));
    g.output("all", sum(square(x - column), {}));
    g.output("largest", max(abs(x * row - column), {-1}, true));
    g.output("smallest", min(exp(y), {0}));
    g.output("factors", prod(x * 0.1 + 1, {1}));
    std::mt19937 random(7);
    std::uniform_real_distribution<double> numbers(-4, 4);
    const auto some = [&](const Shape& shape, bool special) {
      std::vector<double> values(static_cast<size_t>(shape.elements().value()));
      for (double& v : values) v = numbers(random);
      if (special) {
        values[0] = 300;  // its square is beyond f16
        values[70] = kInf;
        values[141] = kNan;
      }
      return Tensor::from_doubles(type, shape.values(), values);
    };
    const NamedTensors inputs = {{"x", some({5, 68}, true)},
                                 {"y", some({5, 67}, true)},
                                 {"row", some({68}, false)},
                                 {"column", some({5, 1}, false)}};
    SCOPED_TRACE(to_string(type));
    expect_same(g, inputs);
    EXPECT_TRUE(to_text(*compile(g, full_device()).graph()).contains("= mapped_reduce("));
  }
}

TEST(Arithmetic, NothingCancelsThatWasRounded) {
  const std::vector<float> a = {kNan, kInf, -kInf, 1e10f, 1.0f, 16777216.0f, 3e38f, 0.1f};
  const std::vector<float> b = {1.0f, 2.0f, kInf, 3.0f, 1e-10f, 1.0f, 3e38f, 0.3f};
  const std::vector<float> c = {2.0f, kNan, 1.0f, 7.0f, 3.0f, 1e-8f, 1e-30f, 0.7f};
  Graph g;
  const Value x = g.input("a", DType::f32, {8});
  const Value y = g.input("b", DType::f32, {8});
  const Value z = g.input("c", DType::f32, {8});
  g.output("sum less its part", (x + y) - x);
  g.output("itself less itself", x - x);
  g.output("sum less the same sum", (x + y) - (y + x));
  g.output("sum with the opposite", (x * y) + neg(x * y));
  g.output("quotient times divisor", (x / y) * y);
  g.output("product over factor", (x * y) / y);
  g.output("itself over itself", x / x);
  g.output("common factor", x * y + x * z);
  g.output("product of products", (x * y) * (y * z));
  g.output("root squared", square(sqrt(x)));
  g.output("two reciprocals", reciprocal(reciprocal(x)));
  g.output("sum below its part", cast(less(x + y, x), DType::f32));
  g.output("sum equals its part", cast(equal(x + y, x), DType::f32));
  g.output("difference of larger", maximum(x + y, x) - x);
  g.output("through a choice", where(less(x, y), x, x + y) - x);
  const NamedTensors inputs = {
      {"a", Tensor::of<float>({8}, a)}, {"b", Tensor::of<float>({8}, b)}, {"c", Tensor::of<float>({8}, c)}};
  expect_same(g, inputs);
  const NamedTensors fused = run(g, inputs, true);
  for (size_t i = 0; i < a.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const auto expect = [&](const char* name, float want) {
      const double got = fused.at(name).real(at);
      EXPECT_TRUE(same_bits(got, want)) << name << "[" << i << "]: " << got << ", not " << want;
    };
    volatile const float itself = a[i];
    volatile const float sum = a[i] + b[i];
    volatile const float product = a[i] * b[i];
    expect("sum less its part", sum - a[i]);
    expect("itself less itself", a[i] - itself);
    expect("sum with the opposite", product + -product);
  }
}

// s + e is the exact sum of a and b (Knuth), and Kahan's summation is made of it.
TEST(Arithmetic, CompensatedSumsSurviveFusion) {
  constexpr int64_t n = 64;
  std::mt19937 random(7);
  std::uniform_real_distribution<float> mantissa(-1, 1);
  std::uniform_int_distribution<int> exponent(-20, 20);
  Graph g;
  NamedTensors inputs;
  std::vector<std::vector<float>> terms;
  Value sum = g.input("t0", DType::f32, {n});
  Value carry = g.scalar(DType::f32, 0) * sum;
  for (int t = 0; t < 5; ++t) {
    terms.emplace_back(n);
    for (float& v : terms.back()) v = std::ldexp(mantissa(random), exponent(random));
    inputs["t" + std::to_string(t)] = Tensor::of<float>({n}, terms.back());
    if (t == 0) continue;
    const Value term = g.input("t" + std::to_string(t), DType::f32, {n});
    const Value y = term - carry;
    const Value next = sum + y;
    carry = (next - sum) - y;
    sum = next;
  }
  g.output("kahan", sum);
  const Value a = g.value({0, 0});
  const Value b = g.value({g.find("t1"), 0});
  const Value s = a + b;
  const Value part = s - a;
  g.output("s", s);
  g.output("e", (a - (s - part)) + (b - part));
  expect_same(g, inputs);
  const NamedTensors out = run(g, inputs, true);
  for (int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(i);
    const double exact = static_cast<double>(terms[0][at]) + static_cast<double>(terms[1][at]);
    EXPECT_EQ(out.at("s").real(i) + out.at("e").real(i), exact) << i;
    volatile float want = terms[0][at];
    volatile float lost = 0;
    for (size_t t = 1; t < terms.size(); ++t) {
      volatile const float y = terms[t][at] - lost;
      volatile const float next = want + y;
      volatile const float gained = next - want;
      lost = gained - y;
      want = next;
    }
    EXPECT_EQ(out.at("kahan").real(i), want) << i;
  }
}

TEST(Arithmetic, NarrowFloatsAreRoundedAfterEveryNode) {
  constexpr int64_t n = 256;
  std::mt19937 random(11);
  std::uniform_real_distribution<float> value(-3, 3);
  for (const DType type : {DType::f16, DType::bf16}) {
    SCOPED_TRACE(std::string(to_string(type)));
    NamedTensors inputs;
    Graph g;
    const auto input = [&](const std::string& name, int64_t rows) {
      std::vector<double> values(static_cast<size_t>(rows * 16));
      for (double& v : values) v = value(random);
      inputs[name] = Tensor::from_doubles(type, {rows, 16}, values);
      return g.input(name, type, {rows, 16});
    };
    const Value x = input("x", n / 16);
    const Value y = input("y", n / 16);
    const Value w = input("w", 16);
    g.output("chain", (x * y + x) * y - x / 3.0);
    g.output("large", (x * 60000.0) * 2.0 / 60000.0);  // leaves the range of f16 on the way
    g.output("exact", maximum(neg(x), abs(y)) + floor(x));
    g.output("epilogue", (matmul(x, w) + y) * 3.0 - y);
    expect_same(g, inputs);
  }
}

TEST(Arithmetic, IntegersWrapAndCastsSaturateWhereTheyMust) {
  Graph g;
  const Value u = g.input("u", DType::u32, {4});
  const Value i = g.input("i", DType::i64, {4});
  g.output("u to i32", cast(u, DType::i32));
  g.output("i to u32", cast(i, DType::u32));
  g.output("i to i8", cast(i, DType::i8));
  const Value i32 = cast(i, DType::i32);
  g.output("i32 squared", i32 * i32);
  g.output("i32 shifted", left_shift(i32, g.constant(Tensor::of<int32_t>({4}, {31, 32, 15, -1}))));
  const Value large = g.constant(Tensor::of<int32_t>({2}, {100000, -3}));
  g.output("constant", large * large);
  const NamedTensors inputs = {{"u", Tensor::of<uint32_t>({4}, {4294967294u, 2147483648u, 2147483647u, 5})},
                               {"i", Tensor::of<int64_t>({4}, {-1, 300, 65536, -2147483648LL})}};
  for (const bool optimize : {true, false}) {
    const NamedTensors out = run(g, inputs, optimize);
    using List = std::vector<int64_t>;
    EXPECT_EQ(out.at("u to i32").integers(), (List{-2, -2147483648LL, 2147483647, 5}));
    EXPECT_EQ(out.at("i to u32").integers(), (List{4294967295, 300, 65536, 2147483648LL}));
    EXPECT_EQ(out.at("i to i8").integers(), (List{-1, 44, 0, 0}));
    EXPECT_EQ(out.at("i32 squared").integers(), (List{1, 90000, 0, 0}));
    EXPECT_EQ(out.at("i32 shifted").integers(), (List{-2147483648LL, 0, -2147483648LL, 0}));
    EXPECT_EQ(out.at("constant").integers(), (List{1410065408, 9}));
  }
}

// All pairs of `values`, as the tensors a and b.
std::pair<Tensor, Tensor> pairs_of(const std::vector<float>& values, const std::vector<float>& others) {
  std::vector<float> a;
  std::vector<float> b;
  for (const float x : values) {
    for (const float y : others) {
      a.push_back(x);
      b.push_back(y);
    }
  }
  const std::vector<int64_t> dims = {std::ssize(a)};
  return {Tensor::of<float>(dims, a), Tensor::of<float>(dims, b)};
}

// Arithmetic may take a subnormal number for 0, but where it is compared it is what it is.
TEST(Arithmetic, SubnormalsAreComparedAsTheNumbersTheyAre) {
  const std::vector<float> values = {0.0F,    -0.0F,    1e-45F,    -1e-45F,  1e-40F,
                                     -1e-40F, 1.1e-38F, -1.1e-38F, 1.2e-38F, -1.2e-38F,
                                     1.0F,    -2.5F,    kInf,      -kInf,    kNan};
  const auto [a, b] = pairs_of(values, values);
  const std::vector<float> sorted = {-kInf, -1e-40F, 0.0F, 1e-45F, 1e-40F, 1.0F};
  Graph g;
  const Value x = g.input("a", DType::f32, {a.elements()});
  const Value y = g.input("b", DType::f32, {a.elements()});
  g.output("less", less(x, y));
  g.output("less_equal", less_equal(x, y));
  g.output("greater", greater(x, y));
  g.output("greater_equal", greater_equal(x, y));
  g.output("equal", equal(x, y));
  g.output("not_equal", not_equal(x, y));
  g.output("above zero", greater(x, 0));
  g.output("true", cast(x, DType::bool_));
  g.output("count", nonzero(x).count);
  g.output("sign", sign(x));
  g.output("floor", floor(x));
  g.output("ceil", ceil(x));
  g.output("log", log(x));
  g.output("place", searchsorted(g.constant(Tensor::of<float>({6}, sorted)), x));
  const NamedTensors inputs = {{"a", a}, {"b", b}};
  expect_same(g, inputs);
  const NamedTensors got = run(g, inputs, true);
  int64_t count = 0;
  for (int64_t i = 0; i < a.elements(); ++i) {
    const double p = a.real(i);
    const double q = b.real(i);
    const auto expect = [&](const char* name, double want, double error = 0) {
      const double is = got.at(name).dtype() == DType::f32 ? got.at(name).real(i)
                                                           : static_cast<double>(got.at(name).integer(i));
      EXPECT_TRUE((std::isnan(is) && std::isnan(want)) || is == want || std::abs(is - want) <= error)
          << name << " of " << p << " and " << q << ": " << is << ", not " << want;
    };
    expect("less", p < q);
    expect("less_equal", p <= q);
    expect("greater", p > q);
    expect("greater_equal", p >= q);
    expect("equal", p == q);
    expect("not_equal", p != q);
    expect("above zero", p > 0);
    expect("true", p != 0);
    expect("sign", std::isnan(p) ? p : (p > 0) - (p < 0));
    expect("floor", std::floor(p));
    expect("ceil", std::ceil(p));
    expect("log", std::log(p), 1e-4);
    expect("place",
           std::isnan(p) ? 6 : static_cast<double>(std::ranges::lower_bound(sorted, p) - sorted.begin()));
    count += p != 0;
  }
  EXPECT_EQ(got.at("count").integer(0), count);
}

TEST(Arithmetic, PowersAreThoseOfC) {
  const std::vector<float> bases = {9.611435F, 3.0909588F, 0.7549637F, 2.4230576F, 10.0F, -3.0F,
                                    -2.5F,     0.0F,       -0.0F,      1.0F,       -1.0F, kInf,
                                    -kInf,     kNan,       1e-40F,     -1e-40F,    3e38F};
  const std::vector<float> exponents = {0.0F, -0.0F, 1.0F,  2.0F,  3.0F,  4.0F,   -1.0F, -2.0F, -3.0F,
                                        0.5F, 1.5F,  33.0F, -7.0F, 1e20F, 1e-40F, kInf,  -kInf, kNan};
  const auto [a, b] = pairs_of(bases, exponents);
  Graph g;
  const Value x = g.input("a", DType::f32, {a.elements()});
  const Value y = g.input("b", DType::f32, {a.elements()});
  g.output("y", pow(x, y));
  g.output("itself", pow(x, 1) - x);
  g.output("square", pow(x, 2) - x * x);
  const NamedTensors inputs = {{"a", a}, {"b", b}};
  expect_same(g, inputs);
  const NamedTensors got = run(g, inputs, true);
  for (int64_t i = 0; i < a.elements(); ++i) {
    const auto want = static_cast<float>(std::pow(a.real(i), b.real(i)));
    const auto is = static_cast<float>(got.at("y").real(i));
    const bool tiny = std::abs(want) < std::numeric_limits<float>::min() && b.real(i) != 1;
    const bool exact = b.real(i) == 0 || b.real(i) == 1;
    const bool same = std::isnan(want) ? std::isnan(is)
                      : tiny           ? std::abs(is) <= std::numeric_limits<float>::min()
                             : is == want || (!exact && std::abs(is - want) <= 6e-7F * std::abs(want));
    EXPECT_TRUE(same && (std::isnan(want) || tiny || std::signbit(is) == std::signbit(want)))
        << a.real(i) << "^" << b.real(i) << ": " << is << ", not " << want;
    for (const char* name : {"itself", "square"}) {
      const double difference = got.at(name).real(i);
      EXPECT_TRUE(difference == 0 || std::isnan(difference)) << name << " of " << a.real(i);
    }
  }
}

TEST(Arithmetic, AConstantThatNoI64OfTheDeviceHoldsIsRefusedFoldedOrNot) {
  Graph g;
  const Value large = g.constant(Tensor::of<int64_t>({1}, {3000000000}));
  g.output("y", large * g.constant(Tensor::of<int64_t>({1}, {0})));
  for (const bool optimize : {true, false}) EXPECT_THROW(run(g, {}, optimize), Error) << optimize;
}

TEST(Arithmetic, AStateIsReadBeforeItIsWritten) {
  Graph g;
  const Value s = g.state("s", DType::f32, {4});
  const Value u = g.input("u", DType::f32, {4});
  const Value a = s * 2.0;
  g.output("y", a + write_state(s, u, 0, 0));
  Executable exe = compile(g, full_device());
  EXPECT_EQ(exe.run({{"u", Tensor::of<float>({4}, {1, 2, 3, 4})}}).at("y").doubles(),
            (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(exe.run({{"u", Tensor::of<float>({4}, {1, 1, 1, 1})}}).at("y").doubles(),
            (std::vector<double>{3, 5, 7, 9}));
}

// 2048 + 1 is 2048 in f16, also for what is computed from a product at its tail.
TEST(Arithmetic, ProductsAreRoundedBeforeTheyAreCompared) {
  Graph g;
  const Value m = matmul(g.input("a", DType::f16, {1, 2}), g.input("b", DType::f16, {2, 1}));
  g.output("equal", cast(equal(m, 2048), DType::f32));
  g.output("integer", cast(m, DType::i32));
  const NamedTensors inputs = {{"a", Tensor::from_doubles(DType::f16, {1, 2}, std::vector<double>{2048, 1})},
                               {"b", Tensor::from_doubles(DType::f16, {2, 1}, std::vector<double>{1, 1})}};
  expect_same(g, inputs);
  EXPECT_EQ(run(g, inputs, true).at("equal").item<float>(), 1);
  EXPECT_EQ(run(g, inputs, true).at("integer").item<int32_t>(), 2048);
}

}  // namespace
}  // namespace rlx::testing
