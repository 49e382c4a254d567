#include "ops/quantization/quantize.h"

#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "base/format.h"
#include "ir/reference.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/outputs.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"

namespace rlx {

void Scales::check(const InferArgs& in, int64_t input) const {
  const Shape& x = in.shape(0);
  const Shape& s = in.shape(input);
  if (s.elements().is(1) && s.rank() <= 1) return;
  const int64_t along = in.axis(axis, x.rank());
  Shape wanted{x[along]};
  if (block > 0) {
    if (!x[along].is_static())
      fail("{}: the size {} of the blocked axis {} must be a number", in.op(), x[along].text(), along);
    wanted = x;
    wanted[along] = ceil_div(x[along].value(), block);
  }
  if (!(s == wanted))
    fail("{}: {} has the shape {}; for x {}, axis {}{} it must be {} or a scalar", in.op(),
         in.operand_name(input), s.text(), x.text(), along,
         block > 0 ? formatted(" and blocks of {}", block) : "", wanted.text());
}

Value Scales::spread(Value scale, const Shape& x) const {
  if (scale.shape().elements().is(1) && scale.shape().rank() <= 1) return reshape(scale, {});
  const int64_t along = normal_axis(axis, x.rank());
  if (block == 0) {
    Shape to(std::vector<int64_t>(static_cast<size_t>(x.rank()), 1));
    to[along] = x[along];
    return reshape(scale, to);
  }
  Shape repeated = scale.shape();
  repeated.insert(along + 1, 1);
  Shape wide = repeated;
  wide[along + 1] = block;
  Shape flat = scale.shape();
  flat[along] = flat[along] * Dim(block);
  return slice(reshape(expand(reshape(scale, repeated), wide), flat), along, 0, x[along]);
}

size_t Scales::index(int64_t i, const std::vector<int64_t>& x, const RefTensor& scale) const {
  if (scale.elements() == 1 && scale.dims.size() <= 1) return 0;
  const auto along = static_cast<size_t>(normal_axis(axis, std::ssize(x)));
  const int64_t inner = product({x.begin() + static_cast<int64_t>(along) + 1, x.end()});
  const int64_t at = i / inner % x[along];
  if (block == 0) return static_cast<size_t>(at);
  return static_cast<size_t>((i / inner / x[along] * scale.dims[along] + at / block) * inner + i % inner);
}

std::vector<TensorType> Quantize::infer(const InferArgs& in) const {
  in.expect_count(2, 3);
  in.expect_dtype(0, is_float(in.dtype(0)) || in.dtype(0) == DType::i32, "a float type or i32");
  in.expect_float(1);
  if (!is_integer(to)) fail("quantize: the result must have an integer type, not {}", to_string(to));
  const IntegerRange all = integer_range(to);
  if (low > high || range().low < all.low || range().high > all.high)
    fail("quantize: {} has no range from {} to {}", to_string(to), low, high);
  if (scales.block < 0) fail("quantize: the block is {}; it must be at least 0", scales.block);
  scales.check(in, 1);
  if (in.has(2)) {
    in.expect_dtype(2, in.dtype(2) == to, to_string(to));
    scales.check(in, 2);
  }
  return {TensorType{to, in.shape(0)}};
}

void Quantize::reference(RefContext& r) const {
  const RefTensor& x = r.in(0);
  const RefTensor& scale = r.in(1);
  const RefTensor* zero = r.optional_in(2);
  for (int64_t i = 0; i < x.elements(); ++i) {
    const auto p = static_cast<size_t>(i);
    const double value = is_float(x.dtype) ? x.real[p] : static_cast<double>(x.ints[p]);
    const float quotient =
        static_cast<float>(value) / static_cast<float>(scale.real[scales.index(i, x.dims, scale)]);
    const auto wide = static_cast<double>(quotient);
    const double sum = (ties == Ties::even ? std::nearbyint(wide) : std::round(wide)) +
                       (zero ? static_cast<double>(zero->ints[scales.index(i, x.dims, *zero)]) : 0);
    const IntegerRange all = range();
    r.out().ints[p] = std::isnan(sum) ? std::clamp<int64_t>(0, all.low, all.high)
                                      : static_cast<int64_t>(std::clamp(sum, static_cast<double>(all.low),
                                                                        static_cast<double>(all.high)));
  }
}

// NaN becomes 0 by the cast, since no number is greater or less.
std::optional<std::vector<Value>> Quantize::expand(const ExpandArgs& in) const {
  const Shape shape = in[0].shape();
  const auto f32 = [](Value v) { return v.dtype() == DType::f32 ? v : cast(v, DType::f32); };
  const Value scale = f32(scales.spread(in[1], shape));
  const IntegerRange all = range();
  const IntegerRange whole = integer_range(to);
  const bool byte = to == DType::u8 || to == DType::i8;
  if (byte && ties == Ties::even && all.low == whole.low && all.high == whole.high) {
    const Value zero = in[2] ? f32(scales.spread(in[2], shape)) : in.graph.scalar(DType::f32, 0);
    const Value y =
        to == DType::u8 ? round_to_u8(f32(in[0]), scale, zero) : round_to_i8(f32(in[0]), scale, zero);
    return {{cast(y.shape() == shape ? y : rlx::expand(y, shape), to)}};
  }
  Value y = ties == Ties::even ? round_div(f32(in[0]), scale) : round_div_away(f32(in[0]), scale);
  if (in[2]) y = y + f32(scales.spread(in[2], shape));
  y = clamp(y, static_cast<double>(all.low), static_cast<double>(all.high));
  return {{cast(y.shape() == shape ? y : rlx::expand(y, shape), to)}};
}

std::vector<TensorType> Dequantize::infer(const InferArgs& in) const {
  in.expect_count(2, 3);
  in.expect_dtype(0, is_integer(in.dtype(0)) || is_float(in.dtype(0)), "an integer or float type");
  in.expect_float(1);
  if (scales.block < 0) fail("dequantize: the block is {}; it must be at least 0", scales.block);
  scales.check(in, 1);
  if (in.has(2)) {
    in.expect_same_dtype(0, 2);
    scales.check(in, 2);
  }
  return {TensorType{in.dtype(1), in.shape(0)}};
}

void Dequantize::reference(RefContext& r) const {
  const RefTensor& x = r.in(0);
  const RefTensor& scale = r.in(1);
  const RefTensor* zero = r.optional_in(2);
  const auto value = [](const RefTensor& t, size_t i) {
    return is_float(t.dtype) ? t.real[i] : static_cast<double>(t.ints[i]);
  };
  for (int64_t i = 0; i < x.elements(); ++i) {
    const auto p = static_cast<size_t>(i);
    const double less = zero ? value(*zero, scales.index(i, x.dims, *zero)) : 0;
    r.out().real[p] = (value(x, p) - less) * scale.real[scales.index(i, x.dims, scale)];
  }
}

std::optional<std::vector<Value>> Dequantize::expand(const ExpandArgs& in) const {
  const Shape shape = in[0].shape();
  // Differences of integers are exact in 32 bits; those of 32 bits themselves wrap.
  const auto wide = [](Value v) {
    return is_float(v.dtype()) || v.dtype() == DType::i32 ? v : cast(v, DType::i32);
  };
  Value x = wide(in[0]);
  if (in[2]) x = x - wide(scales.spread(in[2], shape));
  const Value y = cast(x, DType::f32) * cast(scales.spread(in[1], shape), DType::f32);
  return {{cast(y, in[1].dtype())}};
}

Value quantize(Value x, Value scale, Value zero_point, const QuantizeOptions& options) {
  auto op = std::make_shared<Quantize>();
  op->to = options.to;
  op->scales = {options.axis, options.block};
  op->low = options.low;
  op->high = options.high;
  op->ties = options.ties;
  return add_node(std::move(op), {x, scale, zero_point});
}

Tensor quantize(const Tensor& tensor, DType encoding) {
  if (!is_encoded(encoding)) fail("quantize: {} is no encoding", to_string(encoding));
  return Tensor::from_doubles(encoding, tensor.shape(), tensor.doubles());
}

Value dequantize(Value x, Value scale, Value zero_point, int64_t axis, int64_t block) {
  auto op = std::make_shared<Dequantize>();
  op->scales = {axis, block};
  return add_node(std::move(op), {x, scale, zero_point});
}

namespace ops {
void register_quantize(OpTable& table) {
  table.add<Quantize>(
      {.formula =
           "y = clamp(round(x / scale) + zero_point, low, high); scales along an axis or in blocks of it",
       .operands =
           "x (float i32): what is quantised\n"
           "scale (float): a scalar, a vector along the axis or, with blocks, a tensor of the rank of x\n"
           "zero_point? (integer): likewise, in the type of y; 0 if left out",
       .attributes = "to: the type of y, an integer type\n"
                     "axis: along which scales differ, unless there is only one\n"
                     "block: how many neighbours along the axis share a scale; 0: each index has its own\n"
                     "low: the smallest y; if low and high are both 0, the range is that of the type\n"
                     "high: the largest y\n"
                     "ties: how quotients halfway between two integers are rounded",
       .outputs = "y (integer): of the shape of x",
       .types = "f32 f16 bf16",
       .variants = {"expanded"},
       .samples = {"quantize(T[3,17], T[] in 0.01..0.1)",
                   "quantize(T[3,17], T[17] in 0.01..0.1, i8[17] in -20..20) {axis=-1}",
                   "quantize(T[2,5,7], T[5] in 0.01..0.1, u8[5] in 0..255) {to=u8}",
                   "quantize(T[3,10,2], T[3,4,2] in 0.1..1, i8[3,4,2] in -3..3) {block=3, low=-8, high=7}",
                   "quantize(i32[3,17] in -9000..9000, T[1] in 3..5) {to=i32, low=-32768, high=32767}",
                   "quantize(T[3,17], T[] in 0.5..0.5) {ties=\"away\"}", "quantize(T[0,4], T[4]) {axis=1}",
                   "quantize(T[65537], T[] in 0.01..0.1)"}});
  table.add<Dequantize>(
      {.formula = "y = (x - zero_point) scale; scales along an axis or in blocks of it",
       .operands =
           "x (float integer): what is decoded\n"
           "scale (float): a scalar, a vector along the axis or, with blocks, a tensor of the rank of x\n"
           "zero_point? (float integer): likewise, in the type of x; 0 if left out",
       .attributes = "axis: along which scales differ, unless there is only one\n"
                     "block: how many neighbours along the axis share a scale; 0: each index has its own",
       .outputs = "y (float): of the shape of x, in the type of scale",
       .types = "i8 u8 i32",
       .variants = {"expanded"},
       .samples = {"dequantize(T[3,17], f32[] in 0.1..2)",
                   "dequantize(T[3,17], f16[3] in 0.1..2, T[3]) {axis=0}",
                   "dequantize(T[2,5,7], f32[2,2,7] in 0.1..2, T[2,2,7]) {block=3}",
                   "dequantize(f32[3,17], f32[] in 0.1..2, f32[])", "dequantize(T[0,4], f32[4])",
                   "dequantize(T[65537], f32[1] in 0.1..2, T[1])"}});
}
}  // namespace ops

}  // namespace rlx
