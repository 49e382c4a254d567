// Random numbers: each is a function of the seed, the stream and its place.
#include "ops/random/random.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/fail.h"
#include "kernels/lowering.h"
#include "kernels/random.wgsl.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/outputs.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/order.h"
#include "rlx/ops/random.h"
#include "rlx/ops/rearrange.h"

namespace rlx {

void expect_seed(const InferArgs& in, int64_t input, int64_t stream) {
  in.expect_dtype(input, is_integer(in.dtype(input)), "an integer type");
  const Dim words = in.shape(input).elements();
  if (!words.is(1) && !words.is(2))
    fail("{}: the seed {} has {} elements; it must have one or two", in.op(), in.shape(input).text(),
         words.text());
  if (stream < 0 || stream > std::numeric_limits<uint32_t>::max())
    fail("{}: the stream is {}; it must be in 0 .. 4294967295", in.op(), stream);
}

Draws::Draws(const RefTensor& seed, int64_t stream) {
  const auto word = [&](size_t i) { return i < seed.ints.size() ? static_cast<uint32_t>(seed.ints[i]) : 0; };
  key_ = threefry({word(0), word(1)}, {static_cast<uint32_t>(stream), 0});
}

Value Seed::words(Graph& graph) const {
  if (words_) return words_;
  return graph.constant(Tensor::from_ints(
      DType::u32, {2},
      std::vector<int64_t>{static_cast<uint32_t>(number_), static_cast<uint32_t>(number_ >> 32)}));
}

namespace {

using Kernel = kernels::random;

// --- Numbers of one shape ---

enum class Distribution : uint32_t {
  bits = Kernel::BITS,
  uniform = Kernel::UNIFORM,
  normal = Kernel::NORMAL
};

int precision_of(DType dtype) { return dtype == DType::f16 ? 11 : dtype == DType::bf16 ? 8 : 24; }

struct Random final : TableOp {
  Distribution kind = Distribution::bits;
  Shape shape;
  double base = 0;    // low, or the mean
  double factor = 1;  // high, or the scale
  DType dtype = DType::f32;
  int64_t stream = 0;

  explicit Random(Distribution k = Distribution::bits) : kind(k) {
    if (kind == Distribution::bits) dtype = DType::u32;
  }
  std::string_view name() const override {
    return kind == Distribution::bits      ? "random_bits"
           : kind == Distribution::uniform ? "random_uniform"
                                           : "random_normal";
  }
  std::shared_ptr<Op> clone() const override { return std::make_shared<Random>(*this); }

  void visit_attributes(AttributeVisitor& v) override {
    v("shape", shape);
    if (kind != Distribution::bits) {
      const bool uniform = kind == Distribution::uniform;
      v(uniform ? "low" : "mean", base, 0);
      v(uniform ? "high" : "scale", factor, 1);
      v("dtype", dtype, DType::f32);
    }
    v("stream", stream, 0);
  }

  std::vector<TensorType> infer(const InferArgs& in) const override {
    in.expect_count(1);
    expect_seed(in, 0, stream);
    for (int64_t i = 0; i < shape.rank(); ++i) {
      if (shape[i].is_static() && shape[i].value() < 0) fail("{}: the shape is {}", name(), shape.text());
    }
    if (kind != Distribution::bits && !is_float(dtype))
      fail("{}: cannot draw numbers of the type {}", name(), to_string(dtype));
    if (!std::isfinite(base) || !std::isfinite(factor) ||
        (kind == Distribution::uniform && !(base <= factor && std::isfinite(factor - base)))) {
      fail("{}: cannot draw numbers {} {} {} {}", name(), kind == Distribution::uniform ? "from" : "around",
           base, kind == Distribution::uniform ? "to" : "with the deviation", factor);
    }
    return {TensorType{dtype, shape}};
  }

  // The largest number of the type below high, if there is one from low on.
  float most() const {
    const double high = Tensor::full(dtype, {1}, factor).real(0);
    int exponent = 0;
    const double fraction = std::frexp(high, &exponent);
    const int smallest = dtype == DType::f16 ? -24 : dtype == DType::bf16 ? -133 : -149;
    const int unit = std::max(smallest, exponent - precision_of(dtype) - (fraction == 0.5 ? 1 : 0));
    const double below = high == 0 ? 0 : high - std::ldexp(1, unit);
    return static_cast<float>(std::max(below, Tensor::full(dtype, {1}, base).real(0)));
  }
  float range() const { return static_cast<float>(kind == Distribution::uniform ? factor - base : factor); }

  // In f32, one rounding after the other, as the device does.
  double uniform(uint32_t word) const {
    const int bits = precision_of(dtype);
    const double u = std::ldexp(static_cast<double>(word >> (32 - bits)), -bits);
    const auto scaled = static_cast<float>(u * static_cast<double>(range()));
    const double sum = static_cast<double>(scaled) + static_cast<double>(static_cast<float>(base));
    return static_cast<double>(std::min(static_cast<float>(sum), most()));
  }

  void reference(RefContext& r) const override {
    const Draws draws(r.in(0), stream);
    const int64_t count = r.out().elements();
    for (int64_t i = 0; i < count; ++i) {
      const Words words = draws.words(0, i);
      const auto at = static_cast<size_t>(i);
      if (kind == Distribution::bits) {
        r.out().ints[at] = words[0];
      } else if (kind == Distribution::uniform) {
        r.out().real[at] = uniform(words[0]);
      } else {
        r.out().real[at] = base + factor * normal_of(words);
      }
    }
  }

  void lower(Lowering& l) const override {
    const int bits = precision_of(dtype);
    const auto uniform = kind == Distribution::uniform;
    l.flat<kernels::random>({.seed = l.in(0), .y = l.out()},
                            {.stream = static_cast<uint32_t>(stream),
                             .seed_words = to_u32(l.in(0).view.elements()),
                             .shift = static_cast<uint32_t>(32 - bits),
                             .unit = std::ldexp(1.0F, -bits),
                             .base = static_cast<float>(base),
                             .factor = range(),
                             .most = uniform ? most() : 0},
                            {.KIND = static_cast<uint32_t>(kind)});
  }

  // Of a normal number: logarithm, root, sine and their product. The mean can be larger than the sum.
  Tolerance tolerance(std::span<const TensorType>) const override {
    if (kind != Distribution::normal) return {.ulps = 0};
    return {.ulps = 8, .scale = std::abs(base)};
  }
};

// --- Noise ---

struct AddGumbel final : OpOf<AddGumbel> {
  static constexpr auto kName = "add_gumbel";
  int64_t stream = 0;

  void visit_attributes(AttributeVisitor& v) override { v("stream", stream, 0); }

  std::vector<TensorType> infer(const InferArgs& in) const override {
    in.expect_count(2, 3);
    in.expect_float(0);
    expect_seed(in, 1, stream);
    if (in.shape(0).rank() == 0) fail("add_gumbel: x is a scalar, and has no rows");
    if (in.has(2)) {
      in.expect_dtype(2, is_integer(in.dtype(2)), "an integer type");
      if (in.shape(2) != in.shape(0))
        fail("add_gumbel: x {} and the ids {} have different shapes", in.shape(0).text(), in.shape(2).text());
    }
    return {TensorType{DType::f32, in.shape(0)}};
  }

  void reference(RefContext& r) const override {
    const RefTensor& x = r.in(0);
    const Draws draws(r.in(1), stream);
    const int64_t length = x.dims.back();
    for (int64_t i = 0; i < x.elements(); ++i) {
      const auto at = static_cast<size_t>(i);
      r.out().real[at] = x.real[at] + draws.gumbel(i / length, r.has(2) ? r.in(2).ints[at] : i % length);
    }
  }

  void lower(Lowering& l) const override {
    const Operand& x = l.in(0);
    if (x.view.elements() == 0) return;
    l.flat<kernels::random>({.seed = l.in(1), .x = x, .ids = l.optional_in(2), .y = l.out()},
                            {.stream = static_cast<uint32_t>(stream),
                             .seed_words = to_u32(l.in(1).view.elements()),
                             .length = to_u32(x.view.dims.back())},
                            {.KIND = Kernel::GUMBEL});
  }

  // The second logarithm is of a number with an error, which counts in full where the result is near zero.
  Tolerance tolerance(std::span<const TensorType>) const override { return {.ulps = 8, .scale = 4}; }
};

// --- Made of these ---

struct Bernoulli final : OpOf<Bernoulli> {
  static constexpr auto kName = "bernoulli";
  std::optional<DType> dtype;  // none: that of p
  int64_t stream = 0;

  void visit_attributes(AttributeVisitor& v) override {
    v("dtype", dtype);
    v("stream", stream, 0);
  }
  std::optional<ValueRange> sensible_values(int64_t input, std::span<const TensorType>) const override {
    return input == 0 ? std::optional(ValueRange{.low = 0, .high = 1}) : std::nullopt;
  }
  std::vector<TensorType> infer(const InferArgs& in) const override {
    in.expect_count(2);
    in.expect_float(0);
    expect_seed(in, 1, stream);
    return {TensorType{dtype.value_or(in.dtype(0)), in.shape(0)}};
  }
  void reference(RefContext& r) const override {
    const Draws draws(r.in(1), stream);
    r.out().visit([&]<class T>(std::vector<T>& out) {
      for (size_t i = 0; i < out.size(); ++i)
        out[i] = static_cast<T>(draws.uniform(static_cast<int64_t>(i)) < r.in(0).real[i] ? 1 : 0);
    });
  }
  std::optional<std::vector<Value>> expand(const ExpandArgs& in) const override {
    const Value u = random_uniform(in.graph, in[0].shape(), in[1], 0, 1, DType::f32, stream);
    return std::vector{cast(less(u, cast(in[0], DType::f32)), dtype.value_or(in[0].dtype()))};
  }
  Tolerance tolerance(std::span<const TensorType>) const override { return {.ulps = 0}; }
};

struct Dropout final : OpOf<Dropout> {
  static constexpr auto kName = "dropout";
  double ratio = 0.5;
  int64_t stream = 0;

  void visit_attributes(AttributeVisitor& v) override {
    v("ratio", ratio, 0.5);
    v("stream", stream, 0);
  }

  std::vector<TensorType> infer(const InferArgs& in) const override {
    in.expect_count(1, 2);
    in.expect_float(0);
    if (in.has(1)) expect_seed(in, 1, stream);
    if (!(ratio >= 0 && ratio <= 1)) fail("dropout: the ratio is {}; it must be in 0 .. 1", ratio);
    return {in[0], TensorType{DType::bool_, in.shape(0)}};
  }

  // Of those that stay. All elements of a ratio of 1 are dropped.
  double scale() const { return ratio < 1 ? 1 / (1 - ratio) : 0; }

  void reference(RefContext& r) const override {
    const RefTensor& x = r.in(0);
    const std::optional<Draws> draws =
        r.has(1) ? std::optional<Draws>(std::in_place, r.in(1), stream) : std::nullopt;
    for (size_t i = 0; i < x.real.size(); ++i) {
      const bool stays =
          !draws || draws->uniform(static_cast<int64_t>(i)) >= static_cast<double>(static_cast<float>(ratio));
      r.out(0).real[i] = draws ? x.real[i] * (stays ? scale() : 0) : x.real[i];
      r.out(1).ints[i] = stays ? 1 : 0;
    }
  }

  std::optional<std::vector<Value>> expand(const ExpandArgs& in) const override {
    const Value x = in[0];
    if (!in[1]) {
      const Value all = in.graph.scalar(DType::bool_, 1);
      return std::vector{x, rlx::expand(all, x.shape())};
    }
    const Value u = random_uniform(in.graph, x.shape(), in[1], 0, 1, DType::f32, stream);
    const Value mask = greater_equal(u, ratio);
    const Value scales = where(mask, in.graph.scalar(DType::f32, scale()), in.graph.scalar(DType::f32, 0));
    return std::vector{cast(cast(x, DType::f32) * scales, x.dtype()), mask};
  }
};

struct RandPerm final : OpOf<RandPerm> {
  static constexpr auto kName = "randperm";
  Dim n;
  int64_t stream = 0;

  void visit_attributes(AttributeVisitor& v) override {
    v("n", n);
    v("stream", stream, 0);
  }
  std::vector<TensorType> infer(const InferArgs& in) const override {
    in.expect_count(1);
    expect_seed(in, 0, stream);
    if (n.is_static() && n.value() < 0) fail("randperm: n is {}", n.value());
    return {TensorType{DType::i64, {n}}};
  }
  void reference(RefContext& r) const override {
    const Draws draws(r.in(0), stream);
    std::vector<int64_t>& order = r.out().ints;
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](int64_t i) { return draws.words(0, i)[0]; });
  }
  std::optional<std::vector<Value>> expand(const ExpandArgs& in) const override {
    return std::vector{argsort(random_bits(in.graph, {n}, in[0], stream))};
  }
  Tolerance tolerance(std::span<const TensorType>) const override { return {.ulps = 0}; }
};

Value random_value(Graph& graph, const Seed& seed, Random op) {
  return graph.add_value(std::make_shared<Random>(std::move(op)), {seed.words(graph)});
}

}  // namespace

Value random_bits(Graph& graph, Shape shape, const Seed& seed, int64_t stream) {
  Random op(Distribution::bits);
  op.shape = std::move(shape);
  op.stream = stream;
  return random_value(graph, seed, std::move(op));
}

Value random_uniform(Graph& graph, Shape shape, const Seed& seed, double low, double high, DType dtype,
                     int64_t stream) {
  Random op(Distribution::uniform);
  op.shape = std::move(shape);
  op.base = low;
  op.factor = high;
  op.dtype = dtype;
  op.stream = stream;
  return random_value(graph, seed, std::move(op));
}

Value random_normal(Graph& graph, Shape shape, const Seed& seed, double mean, double scale, DType dtype,
                    int64_t stream) {
  Random op(Distribution::normal);
  op.shape = std::move(shape);
  op.base = mean;
  op.factor = scale;
  op.dtype = dtype;
  op.stream = stream;
  return random_value(graph, seed, std::move(op));
}

Value bernoulli(Value p, const Seed& seed, std::optional<DType> dtype, int64_t stream) {
  auto op = std::make_shared<Bernoulli>();
  op->dtype = dtype;
  op->stream = stream;
  Graph& graph = p.graph();
  return graph.add_value(op, {p, seed.words(graph)});
}

Value randperm(Graph& graph, Dim n, const Seed& seed, int64_t stream) {
  auto op = std::make_shared<RandPerm>();
  op->n = std::move(n);
  op->stream = stream;
  return graph.add_value(op, {seed.words(graph)});
}

Dropped dropout(Value x, double ratio, const std::optional<Seed>& seed, int64_t stream) {
  auto op = std::make_shared<Dropout>();
  op->ratio = ratio;
  op->stream = stream;
  Graph& graph = x.graph();
  return named_outputs<Dropped>(graph.add_value(op, {x, seed ? seed->words(graph) : Value()}));
}

Value add_gumbel(Value x, const Seed& seed, Value ids, int64_t stream) {
  auto op = std::make_shared<AddGumbel>();
  op->stream = stream;
  Graph& graph = x.graph();
  return graph.add_value(op, {x, seed.words(graph), ids});
}

namespace ops {
void register_random(OpTable& table) {
  const std::string seed = "u32[2] in 0..4000000000";
  const auto add = [&](Distribution kind, std::string formula, std::string_view attributes,
                       std::vector<std::string> samples) {
    table.add({.name = std::string(Random(kind).name()),
               .formula = std::move(formula),
               .operands = "seed (integer): one or two elements, the low and high words of the seed",
               .attributes = attributes,
               .outputs = kind == Distribution::bits ? "y (u32): all bits random" : "y (float): the numbers",
               .types = kind == Distribution::bits ? "u32" : "f32",
               .variants = {"random"},
               .samples = std::move(samples),
               .make = [kind] { return std::make_shared<Random>(kind); }});
  };
  add(Distribution::bits,
      "y[i] = the first word of T((0, i), T((stream, 0), seed)), where T(counter, key) is Threefry-2x32-20",
      "shape: of y\n"
      "stream: draws with the same seed and different streams are independent",
      {"random_bits(" + seed + ") {shape=[3, 17]}", "random_bits(i64[1] in -9..9) {shape=[257], stream=7}",
       "random_bits(i32[2] in -9..9) {shape=[65537]}", "random_bits(u8[1]) {shape=[]}",
       "random_bits(" + seed + ") {shape=[0, 3]}", "random_bits(" + seed + ") {shape=[600, 1001]}"});
  const std::vector<std::string> types = {"f32", "f16", "bf16"};
  std::vector<std::string> uniform = {"random_uniform(i64[1]) {shape=[3, 17], low=-1.5, high=0.25}",
                                      "random_uniform(" + seed + ") {shape=[1], stream=4294967295}",
                                      "random_uniform(" + seed + ") {shape=[600, 1001]}",
                                      "random_uniform(" + seed + ") {shape=[3, 0]}",
                                      "random_uniform(" + seed + ") {shape=[5], low=2, high=2}"};
  std::vector<std::string> normal = {"random_normal(i64[1]) {shape=[3, 17], mean=-1.5, scale=0.25}",
                                     "random_normal(" + seed + ") {shape=[1], stream=1}",
                                     "random_normal(" + seed + ") {shape=[600, 1001]}",
                                     "random_normal(" + seed + ") {shape=[3, 0]}",
                                     "random_normal(" + seed + ") {shape=[5], mean=2, scale=0}"};
  for (const std::string& type : types) {
    uniform.push_back("random_uniform(" + seed + ") {shape=[65537], dtype=" + type + "}");
    uniform.push_back("random_uniform(" + seed + ") {shape=[257], low=-3, high=100, dtype=" + type + "}");
    normal.push_back("random_normal(" + seed + ") {shape=[65537], dtype=" + type + "}");
    normal.push_back("random_normal(" + seed + ") {shape=[257], mean=30, scale=100, dtype=" + type + "}");
  }
  add(Distribution::uniform,
      "y[i] = low + u (high - low), where u is the first bits of random_bits as a fraction",
      "shape: of y\n"
      "low: the smallest number\n"
      "high: what all numbers are below, unless it equals low\n"
      "dtype: the type of y, a float type\n"
      "stream: draws with the same seed and different streams are independent",
      std::move(uniform));
  add(Distribution::normal,
      "y[i] = mean + scale sqrt(-2 ln u) cos(2 pi v), where u and v are made of the two words of random_bits",
      "shape: of y\n"
      "mean: of the distribution\n"
      "scale: the standard deviation of the distribution\n"
      "dtype: the type of y, a float type\n"
      "stream: draws with the same seed and different streams are independent",
      std::move(normal));
  table.add<AddGumbel>(
      {.formula = "y = x - ln(-ln u), where u = (w + 1/2) / 2^32 and w is the first word of "
                  "T((row, id), T((stream, 0), seed)); without ids, id is the index in the row",
       .operands = "x: rows of logits [.., n]\n"
                   "seed (integer): one or two elements, the low and high words of the seed\n"
                   "ids? (integer): of the shape of x, a number that the noise of an element depends on; "
                   "its index in the row if left out",
       .attributes = "stream: draws with the same seed and different streams are independent",
       .outputs = "y (f32): x with the noise added",
       .types = "f32 f16 bf16",
       .variants = {"random"},
       .samples = {"add_gumbel(T[3,17], i64[1])", "add_gumbel(T[257], " + seed + ", i32[257])",
                   "add_gumbel(T[2,5,7], " + seed + ", i64[2,5,7]) {stream=3}",
                   "add_gumbel(T[0,3], " + seed + ")", "add_gumbel(T[3,0], " + seed + ")",
                   "add_gumbel(T[3,100003], " + seed + ", i32[3,100003])"}});
  table.add<Bernoulli>({.formula = "1 where random_uniform is less than p, else 0",
                        .operands = "p: the probability of 1 for each element of y\n"
                                    "seed (integer): one or two elements, the low and high words of the seed",
                        .attributes =
                            "dtype: the type of y; that of p if not given\n"
                            "stream: draws with the same seed and different streams are independent",
                        .outputs = "y (any): 1 or 0, of the shape of p",
                        .types = "f32 f16 bf16",
                        .variants = {"expanded"},
                        .samples = {"bernoulli(T[3,17] in 0..1, " + seed + ")",
                                    "bernoulli(T[257] in -1..2, i64[1]) {dtype=bool, stream=2}",
                                    "bernoulli(T[65537] in 0..1, " + seed + ") {dtype=u8}",
                                    "bernoulli(T[0,3], " + seed + ") {dtype=i64}"}});
  table.add<Dropout>(
      {.formula = "x / (1 - ratio) where random_uniform is not less than the ratio, else 0; and "
                  "where that is. Without a seed x, and true",
       .operands = "x: of any shape\n"
                   "seed? (integer): one or two elements, the low and high words of the seed; nothing is "
                   "dropped if left out",
       .attributes = "ratio: the probability that an element is dropped, from 0 to 1\n"
                     "stream: draws with the same seed and different streams are independent",
       .outputs = "y: of the shape of x\n"
                  "mask (bool): of the shape of x, false where elements are dropped",
       .types = "f32 f16 bf16",
       .variants = {"expanded"},
       .samples = {"dropout(T[3,17], " + seed + ")", "dropout(T[257], i64[1]) {ratio=0.1, stream=5}",
                   "dropout(T[2,3], none)", "dropout(T[5], " + seed + ") {ratio=1}",
                   "dropout(T[5], " + seed + ") {ratio=0}", "dropout(T[0], " + seed + ")",
                   "dropout(T[300,500], " + seed + ") {ratio=0.75}"}});
  table.add<RandPerm>({.formula = "the order of n elements of random_bits; equal ones stay in order",
                       .operands = "seed (integer): one or two elements, the low and high words of the seed",
                       .attributes = "n: how many numbers\n"
                                     "stream: draws with the same seed and different streams are independent",
                       .outputs = "y (i64): [n], the numbers from 0 to n - 1 in random order",
                       .types = "i64",
                       .variants = {"expanded"},
                       .samples = {"randperm(" + seed + ") {n=257}", "randperm(i64[1]) {n=1, stream=3}",
                                   "randperm(" + seed + ") {n=0}", "randperm(" + seed + ") {n=65537}"}});
}
}  // namespace ops

}  // namespace rlx
