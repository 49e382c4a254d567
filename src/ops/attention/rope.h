// Rotary position embedding.
#pragma once

#include "kernels/dispatch.h"
#include "ops/machinery/op_of.h"

namespace rlx {

// Inputs x[..., seq, heads * head_dim], cos and sin [positions, rotated / 2], and perhaps int positions that
// broadcast by NumPy's rule to x's shape without its last axis. Without them the position is the index along
// seq. Pair i of a head is (i, i + rotated / 2), or (2i, 2i + 1) when interleaved, and becomes (a cos - b
// sin, b cos + a sin); what lies beyond `rotated` is passed through. A position outside the tables takes
// their nearest row.
struct Rope final : OpOf<Rope> {
  static constexpr auto kName = "rope";
  int64_t head_dim = 0;
  bool interleaved = false;
  int64_t rotated = 0;  // 0: head_dim
  // The four products are rounded to the type of x, as separate nodes would.
  bool round_products = false;

  void visit_attributes(AttributeVisitor& v) override {
    v("head_dim", head_dim);
    v("interleaved", interleaved, false);
    v("rotated", rotated, 0);
    v("round_products", round_products, false);
  }
  int64_t pairs() const { return (rotated != 0 ? rotated : head_dim) / 2; }
  std::optional<ValueRange> sensible_values(int64_t input,
                                            std::span<const TensorType> inputs) const override {
    return input == 3 ? values_between(0, inputs[1].shape[0] - 1) : std::nullopt;
  }
  void check_inputs(const InferArgs& in) const;
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
  Tolerance tolerance(std::span<const TensorType> inputs) const override;
};

// y = rope of x, for a contiguous y. `positions` may be absent.
void lower_rope(Lowering& l, const Rope& op, Operand x, Operand cos, Operand sin, Operand positions,
                const Operand& y);

}  // namespace rlx
