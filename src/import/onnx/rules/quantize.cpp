// QuantizeLinear and its relatives, and products of quantised integers.
#include "import/onnx/rules.h"
#include "import/onnx/windows.h"

namespace rlx::onnx {
namespace {

// The range of a type in its carrier; both 0 if it is that of the carrier.
std::pair<int64_t, int64_t> range_of(ElementType type) {
  if (!is_narrowed(type)) return {0, 0};
  const int64_t values = int64_t{1} << bits_of(type);
  return is_unsigned(type) ? std::pair{int64_t{0}, values - 1} : std::pair{-values / 2, values / 2 - 1};
}

Value as_f32(Value v) { return v.dtype() == DType::f32 ? v : cast(v, DType::f32); }

Value quantized(Call& c, Value x, Value scale, Value zero, ElementType to, int64_t axis = 0,
                int64_t block = 0) {
  const auto [low, high] = range_of(to);
  return quantize(x, scale, zero,
                  {.to = c.carried(to), .axis = axis, .block = block, .low = low, .high = high});
}

// An axis that is not there does not matter if there is a single scale.
int64_t scale_axis(const Call& c) {
  const int64_t axis = c.integer("axis", 1);
  const bool one = c.shape(1).elements().is(1) && c.rank(1) <= 1;
  return one ? 0 : c.axis("axis", axis, c.rank(0));
}

void quantize_rule(Call& c) {
  c.expect_inputs(2, 3);
  // 0 stands for: not given.
  const bool typed = c.integer("output_dtype", 0) != 0;
  const ElementType to = c.has(2) ? c.type(2) : typed ? c.element_type("output_dtype") : ElementType::uint8;
  const int64_t axis = scale_axis(c);
  const int64_t block = c.integer("block_size", 0);
  if (!small_float_format(to)) {
    if (!is_integer(to))
      c.refuse(Refusal::element_type, "the element type {} is not supported", to_string(to));
    return c.out(0, quantized(c, c.in(0), c.in(1), c.optional(2), to, axis, block), to);
  }
  // Divided as a product with the reciprocal would not be.
  const Value x = as_f32(c.in(0));
  const Value ones = c.graph().scalar(DType::f32, 1);
  const Value scale = dequantize(expand(ones, x.shape()), as_f32(c.in(1)), {}, axis, block);
  c.out(0, c.wrapped(x / scale, to, c.flag("saturate", true)), to);
}

void dequantize_rule(Call& c) {
  c.expect_inputs(2, 3);
  const bool typed = c.integer("output_dtype", 0) != 0;
  const ElementType to = typed ? c.element_type("output_dtype") : c.type(1);
  const Value y = dequantize(c.in(0), c.in(1), c.optional(2), scale_axis(c), c.integer("block_size", 0));
  const DType wanted = c.carried(to);
  c.out(0, y.dtype() == wanted ? y : cast(y, wanted), to);
}

void dynamic_quantize_rule(Call& c) {
  c.expect_inputs(1, 1);
  const std::vector<Value> made = dynamic_quantize(c.in(0));
  c.out(0, made[0], ElementType::uint8);
  c.out(1, made[1], ElementType::float32);
  c.out(2, made[2], ElementType::uint8);
}

// One number for each row of a matrix: [m] as [m, 1]. What has more axes broadcasts as it is.
Value by_rows(Value v) { return v.shape().rank() == 1 ? reshape(v, {v.shape()[0], 1}) : v; }
// One number for each filter: [m] as [m, 1, 1..].
Value by_filters(Value v, int64_t rank) {
  if (v.shape().rank() != 1) return v;
  Shape to(std::vector<int64_t>(static_cast<size_t>(rank), 1));
  to[0] = v.shape()[0];
  return reshape(v, to);
}

// Bytes less their zero point, as i32.
Value shifted(Value x, Value zero) {
  const Value wide = cast(x, DType::i32);
  return zero ? wide - cast(zero, DType::i32) : wide;
}

Value integer_product(Value a, Value a_zero, Value b, Value b_zero) {
  if (!a_zero && !b_zero) return matmul(a, b);
  return matmul(shifted(a, a_zero ? by_rows(a_zero) : a_zero), shifted(b, b_zero));
}

void matmul_integer_rule(Call& c) {
  c.expect_inputs(2, 4);
  c.out(0, integer_product(c.in(0), c.optional(2), c.in(1), c.optional(3)), ElementType::int32);
}

void qlinear_matmul_rule(Call& c) {
  c.expect_inputs(8, 8);
  const Value sums = integer_product(c.in(0), c.in(2), c.in(3), c.in(5));
  const Value scale = by_rows(as_f32(c.in(1))) * as_f32(c.in(4));
  c.out(0, quantized(c, cast(sums, DType::f32) * scale, as_f32(c.in(6)), c.in(7), c.type(7)), c.type(7));
}

// Padding is the zero point of x, so what is convolved has zeros there.
Value integer_conv(Call& c, int64_t x, int64_t w, Value x_zero, Value w_zero, Value bias) {
  const Value weight = c.in(w);
  const int64_t rank = weight.shape().rank();
  return conv(shifted(c.in(x), x_zero), shifted(weight, w_zero ? by_filters(w_zero, rank) : w_zero), bias,
              conv_options(c, c.shape(x), weight.shape()));
}

void conv_integer_rule(Call& c) {
  c.expect_inputs(2, 4);
  c.out(0, integer_conv(c, 0, 1, c.optional(2), c.optional(3), {}), ElementType::int32);
}

void qlinear_conv_rule(Call& c) {
  c.expect_inputs(8, 9);
  const Value sums = integer_conv(c, 0, 3, c.in(2), c.in(5), c.optional(8));
  Value w_scale = as_f32(c.in(4));
  // Filters are the second axis of the result.
  if (w_scale.shape().rank() == 1) w_scale = by_filters(w_scale, sums.shape().rank() - 1);
  const Value scale = as_f32(c.in(1)) * w_scale;
  c.out(0, quantized(c, cast(sums, DType::f32) * scale, as_f32(c.in(6)), c.in(7), c.type(7)), c.type(7));
}

}  // namespace

namespace rules {
void register_quantize(RuleTable& table) {
  table.add("QuantizeLinear", quantize_rule);
  table.add("DequantizeLinear", dequantize_rule);
  table.add("DynamicQuantizeLinear", dynamic_quantize_rule);
  table.add("MatMulInteger", matmul_integer_rule);
  table.add("ConvInteger", conv_integer_rule);
  table.add("QLinearMatMul", qlinear_matmul_rule);
  table.add("QLinearConv", qlinear_conv_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
