// Convolutions with an optional bias and an optional scalar expression on the result.
#pragma once

#include <array>

#include "ops/convolution/window.h"
#include "ops/machinery/op_of.h"
#include "ops/products/product_op.h"
#include "rlx/ops/convolution.h"

namespace rlx {

// What conv and conv_transpose have in common: x, a weight, an optional bias.
struct ConvOp : ProductOp, WindowLists {
  int64_t groups = 1;
  ConvLayout layout = ConvLayout::channels_first;

  void visit_groups(AttributeVisitor& v);
  int64_t own_inputs() const override { return 3; }
  DType product_type(std::span<const DType> inputs) const override { return inputs[0]; }
  // Errors that name the op `op`.
  void check_inputs(std::string_view op, const InferArgs& in) const;
  void check_bias(std::string_view op, const InferArgs& in, const Dim& filters) const;
};

// conv(x, w, bias, extra...): y[n, m, o..] = sum over c and k.. of x[n, c, o * stride + k * dilation - pad..]
// * w[m, c, k..], where c runs over the channels of m's group, plus bias[m]; then `epilogue` with $0 that
// result and $1.. the extra inputs, which broadcast to its shape. x is [n, channels, spatial...] or, if the
// layout is channels_last, [n, spatial..., channels], and so is y; w is [m, channels / groups, kernel...] in
// both. Outside x there are zeros that are multiplied like its elements: y is what a pad before a conv
// without pads gives, also for weights that are infinite.
struct Conv final : OpOf<Conv>, ConvOp {
  static constexpr auto kName = "conv";

  void visit_attributes(AttributeVisitor& v) override;
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
  Tolerance tolerance(std::span<const TensorType> inputs) const override;
  double flops(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const override {
    return flops_of_sums(terms(inputs), outputs);
  }

  std::shared_ptr<Op> with_epilogue(ExprAttr other) const override;
  double terms(std::span<const TensorType> inputs) const override;
  std::optional<Join> join(std::span<const TensorType> inputs) const override;
  std::optional<Order> weight_order(std::span<const TensorType> inputs, const Order& lies) const override;
};

// The numbers of a convolution, always for three spatial axes: those that x does not have come first, with
// length 1, a kernel of 1 and no padding.
struct ConvSizes {
  int64_t batch, groups;
  int64_t channels, filters;  // of one group
  std::array<int64_t, 3> in, kernel, out;
  std::array<int64_t, 3> stride, dilation;
  std::array<int64_t, 3> before, after;  // padding
};

ConvSizes conv_sizes(const Conv& op, const std::vector<int64_t>& x, const std::vector<int64_t>& w);

// x or y of a convolution, of either layout, as [batch, channels, 3 spatial axes].
View conv_view(const View& v, ConvLayout layout);

}  // namespace rlx
