// FusedConv and NhwcConv of com.microsoft.
#include "import/onnx/rules.h"
#include "import/onnx/windows.h"
#include "ops/elementwise/elementwise.h"
#include "rlx/ops/convolution.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"

namespace rlx::onnx {
namespace {

// What follows a convolution, and its numbers.
Value activated(const Call& c, Value y) {
  const std::string name = c.text("activation", "");
  const std::vector<double> numbers = c.reals("activation_params");
  const auto expect = [&](size_t count) {
    if (numbers.size() != count)
      fail("its activation {} takes {} numbers, but activation_params has {}", name, count, numbers.size());
  };
  if (name.empty()) return y;
  if (name == "Relu") return relu(y);
  if (name == "Tanh") return tanh(y);
  if (name == "Sigmoid") return sigmoid(y);
  if (name == "LeakyRelu") {
    expect(1);
    return apply_function("leaky_relu", {y, c.like(y, numbers[0])});
  }
  if (name == "Clip") {
    expect(2);
    return minimum(maximum(y, numbers[0]), numbers[1]);
  }
  if (name == "HardSigmoid") {
    expect(2);
    return apply_function("hard_sigmoid", {y, c.like(y, numbers[0]), c.like(y, numbers[1])});
  }
  fail("its activation '{}' is none of Relu, Tanh, Sigmoid, LeakyRelu, Clip, HardSigmoid", excerpt(name));
}

// A convolution, something that is added to it, and an activation.
void fused_conv_rule(Call& c) {
  c.expect_inputs(2, 4);
  const Value x = c.in(0);
  const Value w = c.in(1);
  Value y = conv(x, w, c.optional(2), conv_options(c, x.shape(), w.shape()));
  if (c.has(3)) y = y + c.in(3);
  c.out(activated(c, y));
}

// Channels last, or first again.
Value with_channels(Value v, bool first) {
  const int64_t rank = v.shape().rank();
  std::vector<int64_t> order = {0};
  if (first) order.push_back(rank - 1);
  for (int64_t i = first ? 1 : 2; i < (first ? rank - 1 : rank); ++i) order.push_back(i);
  if (!first) order.push_back(1);
  return transpose(v, order);
}

// Exporters and the kernels of ONNX Runtime have channels last in the weight too, which the operator's text
// does not say: [filters, height, width, channels]. One that fits only as the text has it is taken so.
void nhwc_conv_rule(Call& c) {
  c.expect_inputs(2, 3);
  const Value x = with_channels(c.in(0), true);
  Value w = c.in(1);
  const int64_t rank = w.shape().rank();
  if (rank < 3 || rank != x.shape().rank())
    fail("its input {} and its weight {} do not fit", c.shape(0).text(), w.shape().text());
  const Dim channels = x.shape()[1];
  const Dim groups(c.integer("group", 1));
  const bool as_text = !(w.shape()[rank - 1] * groups == channels) && w.shape()[1] * groups == channels;
  if (!as_text) w = with_channels(w, true);
  c.out(with_channels(conv(x, w, c.optional(2), conv_options(c, x.shape(), w.shape())), false));
}

}  // namespace

namespace rules {
void register_microsoft_conv(RuleTable& table) {
  table.add(kMicrosoft, "FusedConv", fused_conv_rule);
  table.add(kMicrosoft, "NhwcConv", nhwc_conv_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
