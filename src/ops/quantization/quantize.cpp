#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "base/format.h"
#include "ir/reference.h"
#include "ops/machinery/integer_range.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/outputs.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/quantization.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"

namespace rlx {
namespace {

// How many scales there are, and which an element has.
struct Scales {
  int64_t axis = 1;
  int64_t block = 0;

  void check(const InferArgs& in, int64_t input) const;
  // `scale` with x's rank, so that it broadcasts to x.
  Value spread(Value scale, const Shape& x) const;
  // The index of the scale of element i.
  size_t index(int64_t i, const std::vector<int64_t>& x, const RefTensor& scale) const;
};

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

struct Quantize final : OpOf<Quantize> {
  static constexpr auto kName = "quantize";
  DType to = DType::i8;
  Scales scales;
  int64_t low = 0, high = 0;
  Ties ties = Ties::even;

  void visit_attributes(AttributeVisitor& v) override {
    v("to", to, DType::i8);
    v("axis", scales.axis, 1);
    v("block", scales.block, 0);
    v("low", low, 0);
    v("high", high, 0);
    v.choice("ties", ties, {"even", "away"}, std::optional(Ties::even));
  }
  IntegerRange range() const { return low == 0 && high == 0 ? integer_range(to) : IntegerRange{low, high}; }

  std::vector<TensorType> infer(const InferArgs& in) const override {
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

  void reference(RefContext& r) const override {
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
  std::optional<std::vector<Value>> expand(const ExpandArgs& in) const override {
    const Shape shape = in[0].shape();
    const auto f32 = [](Value v) { return v.dtype() == DType::f32 ? v : cast(v, DType::f32); };
    const Value scale = f32(scales.spread(in[1], shape));
    Value y = ties == Ties::even ? round_div(f32(in[0]), scale) : round_div_away(f32(in[0]), scale);
    if (in[2]) y = y + f32(scales.spread(in[2], shape));
    const IntegerRange all = range();
    y = clamp(y, static_cast<double>(all.low), static_cast<double>(all.high));
    return {{cast(y.shape() == shape ? y : rlx::expand(y, shape), to)}};
  }
  Tolerance tolerance(std::span<const TensorType>) const override { return {.ulps = 0}; }
};

struct Dequantize final : OpOf<Dequantize> {
  static constexpr auto kName = "dequantize";
  Scales scales;

  void visit_attributes(AttributeVisitor& v) override {
    v("axis", scales.axis, 1);
    v("block", scales.block, 0);
  }

  std::vector<TensorType> infer(const InferArgs& in) const override {
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

  void reference(RefContext& r) const override {
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

  std::optional<std::vector<Value>> expand(const ExpandArgs& in) const override {
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
  Tolerance tolerance(std::span<const TensorType>) const override { return {.ulps = 2}; }
};

struct DynamicQuantize final : OpOf<DynamicQuantize> {
  static constexpr auto kName = "dynamic_quantize";

  std::vector<TensorType> infer(const InferArgs& in) const override {
    in.expect_count(1);
    in.expect_dtype(0, in.dtype(0) == DType::f32, "f32");
    return {TensorType{DType::u8, in.shape(0)}, TensorType{DType::f32, {}}, TensorType{DType::u8, {}}};
  }

  void reference(RefContext& r) const override {
    double low = 0, high = 0;
    for (double v : r.in(0).real) {
      low = std::min(low, v);
      high = std::max(high, v);
    }
    const auto scale = static_cast<float>((high - low) / 255);
    const float divisor = scale == 0 ? 1 : scale;
    const auto rounded = [&](double v) {
      return std::nearbyint(static_cast<double>(static_cast<float>(v) / divisor));
    };
    const double zero = std::clamp(rounded(-low), 0.0, 255.0);
    for (size_t i = 0; i < r.in(0).real.size(); ++i)
      r.out(0).ints[i] = static_cast<int64_t>(std::clamp(rounded(r.in(0).real[i]) + zero, 0.0, 255.0));
    r.out(1).real[0] = static_cast<double>(divisor);
    r.out(2).ints[0] = static_cast<int64_t>(zero);
  }

  std::optional<std::vector<Value>> expand(const ExpandArgs& in) const override {
    const auto [scale, zero] = dynamic_scale(in[0]);
    const Value y = clamp(round_div(in[0], scale) + cast(zero, DType::f32), 0, 255);
    return {{cast(y, DType::u8), scale, zero}};
  }
  // The width is divided, and a quotient by a scale that is a unit off may round to the next integer.
  Tolerance tolerance(std::span<const TensorType>) const override { return {.ulps = 4}; }
};

}  // namespace

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

DynamicQuantized dynamic_quantize(Value x) {
  return named_outputs<DynamicQuantized>(add_node(std::make_shared<DynamicQuantize>(), {x}));
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
  table.add<DynamicQuantize>(
      {.formula = "x as u8 for the range of its elements and 0, the scale, and the zero point",
       .operands = "x: what is quantised",
       .outputs = "y (u8): of the shape of x\n"
                  "scale (f32): [], how much of x one step of y is\n"
                  "zero_point (u8): [], the y that stands for 0",
       .types = "f32",
       .variants = {"expanded"},
       .samples = {"dynamic_quantize(f32[3,17])", "dynamic_quantize(f32[257] in 1..3)",
                   "dynamic_quantize(f32[5] in 0..0)"}});
}
}  // namespace ops

}  // namespace rlx
