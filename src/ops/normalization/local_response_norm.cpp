#include <cmath>

#include "ir/reference.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/normalization.h"
#include "rlx/ops/pooling.h"
#include "rlx/ops/rearrange.h"

namespace rlx {
namespace {

// local_response_norm(x), x being [batch, channels, ..]: x / (k + alpha / size * s)^beta, where s is the sum
// of the squares of `size` channels around that of x, of which one more lies behind it if their number is
// even.
struct LocalResponseNorm final : OpOf<LocalResponseNorm> {
  static constexpr auto kName = "local_response_norm";
  int64_t size = 1;
  double alpha = 1e-4, beta = 0.75, k = 1;

  void visit_attributes(AttributeVisitor& v) override {
    v("size", size);
    v("alpha", alpha, 1e-4);
    v("beta", beta, 0.75);
    v("k", k, 1);
  }
  std::vector<TensorType> infer(const InferArgs& in) const override {
    in.expect_count(1);
    in.expect_float(0);
    if (in.shape(0).rank() < 2) fail("local_response_norm: x {} has no channels", in.shape(0).text());
    if (size < 1) fail("local_response_norm: `size` is {}; it must be at least 1", size);
    return {in[0]};
  }
  void reference(RefContext& r) const override;
  std::optional<std::vector<Value>> expand(const ExpandArgs& in) const override;
  // The power has some roundings, and the root of the sum is squared again.
  Tolerance tolerance(std::span<const TensorType>) const override {
    return {.ulps = 32, .terms = static_cast<double>(size)};
  }

  int64_t before() const { return (size - 1) / 2; }
};

// A pool along the channels, then element-wise ops.
std::optional<std::vector<Value>> LocalResponseNorm::expand(const ExpandArgs& in) const {
  const Value x = in[0].dtype() == DType::f32 ? in[0] : cast(in[0], DType::f32);
  const Shape& shape = x.shape();
  Dim inner(1);
  for (int64_t axis = 2; axis < shape.rank(); ++axis) inner *= shape[axis];
  const Value planes = reshape(x, {shape[0], 1, shape[1], inner});
  const Value root =
      reshape(lp_pool(planes, {size, 1}, 2, {.pads = {before(), 0, size - 1 - before(), 0}}), shape);
  const Value y = x * pow(square(root) * (alpha / static_cast<double>(size)) + k, -beta);
  return std::vector{y.dtype() == in[0].dtype() ? y : cast(y, in[0].dtype())};
}

void LocalResponseNorm::reference(RefContext& r) const {
  const RefTensor& x = r.in(0);
  const int64_t channels = x.dims[1];
  const int64_t inner = product({x.dims.begin() + 2, x.dims.end()});
  for (int64_t i = 0; i < x.elements(); ++i) {
    const int64_t c = i / inner % channels;
    double squares = 0;
    for (int64_t other = c - before(); other < c - before() + size; ++other) {
      if (other < 0 || other >= channels) continue;
      const double v = x.real[static_cast<size_t>(i + (other - c) * inner)];
      squares += v * v;
    }
    r.out().real[static_cast<size_t>(i)] =
        x.real[static_cast<size_t>(i)] / std::pow(k + alpha / static_cast<double>(size) * squares, beta);
  }
}

}  // namespace

Value local_response_norm(Value x, int64_t size, double alpha, double beta, double k) {
  auto op = std::make_shared<LocalResponseNorm>();
  op->size = size;
  op->alpha = alpha;
  op->beta = beta;
  op->k = k;
  return add_node(op, {x});
}

namespace ops {
void register_local_response_norm(OpTable& table) {
  table.add<LocalResponseNorm>(
      {.formula = "x / (k + alpha / size * sum of squares of `size` neighbouring channels)^beta",
       .operands = "x: [batch, channels, ..]",
       .attributes = "size: how many neighbouring channels are summed, around that of x\n"
                     "alpha: what the sum, divided by size, is multiplied by\n"
                     "beta: the power of the divisor\n"
                     "k: what is added before the power",
       .types = "f32 f16 bf16",
       .variants = {"expanded"},
       .samples = {"local_response_norm(T[2,7,3,5]) {size=3, alpha=0.5, beta=0.75, k=2}",
                   "local_response_norm(T[1,5,17]) {size=4, alpha=0.1, beta=0.5}",
                   "local_response_norm(T[3,2]) {size=5}", "local_response_norm(T[0,2,3]) {size=1}"}});
}
}  // namespace ops

}  // namespace rlx
