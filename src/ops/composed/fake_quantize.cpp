// Floats that go through integers of a few bits and back, as in training that prepares for quantisation.
#include <cmath>

#include "base/format.h"
#include "ops/composed/composite.h"
#include "ops/machinery/op_table.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/quantization.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"

namespace rlx {
namespace {

constexpr double kLeastScale = 1e-12;

// The largest integer.
double largest(std::string_view op, int64_t bits) {
  if (bits != 2 && bits != 4 && bits != 8) fail("{}: {} bits; there must be 2, 4 or 8", op, bits);
  return std::ldexp(1, static_cast<int>(bits) - 1) - 1;
}

// The axes that share a scale, and the shape of scales that broadcast to x and on their own.
struct Channels {
  std::vector<int64_t> shared;
  Shape spread, own;
};

Channels channels_of(std::string_view op, const Shape& x, std::optional<int64_t> axis) {
  Channels c;
  const int64_t rank = x.rank();
  if (axis && (*axis < -rank || *axis >= rank)) fail("{}: x {} has no axis {}", op, x.text(), *axis);
  const int64_t along = !axis ? -1 : *axis < 0 ? *axis + rank : *axis;
  for (int64_t i = 0; i < rank; ++i) {
    if (i != along) c.shared.push_back(i);
    c.spread.push_back(i == along ? x[i] : Dim(1));
  }
  if (axis) c.own = Shape{x[along]};
  return c;
}

Value wide(Value x) { return x.dtype() == DType::f32 ? x : cast(x, DType::f32); }

Value spread(std::string_view op, Value scale, const Channels& c) {
  if (!(scale.shape() == c.own) && !(c.own.rank() == 0 && scale.shape() == Shape{1}))
    fail("{}: the scales have the shape {}; they must be {}", op, scale.shape().text(), c.own.text());
  return reshape(wide(scale), c.spread);
}

Value rounded(Value x, Value scale, double q) {
  return cast(clamp(round_div_away(wide(x), scale), -q, q) * scale, x.dtype());
}

}  // namespace

FakeQuantized fake_quantize(Value x, Value state, const FakeQuantizeOptions& options) {
  constexpr std::string_view kOp = "fake_quantize";
  const double q = largest(kOp, options.bits);
  const Channels c = channels_of(kOp, x.shape(), options.axis);
  if ((options.mode == ScaleMode::per_batch) == static_cast<bool>(state))
    fail("fake_quantize: a state is given for moving_average and fixed, and for these only");
  Value scale;
  if (options.mode == ScaleMode::fixed) {
    scale = maximum(spread(kOp, state, c), kLeastScale);
  } else {
    const Value magnitude = abs(wide(x));
    const Value most = c.shared.empty() ? magnitude : max(magnitude, c.shared, true);
    scale = maximum(most / q, kLeastScale);
  }
  if (options.mode == ScaleMode::moving_average) {
    const Value before = spread(kOp, state, c);
    scale = where(less_equal(before, 0), scale, before * options.decay + scale * (1 - options.decay));
  }
  return {rounded(x, scale, q), reshape(scale, c.own)};
}

Value fake_quantize_lsq(Value x, Value scale, int64_t bits, std::optional<int64_t> axis) {
  constexpr std::string_view kOp = "fake_quantize_lsq";
  const Channels c = channels_of(kOp, x.shape(), axis);
  return rounded(x, maximum(spread(kOp, scale, c), kLeastScale), largest(kOp, bits));
}

namespace {

struct FakeQuantize final : Composite<FakeQuantize> {
  static constexpr auto kName = "fake_quantize";
  static constexpr int64_t kLeast = 1, kMost = 2;
  FakeQuantizeOptions options;
  void visit_attributes(AttributeVisitor& v) override {
    v("bits", options.bits, 8);
    v("axis", options.axis);
    v.choice("mode", options.mode, {"per_batch", "moving_average", "fixed"},
             std::optional(ScaleMode::per_batch));
    v("decay", options.decay, 0.99);
  }
  std::vector<Value> make(Graph&, const std::vector<Value>& in) const {
    const auto [y, scale] = fake_quantize(in[0], in[1], options);
    return {y, scale};
  }
  // A scale that is a unit off multiplies up to 127.
  Tolerance tolerance(std::span<const TensorType>) const override { return {.ulps = 8}; }
};

struct FakeQuantizeLsq final : Composite<FakeQuantizeLsq> {
  static constexpr auto kName = "fake_quantize_lsq";
  static constexpr int64_t kLeast = 2, kMost = 2;
  int64_t bits = 8;
  std::optional<int64_t> axis;
  void visit_attributes(AttributeVisitor& v) override {
    v("bits", bits, 8);
    v("axis", axis);
  }
  std::vector<Value> make(Graph&, const std::vector<Value>& in) const {
    return {fake_quantize_lsq(in[0], in[1], bits, axis)};
  }
  Tolerance tolerance(std::span<const TensorType>) const override { return {.ulps = 4}; }
};

}  // namespace

namespace ops {
void register_fake_quantize(OpTable& table) {
  table.add<FakeQuantize>(
      {.formula = "y = clamp(round(x / s), -q, q) s, ties away from zero, and s = max|x| / q, its average, "
                  "or the state",
       .operands = "x: what is quantised and decoded again\n"
                   "state? (float): for moving_average the average so far (0 or less: none), "
                   "for fixed the scale; shaped as the output scale",
       .attributes = "bits: 2, 4 or 8\n"
                     "axis: a scale for each index along it; if not given, one for all\n"
                     "mode: where the scale comes from\n"
                     "decay: what the moving average keeps of itself",
       .outputs = "y: as x\n"
                  "scale (f32): the scale that was used, [] or [size of the axis]",
       .types = "f32 f16 bf16",
       .variants = {"expanded"},
       .samples = {
           "fake_quantize(T[3,17])", "fake_quantize(T[5,33]) {bits=4, axis=0}",
           "fake_quantize(T[2,3,5], f32[3] in 0.01..0.03) {axis=1, mode=\"moving_average\", decay=0.9}",
           "fake_quantize(T[2,7], f32[7] in -1..0) {axis=-1, mode=\"moving_average\"}",
           "fake_quantize(T[257], f32[] in 0.2..0.9) {bits=2, mode=\"fixed\"}"}});
  table.add<FakeQuantizeLsq>(
      {.formula = "y = clamp(round(x / s), -q, q) s for s = max(scale, 1e-12), ties away from zero",
       .operands = "x: what is quantised and decoded again\n"
                   "scale (float): [] or [size of the axis]",
       .attributes = "bits: 2, 4 or 8\n"
                     "axis: a scale for each index along it; if not given, one for all",
       .outputs = "y: as x",
       .types = "f32 f16 bf16",
       .variants = {"expanded"},
       .samples = {"fake_quantize_lsq(T[3,17], f32[] in 0.01..0.02)",
                   "fake_quantize_lsq(T[3,17], f32[17] in 0.1..0.5) {bits=4, axis=1}",
                   "fake_quantize_lsq(T[65537], f32[1] in -1..0) {bits=2}"}});
}
}  // namespace ops

}  // namespace rlx
