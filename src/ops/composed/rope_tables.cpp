// Tables of cosines and sines for `rope`, and what is made of them.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "ops/composed/composite.h"
#include "ops/machinery/op_table.h"
#include "rlx/graph.h"
#include "rlx/ops/attention.h"
#include "rlx/ops/transformer.h"

namespace rlx {
namespace {

// Pair i of n is rotated by theta^(-i / n) from one position to the next.
std::vector<double> powers(double theta, int64_t pairs) {
  std::vector<double> out;
  for (int64_t i = 0; i < pairs; ++i)
    out.push_back(std::pow(theta, -static_cast<double>(i) / static_cast<double>(pairs)));
  return out;
}

// Theta for a sequence that is `factor` times as long.
double stretched(const RotaryOptions& o, double factor) {
  const auto n = static_cast<double>(o.rotated);
  if (o.rotated < 4) fail("rotary_frequencies: {} rotated elements are too few for NTK scaling", o.rotated);
  return o.theta * std::pow(factor, n / (n - 2));
}

// The pair that makes this many rotations over the original length.
double pair_of(const RotaryOptions& o, double rotations) {
  const double positions = static_cast<double>(o.original_length) / (rotations * 2 * std::numbers::pi);
  return static_cast<double>(o.rotated) * std::log(positions) / (2 * std::log(o.theta));
}

std::vector<double> yarn(const RotaryOptions& o) {
  const double low = std::max(std::floor(pair_of(o, o.beta_fast)), 0.0);
  double high = std::min(std::ceil(pair_of(o, o.beta_slow)), static_cast<double>(o.rotated - 1));
  if (low == high) high += 0.001;
  std::vector<double> f = powers(o.theta, o.rotated / 2);
  for (size_t i = 0; i < f.size(); ++i) {
    const double divided = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    f[i] = f[i] / o.factor * divided + f[i] * (1 - divided);
  }
  return f;
}

std::vector<double> llama3(const RotaryOptions& o) {
  const auto length = static_cast<double>(o.original_length);
  std::vector<double> f = powers(o.theta, o.rotated / 2);
  for (double& x : f) {
    const double rotations = length * x / (2 * std::numbers::pi);
    const double kept =
        std::clamp((rotations - o.low_frequency) / (o.high_frequency - o.low_frequency), 0.0, 1.0);
    x = (1 - kept) * x / o.factor + kept * x;
  }
  return f;
}

void check_options(const RotaryOptions& o) {
  if (o.rotated < 2 || o.rotated % 2 != 0)
    fail("rotary_frequencies: {} elements of a head cannot be rotated in pairs", o.rotated);
  if (!(o.theta > 1)) fail("rotary_frequencies: theta is {}; it must be more than 1", o.theta);
  if (!(o.factor > 0)) fail("rotary_frequencies: the factor is {}; it must be positive", o.factor);
  const bool by_length = o.scaling == RotaryScaling::dynamic_ntk || o.scaling == RotaryScaling::yarn ||
                         o.scaling == RotaryScaling::llama3;
  if (by_length && o.original_length < 1) {
    fail("rotary_frequencies: the original length is {}; this scaling needs the one of the training",
         o.original_length);
  }
  if (o.scaling == RotaryScaling::llama3 && !(o.high_frequency > o.low_frequency)) {
    fail("rotary_frequencies: the high frequency, {}, must be above the low one, {}", o.high_frequency,
         o.low_frequency);
  }
}

}  // namespace

std::vector<double> rotary_frequencies(const RotaryOptions& o) {
  check_options(o);
  const int64_t pairs = o.rotated / 2;
  switch (o.scaling) {
    case RotaryScaling::none:
      return powers(o.theta, pairs);
    case RotaryScaling::linear: {
      std::vector<double> f = powers(o.theta, pairs);
      for (double& x : f) x /= o.factor;
      return f;
    }
    case RotaryScaling::ntk:
      return powers(stretched(o, o.factor), pairs);
    case RotaryScaling::dynamic_ntk: {
      const auto length = static_cast<double>(std::max(o.length, o.original_length));
      const double factor = o.factor * length / static_cast<double>(o.original_length) - (o.factor - 1);
      return powers(stretched(o, factor), pairs);
    }
    case RotaryScaling::yarn:
      return yarn(o);
    case RotaryScaling::llama3:
      return llama3(o);
  }
  fail("rotary_frequencies: there is no such scaling");
}

RotaryTables rotary_tables(int64_t positions, const RotaryOptions& options, DType dtype) {
  if (positions < 1) fail("rotary_tables: there are {} positions; there must be at least one", positions);
  const std::vector<double> f = rotary_frequencies(options);
  const double by_default =
      options.scaling == RotaryScaling::yarn && options.factor > 1 ? 0.1 * std::log(options.factor) + 1 : 1;
  const double magnitude = options.magnitude.value_or(by_default);
  std::vector<double> cos;
  std::vector<double> sin;
  for (int64_t p = 0; p < positions; ++p) {
    for (const double x : f) {
      cos.push_back(magnitude * std::cos(static_cast<double>(p) * x));
      sin.push_back(magnitude * std::sin(static_cast<double>(p) * x));
    }
  }
  const std::vector<int64_t> dims = {positions, static_cast<int64_t>(f.size())};
  return {Tensor::from_doubles(dtype, dims, cos), Tensor::from_doubles(dtype, dims, sin)};
}

// One rope whose tables have the columns' angles in their first half and the rows' in the second.
Value axial_rope_2d(Value x, int64_t end_x, int64_t end_y, int64_t head_dim, double theta, int64_t repeat) {
  if (end_x < 1 || end_y < 1 || repeat < 1)
    fail("axial_rope_2d: a picture of {} x {} pixels, each {} times, has no positions", end_x, end_y, repeat);
  if (head_dim < 4 || head_dim % 4 != 0)
    fail("axial_rope_2d: head_dim is {}; it must be a multiple of 4", head_dim);
  const int64_t positions = end_x * end_y * repeat;
  const Shape& shape = x.shape();
  if (shape.rank() < 2 || !shape[shape.rank() - 2].is(positions)) {
    fail("axial_rope_2d: the input is {}; a picture of {} x {} pixels, each {} times, has {} positions",
         shape.text(), end_x, end_y, repeat, positions);
  }
  const std::vector<double> f = powers(theta, head_dim / 4);
  std::vector<double> cos;
  std::vector<double> sin;
  for (int64_t t = 0; t < positions; ++t) {
    const int64_t pixel = t / repeat;
    for (const int64_t along : {pixel % end_x, pixel / end_x}) {
      for (const double angle : f) {
        cos.push_back(std::cos(static_cast<double>(along) * angle));
        sin.push_back(std::sin(static_cast<double>(along) * angle));
      }
    }
  }
  const auto table = [&](const std::vector<double>& values) {
    return x.graph().constant(Tensor::from_doubles(DType::f32, {positions, head_dim / 2}, values));
  };
  return rope(x, table(cos), table(sin), head_dim, /*interleaved=*/true);
}

namespace {

struct AxialRope2d final : Composite<AxialRope2d> {
  static constexpr auto kName = "axial_rope_2d";
  static constexpr int64_t kLeast = 1, kMost = 1;
  int64_t end_x = 1, end_y = 1, head_dim = 4, repeat = 1;
  double theta = 10000;
  void visit_attributes(AttributeVisitor& v) override {
    v("end_x", end_x);
    v("end_y", end_y);
    v("head_dim", head_dim);
    v("theta", theta, 10000);
    v("repeat", repeat, 1);
  }
  std::vector<Value> make(Graph&, const std::vector<Value>& in) const {
    return {axial_rope_2d(in[0], end_x, end_y, head_dim, theta, repeat)};
  }
  Tolerance tolerance(std::span<const TensorType>) const override {
    return {.ulps = 3, .terms = 0, .scale = 4};  // as rope; cosines and sines are rounded
  }
};

}  // namespace

namespace ops {
void register_rotary(OpTable& table) {
  table.add<AxialRope2d>(
      {.formula =
           "pairs of the first half of each head turn with the column of their pixel, those of the second "
           "half with its row",
       .operands = "x: [.., end_x * end_y * repeat, heads * head_dim], the pixels of a picture row by row",
       .attributes = "end_x: how many columns the picture has\n"
                     "end_y: how many rows the picture has\n"
                     "head_dim: how many elements a head has, a multiple of 4\n"
                     "theta: pair c of a half turns by theta^(-4 c / head_dim) from one pixel to the next\n"
                     "repeat: how many neighbouring positions each pixel has",
       .outputs = "y: of the shape of x",
       .types = "f32 f16 bf16",
       .variants = {"expanded"},
       .samples = {"axial_rope_2d(T[2,30,24]) {end_x=5, end_y=3, head_dim=12, repeat=2}",
                   "axial_rope_2d(T[3,1,4]) {end_x=1, end_y=1, head_dim=4, theta=100}"}});
}
}  // namespace ops

}  // namespace rlx
