// QuantizeLinear and its relatives, and products of quantised integers.
#include <algorithm>

#include "import/onnx/quantized.h"
#include "import/onnx/rules.h"
#include "import/onnx/windows.h"
#include "ops/quantization/byte_product.h"
#include "rlx/graph.h"
#include "rlx/ops/convolution.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/quantization.h"
#include "rlx/ops/rearrange.h"

namespace rlx::onnx {
namespace {

// The range of a type in its carrier; both 0 if it is that of the carrier.
std::pair<int64_t, int64_t> range_of(ElementType type) {
  if (!is_narrowed(type)) return {0, 0};
  const int64_t values = int64_t{1} << bits_of(type);
  return is_unsigned(type) ? std::pair{int64_t{0}, values - 1} : std::pair{-values / 2, values / 2 - 1};
}

// One number for each row of a matrix: [m] as [m, 1]. What has more axes broadcasts as it is.
Value by_rows(Value v) { return v.shape().rank() == 1 ? reshape(v, {v.shape()[0], 1}) : v; }

// Bytes less their zero point, as i32.
Value shifted(Value x, Value zero) {
  const Value wide = cast(x, DType::i32);
  return zero ? wide - cast(zero, DType::i32) : wide;
}

}  // namespace

Value as_f32(Value v) { return v.dtype() == DType::f32 ? v : cast(v, DType::f32); }

Value quantized(Call& c, Value x, Value scale, Value zero, ElementType to, int64_t axis, int64_t block) {
  const auto [low, high] = range_of(to);
  return quantize(x, scale, zero,
                  {.to = c.carried(to), .axis = axis, .block = block, .low = low, .high = high});
}

Value zero_point(Call& c, int64_t input) {
  if (!c.has(input)) return {};
  const std::optional<Tensor> known = c.constant(input);
  const bool nothing = known && std::ranges::all_of(known->doubles(), [](double v) { return v == 0; });
  return nothing ? Value() : c.in(input);
}

Value unpacked(Value bytes, int64_t bits) {
  const int64_t each = 8 / bits;
  if (each == 1) return bytes;
  Graph& graph = bytes.graph();
  std::vector<int64_t> shifts;
  for (int64_t i = 0; i < each; ++i) shifts.push_back(i * bits);
  Shape apart = bytes.shape();
  Shape together = apart;
  const int64_t last = apart.rank() - 1;
  apart.push_back(1);
  together[last] = together[last] * Dim(each);
  const Value shifted = right_shift(cast(reshape(bytes, apart), DType::i32),
                                    graph.constant(Tensor::from_ints(DType::i32, {each}, shifts)));
  return cast(reshape(bitwise_and(shifted, (1 << bits) - 1), together), DType::u8);
}

// Zero points are subtracted from the sums, so that a weight stays as it is, unless they are not one for each
// column.
Value integer_product(Value a, Value a_zero, Value b, Value b_zero) {
  const bool bytes = [&] {
    for (const Value& v : {a, b})
      if (v.dtype() != DType::i8 && v.dtype() != DType::u8) return false;
    const Dim& k = a.shape()[a.shape().rank() - 1];
    return k.is_static() && (!b_zero || b_zero.shape().rank() <= 1) &&
           (!a_zero || a_zero.shape().rank() <= 1);
  }();
  if (!bytes) return matmul(shifted(a, a_zero ? by_rows(a_zero) : a_zero), shifted(b, b_zero));
  const auto wide = [](Value v) { return v ? cast(v, DType::i32) : v; };
  const bool rows = a_zero && a_zero.shape().rank() == 1 && !a_zero.shape()[0].is(1);
  return byte_product(a, wide(rows ? by_rows(a_zero) : a_zero), b, wide(b_zero));
}

namespace {

// An axis that is not there does not matter if there is a single scale.
int64_t scale_axis(const Call& c) {
  const int64_t axis = c.integer("axis", 1);
  const bool one = c.shape(1).elements().is(1) && c.rank(1) <= 1;
  return one ? 0 : c.axis("axis", axis, c.rank(0));
}

void quantize_rule(Call& c) {
  c.expect_inputs(2, 3);
  c.ignores("saturate precision");  // the first is for small floats, the second at least
  // 0 stands for: not given.
  const bool typed = c.integer("output_dtype", 0) != 0;
  const ElementType to = c.has(2) ? c.type(2) : typed ? c.element_type("output_dtype") : ElementType::uint8;
  const int64_t axis = scale_axis(c);
  const int64_t block = c.integer("block_size", 0);
  if (!small_float_format(to)) {
    if (!is_integer(to))
      c.refuse(Refusal::element_type, "the element type {} is not supported", to_string(to));
    return c.out(0, quantized(c, c.in(0), c.in(1), zero_point(c, 2), to, axis, block), to);
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
  const Value y = dequantize(c.in(0), c.in(1), zero_point(c, 2), scale_axis(c), c.integer("block_size", 0));
  const DType wanted = c.carried(to);
  c.out(0, y.dtype() == wanted ? y : cast(y, wanted), to);
}

void dynamic_quantize_rule(Call& c) {
  c.expect_inputs(1, 1);
  const auto [y, scale, zero] = dynamic_quantize(c.in(0));
  c.out(0, y, ElementType::uint8);
  c.out(1, scale, ElementType::float32);
  c.out(2, zero, ElementType::uint8);
}

// One number for each filter: [m] as [m, 1, 1..].
Value by_filters(Value v, int64_t rank) {
  if (v.shape().rank() != 1) return v;
  Shape to(std::vector<int64_t>(static_cast<size_t>(rank), 1));
  to[0] = v.shape()[0];
  return reshape(v, to);
}

void matmul_integer_rule(Call& c) {
  c.expect_inputs(2, 4);
  c.out(0, integer_product(c.in(0), zero_point(c, 2), c.in(1), zero_point(c, 3)), ElementType::int32);
}

void qlinear_matmul_rule(Call& c) {
  c.expect_inputs(8, 8);
  const Value sums = integer_product(c.in(0), zero_point(c, 2), c.in(3), zero_point(c, 5));
  const Value scale = by_rows(as_f32(c.in(1))) * as_f32(c.in(4));
  c.out(0, quantized(c, cast(sums, DType::f32) * scale, as_f32(c.in(6)), c.in(7), c.type(7)), c.type(7));
}

bool is_byte(const Value& v) { return v.dtype() == DType::i8 || v.dtype() == DType::u8; }
bool is_number(const Value& v) { return !v || v.shape().elements().is(1); }
Value as_number(Value v) { return v && v.shape().rank() > 0 ? reshape(v, {}) : v; }

// Padding is the zero point of x, so what is convolved has zeros there.
Value integer_conv(Call& c, int64_t x, int64_t w, Value x_zero, Value w_zero, Value bias) {
  const Value weight = c.in(w);
  const int64_t rank = weight.shape().rank();
  if (is_byte(c.in(x)) && is_byte(weight) && is_number(x_zero) && is_number(w_zero)) {
    return byte_conv(c.in(x), as_number(x_zero), weight, as_number(w_zero), bias,
                     conv_options(c, c.shape(x), weight.shape()));
  }
  return conv(shifted(c.in(x), x_zero), w_zero ? shifted(weight, by_filters(w_zero, rank)) : weight, bias,
              conv_options(c, c.shape(x), weight.shape()));
}

void conv_integer_rule(Call& c) {
  c.expect_inputs(2, 4);
  c.out(0, integer_conv(c, 0, 1, zero_point(c, 2), zero_point(c, 3), {}), ElementType::int32);
}

void qlinear_conv_rule(Call& c) {
  c.expect_inputs(8, 9);
  const Value sums = integer_conv(c, 0, 3, zero_point(c, 2), zero_point(c, 5), c.optional(8));
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
  table.add(kMicrosoft, "QuantizeLinear", quantize_rule);
  table.add(kMicrosoft, "DequantizeLinear", dequantize_rule);
  table.add("DynamicQuantizeLinear", dynamic_quantize_rule);
  table.add("MatMulInteger", matmul_integer_rule);
  table.add("ConvInteger", conv_integer_rule);
  table.add("QLinearMatMul", qlinear_matmul_rule);
  table.add("QLinearConv", qlinear_conv_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
