// Integers with scales.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "rlx/export.h"
#include "rlx/ops/convolution.h"
#include "rlx/ops/elementwise.h"
#include "rlx/tensor.h"
#include "rlx/value.h"

RLX_EXPORT_BEGIN
namespace rlx {

// The tensor in an encoding (docs/encodings.md), with the scales that give the smallest squared error of
// those that are tried. An error for encodings without an encoder (those with code books) and if the last
// axis is not a multiple of the block.
Tensor quantize(const Tensor& tensor, DType encoding);

// Where numbers halfway between two integers go: to the even one, or away from zero.
enum class Ties : uint8_t { even, away };

// The f32 quotient a / b rounded to the nearest integer, ties away from zero; round_div takes the even one.
Value round_div_away(Argument a, Argument b);
// round(x / scale) + zero, ties to even, in the range of u8 or i8, as floats; NaN becomes 0. `zero` is a
// whole number.
Value round_to_u8(Argument x, Argument scale, Argument zero);
Value round_to_i8(Argument x, Argument scale, Argument zero);

struct QuantizeOptions {
  DType to = DType::i8;
  int64_t axis = 1;   // along which scales differ, if they are not a single number
  int64_t block = 0;  // this many neighbours along the axis share a scale; 0: scales are [x's size there]
  int64_t low = 0, high = 0;  // the range of the results; both 0: that of the type
  Ties ties = Ties::even;
};
// round(x / scale) + zero_point, brought into the range. `scale` and `zero_point` (of the type
// `to`, or absent) are scalars, vectors along the axis or, for blocks, of x's rank.
Value quantize(Value x, Value scale, Value zero_point = {}, const QuantizeOptions& options = {});
// (x - zero_point) scale, of the type of `scale`.
Value dequantize(Value x, Value scale, Value zero_point = {}, int64_t axis = 1, int64_t block = 0);
struct DynamicQuantized {
  Value y;  // u8
  Value scale;
  Value zero_point;
};
// x as u8 with a scale and a zero point of its own, for the range of its elements and 0.
DynamicQuantized dynamic_quantize(Value x);
struct DynamicScaling {
  Value scale;
  Value zero_point;  // u8
};
// The scale and the zero point of `dynamic_quantize` alone.
DynamicScaling dynamic_scale(Value x);

// How the i32 sums of a product of bytes become bytes again: clamp(round(sum * multiplier) + zero).
struct Requantize {
  int64_t x_zero = 0, w_zero = 0;  // zero points of the operands
  double multiplier = 1;           // scale of x * scale of w / scale of the result
  int64_t zero = 0;                // zero point of the result
  DType to = DType::i8;
  Ties ties = Ties::away;
};
// bias + sum over k of (x - x_zero) (w - w_zero), exact in i32, then as Requantize says. x [.., m, k] and w
// [.., k, n] are i8 or u8, `bias` i32 [n].
Value q_matmul(Value x, Value w, Value bias = {}, const Requantize& to = {});
// The same with the sums of a convolution; what is padded adds nothing. `bias` is i32 [filters].
Value q_conv(Value x, Value w, Value bias = {}, const Requantize& to = {}, const ConvOptions& options = {});

// Which scale fake_quantize takes: that of x, a moving average of it, or the one that is given.
enum class ScaleMode : uint8_t { per_batch, moving_average, fixed };
struct FakeQuantizeOptions {
  int64_t bits = 8;             // 2, 4 or 8: integers up to 1, 7 or 127
  std::optional<int64_t> axis;  // a scale for each index along it; not given: one for all
  ScaleMode mode = ScaleMode::per_batch;
  double decay = 0.99;  // of the moving average
};
struct FakeQuantized {
  Value y;
  Value scale;
};
// x as it is after it was quantised and decoded again: y = clamp(round(x / scale), -q, q) * scale, ties away
// from zero. For moving_average, `state` is the average so far (0 or less: none) and the scale is the new
// one, which write_state can keep; for fixed, it is the scale.
FakeQuantized fake_quantize(Value x, Value state = {}, const FakeQuantizeOptions& options = {});
// The same with a scale that is learned.
Value fake_quantize_lsq(Value x, Value scale, int64_t bits = 8, std::optional<int64_t> axis = {});

// What the codes of a packed weight mean. int* and uint*: integers of that many bits, with zero points.
// fp8_*: floats of 8 bits (OCP's: E4M3 has a NaN and no infinity). nvfp4: floats of 4 bits (E2M1) whose
// scales are E4M3 bytes, for blocks of 16; mxfp4: the same with powers of two (E8M0 bytes), for blocks of 32.
enum class WeightScheme : uint8_t { int8, int4, uint8, uint4, uint2, fp8_e4m3, fp8_e5m2, nvfp4, mxfp4 };

// by_rows: code k * columns + n is that of element [k, n], and scales are [blocks, columns]. by_columns: the
// codes of a column lie one after the other, in whole blocks, and scales are [columns, blocks]. The first of
// the codes that share a byte has its lowest bits.
enum class WeightOrder : uint8_t { by_rows, by_columns };

// A weight [k, columns]: element = (code - zero point) * scale * global scale.
struct PackedWeight {
  Value codes;              // u8 or i8, any shape with the right number of bytes
  Value scale = {};         // one number, or one for each block and column; bytes for nvfp4 and mxfp4
  Value zero_point = {};    // likewise, of a float type, u8 or i8; only of integers
  Value global_scale = {};  // one number
  WeightScheme scheme = WeightScheme::int8;
  WeightOrder order = WeightOrder::by_rows;
  int64_t columns = 0;
  int64_t block = 0;  // this many neighbours along k share a scale, the last block may have fewer; 0: all, or
                      // what the scheme says
  double zero = 0;    // the zero point of all elements, where `zero_point` is not given
};
// x [.., k] times the weight, which stays packed on the device: elements are decoded as they are read.
Value dequant_matmul(Value x, const PackedWeight& w);
// Each row of x [.., k] times the weight that `expert` [..] names, as in grouped_matmul. Codes are [experts,
// columns, bytes of k], by columns, each in whole bytes; scales and zero points are [experts, columns] or
// [experts, columns, blocks]. `order`, `columns` and `global_scale` have no meaning here.
Value dequant_grouped_matmul(Value x, const PackedWeight& w, Value expert);

}  // namespace rlx
RLX_EXPORT_END
