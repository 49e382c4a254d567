// Random numbers and tokens on the device: against NumPy and transformers (tests/fixtures/make_random.py),
// and by their statistics.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "base/format.h"
#include "ir/reference.h"
#include "rlx/compile.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/random.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"
#include "tests/support/compare.h"
#include "tests/support/devices.h"
#include "tests/support/fixture_cases.h"

namespace rlx::testing {
namespace {

Tensor seed_of(int64_t low, int64_t high) {
  return Tensor::from_ints(DType::u32, {2}, std::vector<int64_t>{low, high});
}

// --- NumPy and transformers ---

void expect_fixtures(const Device& device) {
  const std::vector<FixtureCase> cases = fixture_cases("random");
  EXPECT_GT(cases.size(), 20u);
  for (const FixtureCase& c : cases) {
    SCOPED_TRACE(c.name);
    const RefTensor want = RefTensor::from(c.results.at(0));
    const Tolerance tolerance{.ulps = 8, .scale = c.name == "normal_scaled" ? 5.0 : 0.0};
    EXPECT_TRUE(close(compile(c.graph, device).run(c.inputs).at("y0"), want, tolerance));
    const RefTensor ours = run_reference(c.graph, c.inputs).at("y0");
    EXPECT_TRUE(close(ours.to_tensor(), want, {.ulps = 1}));
  }
}

TEST(Random, IsNumPysAndTransformers) { expect_fixtures(full_device()); }
TEST(Random, IsNumPysAndTransformersUnderSmallLimits) { expect_fixtures(small_device()); }

// --- Seeds ---

TEST(Random, SeedsChangeWithoutCompilingAgain) {
  Graph g;
  const Value seed = g.input("seed", DType::u32, {2});
  g.output("a", random_bits(g, {100}, seed));
  g.output("b", random_bits(g, {100}, seed, 1));
  Executable exe = compile(g, full_device());
  const auto run = [&](int64_t low, int64_t high) { return exe.run({{"seed", seed_of(low, high)}}); };
  const NamedTensors first = run(1, 2);
  EXPECT_EQ(first.at("a").integers(), run(1, 2).at("a").integers());
  EXPECT_NE(first.at("a").integers(), first.at("b").integers());
  EXPECT_NE(first.at("a").integers(), run(2, 2).at("a").integers());
  EXPECT_NE(first.at("a").integers(), run(1, 3).at("a").integers());
  // A number is the same seed, and so is its low word alone if the high one is 0.
  Graph other;
  other.output("a", random_bits(other, {100}, uint64_t{2} << 32 | 1));
  other.output("low", random_bits(other, {100}, other.constant(Tensor::scalar<int32_t>(-1))));
  const NamedTensors numbers = compile(other, full_device()).run({});
  EXPECT_EQ(numbers.at("a").integers(), first.at("a").integers());
  EXPECT_EQ(numbers.at("low").integers(), run(0xffffffff, 0).at("a").integers());
}

// However the work is cut: each element depends on its place alone.
TEST(Random, PartsOfLongVectorsAreTheSame) {
  const auto bits = [](const Device& device, int64_t n) {
    Graph g;
    g.output("y", random_normal(g, {n}, g.input("seed", DType::i64, {})));
    return compile(g, device).run({{"seed", Tensor::scalar<int64_t>(5)}}).at("y").to_vector<float>();
  };
  const std::vector<float> all = bits(full_device(), 300'007);
  EXPECT_EQ(bits(small_device(), 300'007), all);
  EXPECT_EQ(bits(full_device(), 1000), std::vector(all.begin(), all.begin() + 1000));
}

// --- Distributions ---

Tensor drawn(Value (*make)(Graph&, const Value&)) {
  Graph g;
  g.output("y", make(g, g.input("seed", DType::i64, {})));
  return compile(g, full_device()).run({{"seed", Tensor::scalar<int64_t>(1)}}).at("y");
}

// The statistic of Pearson's test, against the quantile of 1 - 1e-6 (E. Wilson and M. Hilferty, 1931): the
// seeds are fixed, so that this passes always or never.
void expect_frequencies(const std::vector<double>& probabilities, const std::vector<int64_t>& counts) {
  const auto total = static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  double statistic = 0;
  double degrees = -1;
  double rare = 0;  // classes too rare to be judged alone
  double rare_count = 0;
  const auto judge = [&](double expected, double count) {
    statistic += (count - expected) * (count - expected) / expected;
    ++degrees;
  };
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = total * probabilities[i];
    if (probabilities[i] == 0) {
      EXPECT_EQ(counts[i], 0) << "class " << i << " has no probability";
    } else if (expected < 10) {
      rare += expected;
      rare_count += static_cast<double>(counts[i]);
    } else {
      judge(expected, static_cast<double>(counts[i]));
    }
  }
  if (rare > 10) judge(rare, rare_count);
  if (degrees < 1) return;
  constexpr double kNormalQuantile = 4.7534;
  const double spread = 2 / (9 * degrees);
  EXPECT_LT(statistic, degrees * std::pow(1 - spread + kNormalQuantile * std::sqrt(spread), 3))
      << degrees << " degrees of freedom";
}

std::vector<int64_t> counted(const std::vector<int64_t>& values, size_t classes) {
  std::vector<int64_t> counts(classes);
  for (const int64_t v : values) ++counts.at(static_cast<size_t>(v));
  return counts;
}

TEST(Random, UniformNumbersAreUniform) {
  const std::vector<float> u = drawn([](Graph& g, const Value& seed) {
                                 return random_uniform(g, {1'000'000}, seed);
                               }).to_vector<float>();
  std::vector<int64_t> bins;
  std::vector<int64_t> pairs;
  for (size_t i = 0; i < u.size(); ++i) {
    ASSERT_TRUE(u[i] >= 0 && u[i] < 1);
    bins.push_back(static_cast<int64_t>(u[i] * 1000));
    if (i % 2 == 1)
      pairs.push_back(static_cast<int64_t>(u[i] * 20) * 20 + static_cast<int64_t>(u[i - 1] * 20));
  }
  expect_frequencies(std::vector<double>(1000, 1e-3), counted(bins, 1000));
  expect_frequencies(std::vector<double>(400, 1.0 / 400), counted(pairs, 400));
}

TEST(Random, UniformNumbersNeverReachTheEnd) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    for (const double high : {1.0, 100.0, -3.0, 7.0}) {
      Graph g;
      const double low = high - 4;
      g.output("y", random_uniform(g, {200'000}, g.input("seed", DType::i64, {}), low, high, type));
      const Tensor y = compile(g, full_device()).run({{"seed", Tensor::scalar<int64_t>(3)}}).at("y");
      double least = high;
      double most = low;
      for (int64_t i = 0; i < y.elements(); ++i) {
        ASSERT_TRUE(y.real(i) >= low && y.real(i) < high) << to_string(type) << " " << y.real(i);
        least = std::min(least, y.real(i));
        most = std::max(most, y.real(i));
      }
      EXPECT_LT(least, low + 0.51) << to_string(type);
      EXPECT_GT(most, high - 1.01) << to_string(type);  // 99.5 is the neighbour of 100 in bf16
    }
  }
}

// Moments and, up to four deviations, the frequencies of a normal distribution.
TEST(Random, NormalNumbersAreNormal) {
  const std::vector<float> x = drawn([](Graph& g, const Value& seed) {
                                 return random_normal(g, {4'000'000}, seed);
                               }).to_vector<float>();
  const auto n = static_cast<double>(x.size());
  double moments[4] = {};
  constexpr int kBins = 80;
  std::vector<int64_t> counts(kBins + 2);
  for (const float v : x) {
    double power = 1;
    for (double& m : moments) m += (power *= static_cast<double>(v)) / n;
    ++counts[static_cast<size_t>(
        std::clamp(std::floor((static_cast<double>(v) + 4) * 10) + 1, 0.0, kBins + 1.0))];
  }
  // Each is within five of its own deviations.
  EXPECT_NEAR(moments[0], 0, 5 / std::sqrt(n));
  EXPECT_NEAR(moments[1], 1, 5 * std::sqrt(2 / n));
  EXPECT_NEAR(moments[2], 0, 5 * std::sqrt(15 / n));
  EXPECT_NEAR(moments[3], 3, 5 * std::sqrt(96 / n));
  // Of as many, one is beyond 5 with a probability of 0.9, and none beyond 6.5.
  const double most = largest_size(std::vector<double>(x.begin(), x.end()));
  EXPECT_TRUE(most > 4.8 && most < 6.5) << most;
  const auto below = [](double v) { return 0.5 * std::erfc(-v / std::sqrt(2.0)); };
  std::vector<double> probabilities = {below(-4)};
  for (int i = 0; i < kBins; ++i) probabilities.push_back(below(-4 + (i + 1) * 0.1) - below(-4 + i * 0.1));
  probabilities.push_back(below(-4));
  expect_frequencies(probabilities, counts);
}

TEST(Random, BernoulliAndDropoutKeepTheirProbabilities) {
  constexpr int64_t n = 1'000'000;
  Graph g;
  const Value seed = g.input("seed", DType::i64, {});
  const Value p = g.input("p", DType::f32, {5});
  g.output("hits", mean(bernoulli(expand(reshape(p, {5, 1}), {5, n}), seed), {1}));
  const Dropped dropped = dropout(expand(g.scalar(DType::f32, 3), {n}), 0.3, seed);
  g.output("mean", mean(dropped.y));
  g.output("kept", mean(cast(dropped.mask, DType::f32)));
  const NamedTensors y =
      compile(g, full_device())
          .run({{"seed", Tensor::scalar<int64_t>(1)},
                {"p", Tensor::of<float>({5}, {0, 0.01F, 0.5F, 1, std::numeric_limits<float>::quiet_NaN()})}});
  EXPECT_EQ(y.at("hits").real(0), 0);
  EXPECT_NEAR(y.at("hits").real(1), 0.01, 5e-4);
  EXPECT_NEAR(y.at("hits").real(2), 0.5, 2.5e-3);
  EXPECT_EQ(y.at("hits").real(3), 1);
  EXPECT_EQ(y.at("hits").real(4), 0);
  EXPECT_NEAR(y.at("kept").real(0), 0.7, 2.5e-3);
  EXPECT_NEAR(y.at("mean").real(0), 3 * y.at("kept").real(0) / 0.7, 1e-3);
}

// All orders of four are equally frequent, and a long one has every number once.
TEST(Random, PermutationsAreUniform) {
  Graph g;
  const Value seed = g.input("seed", DType::u32, {2});
  g.output("y", randperm(g, 4, seed));
  Executable exe = compile(g, full_device());
  std::vector<int64_t> orders;
  for (int64_t i = 0; i < 1200; ++i) {
    const std::vector<int64_t> y = exe.run({{"seed", seed_of(7, i)}}).at("y").integers();
    int64_t code = 0;  // in the factorial number system
    for (size_t a = 0; a < 4; ++a) {
      int64_t smaller = 0;
      for (size_t b = a + 1; b < 4; ++b) smaller += y[b] < y[a] ? 1 : 0;
      code = code * static_cast<int64_t>(4 - a) + smaller;
    }
    orders.push_back(code);
  }
  expect_frequencies(std::vector<double>(24, 1.0 / 24), counted(orders, 24));
  std::vector<int64_t> all =
      drawn([](Graph& graph, const Value& s) { return randperm(graph, 65'537, s); }).integers();
  EXPECT_FALSE(std::ranges::is_sorted(all));
  std::ranges::sort(all);
  for (int64_t i = 0; i < 65'537; ++i) ASSERT_EQ(all[static_cast<size_t>(i)], i);
}

// --- Tokens ---

struct Row {
  const char* name;
  SampleOptions options;
  std::vector<double> logits;
  std::vector<int64_t> previous = {};
};

// What the documentation says, in double.
std::vector<double> probabilities_of(const Row& row) {
  std::vector<double> x = row.logits;
  for (size_t token = 0; token < x.size(); ++token) {
    const auto count = static_cast<double>(std::ranges::count(row.previous, static_cast<int64_t>(token)));
    if (count == 0) continue;
    x[token] *= x[token] > 0 ? 1 / row.options.repetition_penalty : row.options.repetition_penalty;
    x[token] -= row.options.presence_penalty + count * row.options.frequency_penalty;
  }
  for (double& v : x) v = std::isnan(v) ? -HUGE_VAL : v / row.options.temperature;
  std::vector<size_t> order(x.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return x[a] > x[b]; });
  if (row.options.top_k > 0) order.resize(std::min(order.size(), static_cast<size_t>(row.options.top_k)));
  const double most = x[order[0]];
  const auto weight = [&](size_t token) { return std::exp(x[token] - most); };
  const auto total = [&] {
    return std::accumulate(order.begin(), order.end(), 0.0,
                           [&](double s, size_t i) { return s + weight(i); });
  };
  double before = 0;
  size_t kept = 0;
  for (const double all = total(); kept < order.size(); ++kept) {
    if (kept > 0 && before >= row.options.top_p * all) break;
    before += weight(order[kept]);
  }
  order.resize(kept);
  std::erase_if(order, [&](size_t i) { return weight(i) < row.options.min_p; });
  std::vector<double> out(x.size());
  const double left = total();
  for (const size_t i : order) out[i] = weight(i) / left;
  return out;
}

std::vector<int64_t> sampled(const Device& device, const Row& row, int64_t rows, DType type = DType::f32) {
  Graph g;
  const auto size = static_cast<int64_t>(row.logits.size());
  const auto count = static_cast<int64_t>(row.previous.size());
  const Value logits = expand(g.input("logits", type, {size}), {rows, size});
  const Value previous =
      count == 0 ? Value() : expand(g.input("previous", DType::i32, {count}), {rows, count});
  g.output("y", sample(logits, 42, row.options, previous));
  NamedTensors inputs = {{"logits", Tensor::from_doubles(type, {size}, row.logits)}};
  if (previous) inputs.emplace("previous", Tensor::from_ints(DType::i32, {count}, row.previous));
  return compile(g, device).run(inputs).at("y").integers();
}

std::vector<double> some_logits(size_t n, double spread) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal(0, spread);
  std::vector<double> out(n);
  for (double& v : out) v = static_cast<double>(static_cast<float>(normal(random)));
  return out;
}

TEST(Sample, DrawsFromTheDistribution) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> ten = some_logits(10, 1.5);
  const std::vector<double> ties = {1, 2, 2, 0, 2, 1, 0, 0, 1, 2};
  const std::vector<double> special = {NAN, 1, -inf, 0.5, NAN, -1, -inf};
  const Row rows[] = {
      {"plain", {}, ten},
      {"temperature", {.temperature = 0.4}, ten},
      {"hot", {.temperature = 3}, ten},
      {"top_k", {.top_k = 3}, ten},
      {"top_p", {.top_p = 0.8}, ten},
      {"min_p", {.min_p = 0.15}, ten},
      {"top_k and top_p", {.top_k = 6, .top_p = 0.75}, ten},
      {"top_p and min_p", {.top_p = 0.95, .min_p = 0.3}, ten},
      {"all filters", {.temperature = 1.5, .top_k = 7, .top_p = 0.9, .min_p = 0.1}, ten},
      {"repetition", {.repetition_penalty = 1.8}, ten, {1, 1, 4, -1, 10, 999}},
      {"presence", {.presence_penalty = 1}, ten, {1, 1, 4, -1, 10, 999}},
      {"frequency", {.frequency_penalty = 0.7}, ten, {1, 1, 4, -1, 10, 999}},
      {"penalties and filters",
       {.repetition_penalty = 1.2, .presence_penalty = 0.5, .top_k = 8, .top_p = 0.9},
       ten,
       {0, 2, 2, 9}},
      {"ties at top_k", {.top_k = 3}, ties},
      {"ties at top_p", {.top_p = 0.5}, ties},
      {"all equal", {.top_p = 0.35}, std::vector<double>(10, -7.0)},
      {"NaN and infinities", {}, special},
      {"NaN and infinities, top_p", {.top_p = 0.9}, special},
      {"NaN and infinities, top_k", {.top_k = 5}, special},
      {"one is certain", {.min_p = 0.1}, {0, inf, 3}},
      {"a word", {.top_p = 0.5}, {3}},
      {"three words", {.top_k = 2}, {0, 1, 0.5}},
      {"257 words", {.temperature = 0.9, .top_p = 0.97}, some_logits(257, 2)},
      {"257 words, top_k", {.top_k = 40}, some_logits(257, 2)},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    Row safe = row;  // one infinite logit is the same as one that is far above all others
    for (double& v : safe.logits) v = v == inf ? 1e4 : v;
    expect_frequencies(probabilities_of(safe),
                       counted(sampled(full_device(), row, 20'000), row.logits.size()));
  }
}

// Many seeds for one row, as a decoder does it.
TEST(Sample, StepsAreIndependent) {
  Graph g;
  const std::vector<double> logits = some_logits(10, 1);
  const Value seed = g.input("seed", DType::u32, {2});
  g.output("y", sample(g.input("logits", DType::f32, {10}), seed, {.top_k = 6}));
  Executable exe = compile(g, full_device());
  std::vector<int64_t> tokens;
  std::vector<int64_t> pairs;
  for (int64_t step = 0; step < 2000; ++step) {
    tokens.push_back(
        exe.run({{"seed", seed_of(11, step)}, {"logits", Tensor::from_doubles(DType::f32, {10}, logits)}})
            .at("y")
            .integers()[0]);
    if (step % 2 == 1) pairs.push_back(tokens[tokens.size() - 2] * 10 + tokens.back());
  }
  const std::vector<double> p = probabilities_of({"", {.top_k = 6}, logits});
  expect_frequencies(p, counted(tokens, 10));
  std::vector<double> both;
  for (const double a : p) {
    for (const double b : p) both.push_back(a * b);
  }
  expect_frequencies(both, counted(pairs, 100));
}

// Large vocabularies: token by token what the reference draws, of those that may be drawn.
TEST(Sample, DrawsFromLargeVocabularies) {
  for (const size_t size : {size_t{65'537}, size_t{150'000}}) {
    for (const SampleOptions& options : {SampleOptions{},
                                         {.top_p = 0.5},
                                         {.top_k = 500, .top_p = 0.9},
                                         {.temperature = 0.7, .min_p = 0.001}}) {
      SCOPED_TRACE(formatted("{} words, top_k {}, top_p {}", size, options.top_k, options.top_p));
      Graph g;
      const auto n = static_cast<int64_t>(size);
      g.output("y", sample(g.input("logits", DType::f32, {3, n}), 42, options));
      const std::vector<double> logits = some_logits(3 * size, 1);
      const NamedTensors inputs = {{"logits", Tensor::from_doubles(DType::f32, {3, n}, logits)}};
      const std::vector<int64_t> tokens = compile(g, full_device()).run(inputs).at("y").integers();
      EXPECT_EQ(tokens, run_reference(g, inputs).at("y").ints);
      for (size_t row = 0; row < 3; ++row) {
        const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(row * size);
        const Row one{"", options, std::vector(begin, begin + n)};
        EXPECT_GT(probabilities_of(one)[static_cast<size_t>(tokens[row])], 0) << tokens[row];
      }
    }
  }
}

TEST(Sample, DrawsAllOfALargeVocabulary) {
  const Row row{"", {}, some_logits(65'537, 1)};
  const std::vector<double> each = probabilities_of(row);
  std::vector<double> probabilities(16);
  std::vector<int64_t> counts(16);
  for (size_t i = 0; i < each.size(); ++i) probabilities[i / 4097] += each[i];
  for (const int64_t t : sampled(full_device(), row, 400)) ++counts[static_cast<size_t>(t / 4097)];
  expect_frequencies(probabilities, counts);
}

TEST(Sample, GreedyIsArgmax) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    for (const size_t size : {size_t{1}, size_t{3}, size_t{257}, size_t{65'537}, size_t{150'000}}) {
      Graph g;
      const auto n = static_cast<int64_t>(size);
      const Value logits = g.input("logits", type, {1, n});
      g.output("argmax", argmax(logits));
      g.output("cold", sample(logits, 1, {.temperature = 0, .top_p = 0.5}));
      g.output("first", sample(logits, 1, {.temperature = 2, .top_k = 1}));
      g.output("no p", sample(logits, 1, {.top_k = n < 9 ? 0 : 8, .top_p = 0}));
      const NamedTensors y = compile(g, full_device())
                                 .run({{"logits", Tensor::from_doubles(type, {1, n}, some_logits(size, 2))}});
      for (const char* name : {"cold", "first", "no p"})
        EXPECT_EQ(y.at(name).integers(), y.at("argmax").integers()) << name << " of " << size;
    }
  }
}

// The same tokens however small the pieces; and logits are left as they are.
TEST(Sample, LimitsChangeNothing) {
  const Row row{"", {.temperature = 0.8, .top_p = 0.9}, some_logits(30'001, 2)};
  EXPECT_EQ(sampled(small_device(), row, 3), sampled(full_device(), row, 3));
  const Row top{"", {.top_k = 50, .top_p = 0.9}, some_logits(30'001, 2)};
  EXPECT_EQ(sampled(small_device(), top, 3), sampled(full_device(), top, 3));
  Graph g;
  const Value state = g.state("logits", DType::f32, {1, 1000});
  g.output("y", sample(state, 1, {.top_p = 0.9}));
  g.output("same", state + 0);
  Executable exe = compile(g, full_device());
  const Tensor logits = Tensor::from_doubles(DType::f32, {1, 1000}, some_logits(1000, 2));
  exe.write_state("logits", logits);
  exe.run({});
  EXPECT_EQ(exe.run({}).at("same").to_vector<float>(), logits.to_vector<float>());
}

TEST(Sample, RowsOfNothingGiveTheFirst) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const SampleOptions& options :
       {SampleOptions{}, {.top_p = 0.5}, {.top_k = 2}, {.min_p = 0.5}, {.temperature = 0}}) {
    EXPECT_EQ(sampled(full_device(), {"", options, {-inf, -inf, NAN, -inf}}, 3), std::vector<int64_t>(3, 0));
  }
}

}  // namespace
}  // namespace rlx::testing
