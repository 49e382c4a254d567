// Ops of com.microsoft on quantised tensors. Those that are not products are computed with the numbers that
// the integers stand for, and quantised again.
#include "import/onnx/quantized.h"
#include "import/onnx/rules.h"
#include "import/onnx/windows.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/pooling.h"
#include "rlx/ops/quantization.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"

namespace rlx::onnx {
namespace {

// Three inputs: integers, their scale and their zero point, which may be left out.
Value real_in(Call& c, int64_t first) {
  return dequantize(c.in(first), as_f32(c.in(first + 1)), c.optional(first + 2), 0);
}

// The scale and the zero point of the result are inputs; it has the type of `like` if there is no zero point.
void quantized_out(Call& c, Value y, int64_t scale, int64_t like = 0) {
  const ElementType type = c.has(scale + 1) ? c.type(scale + 1) : c.type(like);
  c.out(0, quantized(c, y, as_f32(c.in(scale)), c.optional(scale + 1), type), type);
}

// --- Element by element ---

void add_rule(Call& c) {
  c.expect_inputs(7, 8);
  quantized_out(c, real_in(c, 0) + real_in(c, 3), 6);
}

void mul_rule(Call& c) {
  c.expect_inputs(7, 8);
  quantized_out(c, real_in(c, 0) * real_in(c, 3), 6);
}

void leaky_relu_rule(Call& c) {
  c.expect_inputs(4, 5);
  const Value x = real_in(c, 0);
  quantized_out(c, where(greater_equal(x, 0), x, x * c.real("alpha", 0.01)), 3);
}

void sigmoid_rule(Call& c) {
  c.expect_inputs(4, 5);
  quantized_out(c, sigmoid(real_in(c, 0)), 3);
}

void where_rule(Call& c) {
  c.expect_inputs(8, 9);
  quantized_out(c, where(c.in(0), real_in(c, 1), real_in(c, 4)), 7, 1);
}

void concat_rule(Call& c) {
  c.expect_inputs(5, 1 << 20);
  if (c.input_count() % 3 != 2)
    fail("it has {} inputs; after the first two, they come in threes", c.input_count());
  std::vector<Value> parts;
  for (int64_t i = 2; i < c.input_count(); i += 3) parts.push_back(real_in(c, i));
  quantized_out(c, concat(parts, c.axis("axis", 1, parts[0].shape().rank())), 0, 2);
}

// --- Along axes ---

void softmax_rule(Call& c) {
  c.expect_inputs(4, 5);
  const Value x = real_in(c, 0);
  const Shape& shape = x.shape();
  const int64_t axis = c.axis("axis", -1, shape.rank());
  if (c.integer("opset") >= 13) return quantized_out(c, softmax(x, axis), 3);
  // Before opset 13 all axes from this one on are one.
  Dim outer(1), inner(1);
  for (int64_t i = 0; i < shape.rank(); ++i)
    (i < axis ? outer : inner) = (i < axis ? outer : inner) * shape[i];
  quantized_out(c, reshape(softmax(reshape(x, {outer, inner}), 1), shape), 3);
}

// Pools work with channels first; `back` undoes what was done for that.
Value channels_moved(Value x, bool last, bool back) {
  if (!last) return x;
  std::vector<int64_t> order = {0};
  const int64_t rank = x.shape().rank();
  if (!back) order.push_back(rank - 1);
  for (int64_t i = back ? 2 : 1; i < rank - (back ? 0 : 1); ++i) order.push_back(i);
  if (back) order.push_back(1);
  return transpose(x, order);
}

void average_pool_rule(Call& c) {
  c.expect_inputs(4, 5);
  const bool last = c.flag("channels_last", false);
  const Value x = channels_moved(real_in(c, 0), last, false);
  const std::vector<int64_t> kernel = c.integers("kernel_shape");
  if (std::ssize(kernel) != x.shape().rank() - 2)
    fail("it has {} kernel sizes for the input {}", kernel.size(), c.shape(0).text());
  const Steps steps = steps_of(c, kernel);
  const Value y = avg_pool(x, kernel,
                           {.strides = steps.strides,
                            .pads = padding(c, x.shape(), kernel, steps),
                            .ceil_mode = c.flag("ceil_mode", false)},
                           c.flag("count_include_pad", false));
  quantized_out(c, channels_moved(y, last, true), 3);
}

void global_average_pool_rule(Call& c) {
  c.expect_inputs(4, 5);
  const Value x = real_in(c, 0);
  const int64_t rank = x.shape().rank();
  if (rank < 3) fail("its input {} has no spatial axes", x.shape().text());
  const int64_t first = c.flag("channels_last", false) ? 1 : 2;
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < rank - 2; ++i) axes.push_back(first + i);
  quantized_out(c, mean(x, axes, true), 3);
}

// --- Products ---

// Sums of a product of integers, times the scales of both factors.
Value scaled(Value sums, Value a_scale, Value b_scale) {
  return cast(sums, DType::f32) * (as_f32(a_scale) * as_f32(b_scale));
}

void dynamic_quantize_matmul_rule(Call& c) {
  c.expect_inputs(3, 5);
  const DynamicQuantized a = dynamic_quantize(c.in(0));
  Value y = scaled(integer_product(a.y, a.zero_point, c.in(1), zero_point(c, 3)), a.scale, c.in(2));
  if (c.has(4)) y = y + c.in(4);
  c.out(0, y, c.type(0));
}

void matmul_integer_to_float_rule(Call& c) {
  c.expect_inputs(4, 7);
  Value y = scaled(integer_product(c.in(0), zero_point(c, 4), c.in(1), zero_point(c, 5)), c.in(2), c.in(3));
  if (c.has(6)) y = y + as_f32(c.in(6));
  const DType type = c.carried(c.type(2));
  c.out(0, y.dtype() == type ? y : cast(y, type), c.type(2));
}

// C is added to the sums of integers.
void gemm_rule(Call& c) {
  c.expect_inputs(6, 9);
  const Value a = c.flag("transA", false) ? transpose(c.in(0)) : c.in(0);
  const Value b = c.flag("transB", false) ? transpose(c.in(3)) : c.in(3);
  if (a.shape().rank() != 2 || b.shape().rank() != 2)
    fail("it multiplies {} and {}, which are not both matrices", a.shape().text(), b.shape().text());
  Value sums = integer_product(a, zero_point(c, 2), b, zero_point(c, 5));
  if (c.has(6)) sums = sums + c.in(6);
  Value y = scaled(sums, c.in(1), c.in(4));
  const double alpha = c.real("alpha", 1);
  if (alpha != 1) y = y * alpha;
  if (c.has(7)) return quantized_out(c, y, 7);
  c.out(0, y, ElementType::float32);
}

}  // namespace

namespace rules {
void register_microsoft_quantize(RuleTable& table) {
  table.add(kMicrosoft, "QLinearAdd", add_rule);
  table.add(kMicrosoft, "QLinearMul", mul_rule);
  table.add(kMicrosoft, "QLinearLeakyRelu", leaky_relu_rule);
  table.add(kMicrosoft, "QLinearSigmoid", sigmoid_rule);
  table.add(kMicrosoft, "QLinearWhere", where_rule);
  table.add(kMicrosoft, "QLinearConcat", concat_rule);
  table.add(kMicrosoft, "QLinearSoftmax", softmax_rule);
  table.add(kMicrosoft, "QLinearAveragePool", average_pool_rule);
  table.add(kMicrosoft, "QLinearGlobalAveragePool", global_average_pool_rule);
  table.add(kMicrosoft, "DynamicQuantizeMatMul", dynamic_quantize_matmul_rule);
  table.add(kMicrosoft, "MatMulIntegerToFloat", matmul_integer_to_float_rule);
  table.add(kMicrosoft, "QGemm", gemm_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
