#include "ops/normalization/batch_norm.h"

#include <cmath>

#include "ir/reference.h"
#include "ops/machinery/op_table.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/normalization.h"
#include "rlx/ops/rearrange.h"

namespace rlx {

std::vector<TensorType> BatchNorm::infer(const InferArgs& in) const {
  in.expect_count(3, 5);
  in.expect_float(0);
  const Dim& channels = in.shape(0)[in.axis(axis, in.shape(0).rank())];
  static constexpr std::string_view names[] = {"x", "mean", "variance", "gamma", "beta"};
  for (int64_t i = 1; i < in.count(); ++i) {
    if (!in.has(i)) continue;
    in.expect_float(i);
    if (!(in.shape(i) == Shape{channels}))
      fail("batch_norm: {} has the shape {}; the {} channels of x {} need [{}]",
           names[static_cast<size_t>(i)], in.shape(i).text(), channels.text(), in.shape(0).text(),
           channels.text());
  }
  return {in[0]};
}

Value along_axis(Value v, int64_t axis, int64_t rank) {
  Shape shape(std::vector<Dim>(static_cast<size_t>(rank), Dim(1)));
  shape[axis] = v.shape()[0];
  return reshape(v, shape);
}

namespace {
Value as_f32(Value v) { return v.dtype() == DType::f32 ? v : cast(v, DType::f32); }
}  // namespace

BatchNorm::Terms BatchNorm::terms(const ExpandArgs& in) const {
  Value factor = rsqrt(as_f32(in[2]) + eps);
  if (in[3]) factor = factor * as_f32(in[3]);
  const Value shift = as_f32(in[1]) * factor;
  return {factor, in[4] ? as_f32(in[4]) - shift : -shift};
}

std::optional<std::vector<Value>> BatchNorm::expand(const ExpandArgs& in) const {
  const int64_t rank = in[0].shape().rank();
  const int64_t channel = normal_axis(axis, rank);
  const Terms t = terms(in);
  const Value y = as_f32(in[0]) * along_axis(t.factor, channel, rank) + along_axis(t.shift, channel, rank);
  return std::vector{in[0].dtype() == DType::f32 ? y : cast(y, in[0].dtype())};
}

void BatchNorm::reference(RefContext& r) const {
  const RefTensor& x = r.in(0);
  const auto channel = static_cast<size_t>(normal_axis(axis, std::ssize(x.dims)));
  const int64_t inner = product({x.dims.begin() + static_cast<int64_t>(channel) + 1, x.dims.end()});
  for (size_t i = 0; i < x.real.size(); ++i) {
    const auto c = static_cast<size_t>(static_cast<int64_t>(i) / inner % x.dims[channel]);
    const auto at = [&](int64_t input, double otherwise) {
      return r.has(input) ? r.in(input).real[c] : otherwise;
    };
    r.out().real[i] = (x.real[i] - at(1, 0)) / std::sqrt(at(2, 0) + eps) * at(3, 1) + at(4, 0);
  }
}

// Both terms of the difference have this size for x, means and gammas in [-2, 2] and variances above a half.
Tolerance BatchNorm::tolerance(std::span<const TensorType>) const { return {.ulps = 8, .scale = 8}; }

Value batch_norm(Value x, Value mean, Value variance, Value gamma, Value beta, double eps, int64_t axis) {
  auto op = std::make_shared<BatchNorm>();
  op->eps = eps;
  op->axis = axis;
  return add_node(op, {x, mean, variance, gamma, beta});
}

namespace ops {
void register_batch_norm(OpTable& table) {
  table.add<BatchNorm>(
      {.formula = "(x - mean) / sqrt(variance + eps) * gamma + beta, by the entries of `axis`",
       .operands = "x: of any rank\n"
                   "mean (float): [channels]\n"
                   "variance (float): [channels]\n"
                   "gamma? (float): [channels], factors; ones if left out\n"
                   "beta? (float): [channels], added to that; zeros if left out",
       .attributes = "eps: added to the variance\n"
                     "axis: that of the channels",
       .types = "f32 f16 bf16",
       .variants = {"expanded"},
       .samples = {"batch_norm(T[2,3,5,7], T[3], T[3] in 0.5..2, T[3], T[3])",
                   "batch_norm(T[2,5,17], T[17], T[17] in 0.5..2, none, T[17]) {axis=-1, eps=0.001}",
                   "batch_norm(T[4,257], f32[257], f32[257] in 0.5..2, f32[257])",
                   "batch_norm(T[2,0,3], T[0], T[0])", "batch_norm(T[1,1,1], T[1], T[1] in 0.5..2)"}});
}
}  // namespace ops

}  // namespace rlx
