// MatMulNBits of com.microsoft: the weight stays packed.
#include "base/checked.h"
#include "import/onnx/quantized.h"
#include "import/onnx/rules.h"
#include "rlx/ops/quantization.h"
#include "rlx/ops/rearrange.h"

namespace rlx::onnx {
namespace {

WeightScheme scheme_of(const Call& c, int64_t bits) {
  if (bits == 2) return WeightScheme::uint2;
  if (bits == 4) return WeightScheme::uint4;
  if (bits == 8) return WeightScheme::uint8;
  c.refuse(Refusal::other, "{} bits are not supported, only 2, 4 and 8", bits);
}

// Zero points of the type of A lie one by one; those that are bytes are packed as the weight is, each column
// in whole bytes.
Value zero_points(Call& c, int64_t columns, int64_t blocks, int64_t bits) {
  if (!c.has(3)) return {};
  if (c.type(3) != ElementType::uint8) return reshape(c.in(3), {columns, blocks});
  const Value packed = reshape(c.in(3), {columns, ceil_div(blocks * bits, 8)});
  return slice(unpacked(packed, bits), 1, 0, blocks);
}

// An order of k's groups other than their own would need each element's own scale.
void refuse_groups(Call& c, int64_t k, int64_t block) {
  if (!c.has(4)) return;
  const std::optional<Tensor> groups = c.constant(4);
  bool in_order = groups && groups->elements() >= k;
  for (int64_t i = 0; in_order && i < k; ++i) in_order = groups->integer(i) == i / block;
  if (!in_order) c.refuse(Refusal::other, "g_idx is not supported unless it counts the blocks");
}

void matmul_nbits_rule(Call& c) {
  c.expect_inputs(3, 6);
  c.ignores("accuracy_level");  // at least: here it is that of A's type
  if (c.integer("weight_prepacked", 0) != 0)
    c.refuse(Refusal::other, "the attribute weight_prepacked is not supported");
  const int64_t k = c.integer("K");
  const int64_t columns = c.integer("N");
  const int64_t bits = c.integer("bits", 4);
  const int64_t block = c.integer("block_size");
  if (k < 1 || columns < 1 || block < 1 || k > (1 << 30) || columns > (1 << 30) || block > (1 << 30))
    fail("it has K = {}, N = {} and blocks of {}", k, columns, block);
  const WeightScheme scheme = scheme_of(c, bits);
  const int64_t blocks = ceil_div(k, block);
  const Value x = c.in(0);
  if (x.shape().rank() == 0 || !x.shape()[x.shape().rank() - 1].is(k))
    fail("it multiplies {} with a weight of {} rows", x.shape().text(), k);
  refuse_groups(c, k, block);
  PackedWeight w{.codes = c.in(1), .scale = reshape(c.in(2), {columns, blocks}), .scheme = scheme};
  w.zero_point = zero_points(c, columns, blocks, bits);
  w.order = WeightOrder::by_columns;
  w.columns = columns;
  w.block = block;
  w.zero = static_cast<double>(1 << (bits - 1));
  const Value y = dequant_matmul(x, w);
  c.out(c.has(5) ? y + c.in(5) : y);
}

}  // namespace

namespace rules {
void register_matmul_nbits(RuleTable& table) { table.add(kMicrosoft, "MatMulNBits", matmul_nbits_rule); }
}  // namespace rules

}  // namespace rlx::onnx
