// Tokens drawn from logits.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/fail.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/random/nucleus.h"
#include "ops/random/random.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/order.h"
#include "rlx/ops/random.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"

namespace rlx {
namespace {

constexpr double kLargest = std::numeric_limits<float>::max();
constexpr double kGreedy = 1e-6;  // temperatures below this

// NaN never wins, and the differences of infinities would be NaN.
double clean(double x) { return std::isnan(x) ? -HUGE_VAL : std::min(x, kLargest); }
Value clean(Value x) {
  const Value wide = cast(x, DType::f32);
  return minimum(where(is_nan(wide), -HUGE_VAL, wide), kLargest);
}

// The same with one axis more before the last, of that length.
Value repeated(Value x, int64_t count) {
  Shape dims = x.shape();
  dims.insert(dims.rank() - 1, 1);
  const Value row = reshape(x, dims);
  dims[dims.rank() - 2] = count;
  return expand(row, dims);
}

void expect_logits(const InferArgs& in) {
  in.expect_float(0);
  const Shape& x = in.shape(0);
  if (x.rank() == 0 || x[x.rank() - 1].is(0))
    fail("{}: the logits {} have no classes to draw from", in.op(), x.text());
}

// --- Multinomial ---

struct Multinomial final : OpOf<Multinomial> {
  static constexpr auto kName = "multinomial";
  int64_t samples = 1;
  int64_t stream = 0;

  void visit_attributes(AttributeVisitor& v) override {
    v("samples", samples, 1);
    v("stream", stream, 0);
  }

  std::vector<TensorType> infer(const InferArgs& in) const override {
    in.expect_count(2);
    expect_logits(in);
    expect_seed(in, 1, stream);
    if (samples < 0) fail("multinomial: the number of samples is {}", samples);
    Shape y = in.shape(0);
    y[y.rank() - 1] = samples;
    return {TensorType{DType::i64, y}};
  }

  void reference(RefContext& r) const override {
    const RefTensor& x = r.in(0);
    const Draws draws(r.in(1), stream);
    const int64_t classes = x.dims.back();
    for (int64_t i = 0; i < r.out().elements(); ++i) {
      int64_t best = 0;
      double most = -HUGE_VAL;
      for (int64_t j = 0; j < classes; ++j) {
        const double score =
            clean(x.real[static_cast<size_t>(i / samples * classes + j)]) + draws.gumbel(i, j);
        if (score > most) {
          most = score;
          best = j;
        }
      }
      r.out().ints[static_cast<size_t>(i)] = best;
    }
  }

  std::optional<std::vector<Value>> expand(const ExpandArgs& in) const override {
    return std::vector{argmax(add_gumbel(repeated(clean(in[0]), samples), in[1], {}, stream))};
  }
  Tolerance tolerance(std::span<const TensorType>) const override { return {.ulps = 0}; }
};

// --- Sample ---

struct Sample final : OpOf<Sample> {
  static constexpr auto kName = "sample";
  SampleOptions o;

  void visit_attributes(AttributeVisitor& v) override {
    v("repetition_penalty", o.repetition_penalty, 1);
    v("presence_penalty", o.presence_penalty, 0);
    v("frequency_penalty", o.frequency_penalty, 0);
    v("temperature", o.temperature, 1);
    v("top_k", o.top_k, 0);
    v("top_p", o.top_p, 1);
    v("min_p", o.min_p, 0);
    v("stream", o.stream, 0);
  }
  std::optional<ValueRange> sensible_values(int64_t input,
                                            std::span<const TensorType> inputs) const override {
    const Shape& logits = inputs[0].shape;
    return input == 2 ? values_between(0, logits[logits.rank() - 1] - 1) : std::nullopt;
  }

  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  std::optional<std::vector<Value>> expand(const ExpandArgs& in) const override;
  Tolerance tolerance(std::span<const TensorType>) const override { return {.ulps = 0}; }

 private:
  bool is_greedy() const { return o.temperature < kGreedy || o.top_k == 1; }
  // How many tokens can stay; all of them if the vocabulary is not larger.
  int64_t kept(const Dim& vocabulary) const {
    const bool some = o.top_k > 0 && !(vocabulary.is_static() && vocabulary.value() <= o.top_k);
    return some ? o.top_k : 0;
  }
  std::vector<double> penalized(RefContext& r) const;
  Value penalized(Value logits, Value previous) const;
  Value in_order(Value z) const;
  Value among_all(Value z) const;
};

std::vector<TensorType> Sample::infer(const InferArgs& in) const {
  in.expect_count(2, 3);
  expect_logits(in);
  expect_seed(in, 1, o.stream);
  const auto expect = [](bool allowed, std::string_view what, double value, std::string_view range) {
    if (!allowed) fail("sample: the {} is {}; it must be {}", what, value, range);
  };
  expect(o.temperature >= 0, "temperature", o.temperature, "0 or more");
  expect(o.top_k >= 0, "top_k", static_cast<double>(o.top_k), "0 or more");
  expect(o.top_p >= 0 && o.top_p <= 1, "top_p", o.top_p, "in 0 .. 1");
  expect(o.min_p >= 0 && o.min_p <= 1, "min_p", o.min_p, "in 0 .. 1");
  expect(o.repetition_penalty > 0, "repetition penalty", o.repetition_penalty, "more than 0");
  expect(std::isfinite(o.presence_penalty), "presence penalty", o.presence_penalty, "a finite number");
  expect(std::isfinite(o.frequency_penalty), "frequency penalty", o.frequency_penalty, "a finite number");
  const Shape& x = in.shape(0);
  Shape y = x;
  y.erase(y.rank() - 1);
  if (in.has(2)) {
    in.expect_dtype(2, is_integer(in.dtype(2)), "an integer type");
    Shape rows = in.shape(2);
    if (rows.rank() > 0) rows.erase(rows.rank() - 1);
    if (in.shape(2).rank() != x.rank() || rows != y)
      fail("sample: the previous tokens {} and the logits {} must agree in all axes but the last",
           in.shape(2).text(), x.text());
  }
  return {TensorType{DType::i64, y}};
}

// --- Reference ---

std::vector<double> Sample::penalized(RefContext& r) const {
  std::vector<double> x = r.in(0).real;
  for (double& v : x) v = clean(v);
  if (!r.has(2)) return x;
  const int64_t vocabulary = r.in(0).dims.back();
  const int64_t count = r.in(2).dims.back();
  std::vector<double> seen(x.size());
  for (size_t i = 0; i < r.in(2).ints.size(); ++i) {
    const int64_t token = r.in(2).ints[i];
    if (token >= 0 && token < vocabulary)
      ++seen[static_cast<size_t>(static_cast<int64_t>(i) / count * vocabulary + token)];
  }
  for (size_t i = 0; i < x.size(); ++i) {
    if (seen[i] == 0) continue;
    x[i] = x[i] > 0 ? x[i] / o.repetition_penalty : x[i] * o.repetition_penalty;
    x[i] -= o.presence_penalty + o.frequency_penalty * seen[i];
  }
  return x;
}

void Sample::reference(RefContext& r) const {
  const auto vocabulary = static_cast<size_t>(r.in(0).dims.back());
  const std::vector<double> all = penalized(r);
  const Draws draws(r.in(1), o.stream);
  std::vector<size_t> order(vocabulary);
  for (size_t row = 0; row < r.out().ints.size(); ++row) {
    const double* x = all.data() + row * vocabulary;
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return x[a] > x[b]; });
    const double most = std::max(x[order[0]], -kLargest);
    const auto scaled = [&](size_t token) { return (x[token] - most) / o.temperature; };
    size_t count = o.top_k > 0 ? std::min(vocabulary, static_cast<size_t>(o.top_k)) : vocabulary;
    if (is_greedy()) count = 1;
    double total = 0;
    for (size_t i = 0; i < count && count > 1; ++i) total += std::exp(scaled(order[i]));
    size_t best = order[0];
    double score = -HUGE_VAL;
    double before = 0;
    for (size_t i = 0; i < count && count > 1; ++i) {
      const size_t token = order[i];
      const double z = scaled(token);
      if (i > 0 && ((o.top_p < 1 && before / total >= o.top_p) || std::exp(z) < o.min_p)) break;
      before += std::exp(z);
      const double noisy = z + draws.gumbel(static_cast<int64_t>(row), static_cast<int64_t>(token));
      if (noisy > score) {
        score = noisy;
        best = token;
      }
    }
    r.out().ints[row] = static_cast<int64_t>(best);
  }
}

// --- With other ops ---

// Numbers outside of the vocabulary are counted in an entry that is cut off.
Value Sample::penalized(Value logits, Value previous) const {
  Value x = clean(logits);
  if (!previous || (o.repetition_penalty == 1 && o.presence_penalty == 0 && o.frequency_penalty == 0))
    return x;
  Graph& graph = x.graph();
  const int64_t last = x.shape().rank() - 1;
  const Dim vocabulary = x.shape()[last];
  const Value size = reshape(range(graph, 1, vocabulary, 1, DType::i32), {});
  const Value ids = cast(previous, DType::i32);
  const Value inside = logical_and(greater_equal(ids, 0), less(ids, size));
  Shape room = x.shape();
  room[last] = vocabulary + 1;
  const Value zeros = rlx::expand(graph.scalar(DType::i32, 0), room);
  const Value ones = rlx::expand(graph.scalar(DType::i32, 1), ids.shape());
  const Value counts =
      slice(scatter_elements(zeros, where(inside, ids, size), ones, last, ScatterReduction::add), last, 0,
            vocabulary);
  const Value repeated = where(greater(x, 0), x / o.repetition_penalty, x * o.repetition_penalty);
  const Value less_often = repeated - (cast(counts, DType::f32) * o.frequency_penalty + o.presence_penalty);
  return where(greater(counts, 0), less_often, x);
}

// Which of the tokens stay if they are in order. The first one does even if nothing of the probability is
// wanted.
Value Sample::in_order(Value z) const {
  const double wanted = std::max<double>(o.top_p, std::numeric_limits<float>::min());
  return less(cumsum(softmax(z), -1, true), wanted);
}

Value Sample::among_all(Value z) const {
  const std::vector<Value> least = nucleus(z, o.top_p);
  const Value equals = equal(z, least[0]);
  const Value before = cumsum(cast(equals, DType::i32), -1, true);
  return logical_or(greater(z, least[0]), logical_and(equals, less(before, least[1])));
}

std::optional<std::vector<Value>> Sample::expand(const ExpandArgs& in) const {
  const Value x = penalized(in[0], in[2]);
  if (is_greedy()) return std::vector{argmax(x)};
  const int64_t last = x.shape().rank() - 1;
  const int64_t k = kept(x.shape()[last]);
  // Of k tokens, the first is the largest, and filters see what is before each. Without an order there are no
  // ids.
  Value values = x;
  Value ids;
  if (k > 0) {
    const Ordered ordered = topk(x, k);
    values = ordered.values;
    ids = ordered.indices;
  }
  const Value most = ids ? slice(values, last, 0, 1) : max(x, {-1}, true);
  // Where all are minus infinity, so is the largest.
  Value z = where(equal(values, -HUGE_VAL), -HUGE_VAL, (values - most) / o.temperature);
  if (o.top_p < 1) z = where(ids ? in_order(z) : among_all(z), z, -HUGE_VAL);
  if (o.min_p > 0) z = where(greater_equal(z, std::log(o.min_p)), z, -HUGE_VAL);
  const Value best = argmax(add_gumbel(z, in[1], ids, o.stream), -1, true);
  const Value token = ids ? gather_elements(ids, best, last) : best;
  Shape y = x.shape();
  y.erase(last);
  return std::vector{reshape(token, y)};
}

}  // namespace

Value multinomial(Value logits, int64_t samples, const Seed& seed, int64_t stream) {
  auto op = std::make_shared<Multinomial>();
  op->samples = samples;
  op->stream = stream;
  Graph& graph = logits.graph();
  return graph.add_value(op, {logits, seed.words(graph)});
}

Value sample(Value logits, const Seed& seed, const SampleOptions& options, Value previous) {
  auto op = std::make_shared<Sample>();
  op->o = options;
  Graph& graph = logits.graph();
  return graph.add_value(op, {logits, seed.words(graph), previous});
}

namespace ops {
void register_sample(OpTable& table) {
  const std::string seed = "u32[2] in 0..4000000000";
  table.add<Multinomial>(
      {.formula =
           "y[.., s] = a class drawn from softmax(logits[..]): the argmax of add_gumbel(logits), row by row",
       .operands = "logits: [.., classes]; NaN counts as minus infinity\n"
                   "seed (integer): one or two elements, the low and high words of the seed",
       .attributes = "samples: how many classes are drawn for each row, with replacement\n"
                     "stream: draws with the same seed and different streams are independent",
       .outputs = "y (i64): [.., samples], the classes drawn",
       .types = "f32 f16 bf16",
       .variants = {"expanded"},
       .samples = {"multinomial(T[3,17], " + seed + ") {samples=5}", "multinomial(T[257], i64[1]) {stream=3}",
                   "multinomial(T[2,3,1], " + seed + ") {samples=2}", "multinomial(T[0,3], " + seed + ")",
                   "multinomial(T[3,5], " + seed + ") {samples=0}",
                   "multinomial(T[2,1000] in -9..9, " + seed + ") {samples=257}"}});
  table.add<Sample>(
      {.formula =
           "a token drawn from softmax(logits / temperature) of those that top_k, top_p and min_p leave, "
           "in this order; before that, logits of previous tokens are reduced: x / or * "
           "repetition_penalty - presence_penalty - count frequency_penalty",
       .operands = "logits: [.., vocabulary]; NaN counts as minus infinity\n"
                   "seed (integer): one or two elements, the low and high words of the seed\n"
                   "previous? (integer): [.., n], the tokens that the penalties are for; those outside the "
                   "vocabulary are ignored",
       .attributes =
           "repetition_penalty: divides the logits of previous tokens that are above 0, and multiplies the "
           "others\n"
           "presence_penalty: subtracted from the logits of previous tokens\n"
           "frequency_penalty: subtracted from the logit of a previous token as often as it occurs\n"
           "temperature: divides the logits; below 1e-6 the largest one wins\n"
           "top_k: only the k most probable tokens stay; 0: all\n"
           "top_p: only as few of the most probable tokens stay as have this probability together, at least "
           "one\n"
           "min_p: only tokens with at least this part of the largest probability stay\n"
           "stream: draws with the same seed and different streams are independent",
       .outputs = "y (i64): [..], the token drawn for each row",
       .types = "f32 f16 bf16",
       .variants = {"expanded"},
       .samples = {"sample(T[3,17], " + seed + ")", "sample(T[257], i64[1]) {temperature=0.7, stream=3}",
                   "sample(T[2,3,1], " + seed + ") {top_p=0.5}", "sample(T[0,3], " + seed + ") {top_k=2}",
                   "sample(T[9,257], " + seed + ") {temperature=0}",
                   "sample(T[300,257] in -5..5, " + seed + ") {top_k=20, top_p=0.8}",
                   "sample(T[300,257] in -3..3, " + seed + ") {top_p=0.6, min_p=0.05}",
                   "sample(T[300,257] in -5..5, " + seed + ") {min_p=0.02, temperature=1.5}",
                   "sample(T[9,17], " + seed + ") {top_k=17, top_p=0}",
                   "sample(T[5,300], " + seed +
                       ", i32[5,40] in -3..400) {repetition_penalty=1.3, "
                       "presence_penalty=0.5, frequency_penalty=0.25, top_k=50}",
                   "sample(T[2,33], " + seed + ", i64[2,0]) {presence_penalty=1}",
                   "sample(T[2,30001] in -9..9, " + seed + ") {top_k=50, top_p=0.9}",
                   "sample(T[2,30001] in -9..9, " + seed + ") {top_p=0.9}"}});
}
}  // namespace ops

}  // namespace rlx
