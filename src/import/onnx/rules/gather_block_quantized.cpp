// GatherBlockQuantized of com.microsoft: rows of a table whose codes share scales in blocks. Only what is
// taken is decoded.
#include "import/onnx/quantized.h"
#include "import/onnx/rules.h"
#include "rlx/graph.h"
#include "rlx/ops/quantization.h"
#include "rlx/ops/rearrange.h"

namespace rlx::onnx {
namespace {

void gather_block_quantized_rule(Call& c) {
  c.expect_inputs(3, 4);
  const int64_t rank = c.rank(0);
  const int64_t along = c.axis("gather_axis", 0, rank);
  const int64_t axis = c.axis("quantize_axis", 1, rank);
  const int64_t bits = c.integer("bits", 4);
  if (along == axis) fail("it takes entries along the axis {} of its blocks", axis);
  if (bits != 4 && bits != 8) c.refuse(Refusal::other, "{} bits are not supported, only 4 and 8", bits);
  // Types of four bits are carried in bytes; bytes hold two codes of four bits along the last axis.
  const bool packed = c.type(0) == ElementType::uint8 && bits == 4;
  if (packed && axis != rank - 1)
    c.refuse(Refusal::other, "bytes with two codes are not supported unless blocks lie along the last axis");
  const auto taken = [&](int64_t input) { return gather(c.in(input), c.in(1), along); };
  const auto codes = [&](int64_t input) { return packed ? unpacked(taken(input), bits) : taken(input); };
  const Value scale = taken(2);
  const int64_t blocked = axis > along ? axis + c.rank(1) - 1 : axis;
  Value zero;
  if (c.has(3))
    zero = slice(codes(3), blocked, 0, scale.shape()[blocked]);
  else if (c.type(0) == ElementType::uint8)
    zero = c.graph().scalar(DType::u8, bits == 4 ? 8 : 128);
  c.out(0, dequantize(codes(0), scale, zero, blocked, c.integer("block_size", 128)), c.type(2));
}

}  // namespace

namespace rules {
void register_gather_block_quantized(RuleTable& table) {
  table.add(kMicrosoft, "GatherBlockQuantized", gather_block_quantized_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
