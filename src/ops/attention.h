// Scaled dot-product attention.
#pragma once

#include "ir/op.h"
#include "rlx/ops.h"

namespace rlx {

// Inputs q, k, v and perhaps a mask. A score is scale * q.k, then soft_cap * tanh(score / soft_cap) when
// there is a cap, then the mask; y = softmax(scores) v. q and y have `heads` heads, k and v have `kv_heads`,
// and each of those serves heads / kv_heads neighbouring heads of q. Values may have another head size than
// keys.
//
// The mask input broadcasts by NumPy's rule to [batch, heads, queries, keys], so rank 2 is [queries, keys]: a
// bool keeps (true) or excludes (false) a key, a float is added to the score. It comes on top of `mask`. A
// query that may see no key gives zeros. Values of excluded keys must be finite: their weight is 0.
struct Attention final : OpOf<Attention> {
  static constexpr auto kName = "attention";
  int64_t heads = 0;     // 0: what q's shape says, in the layouts that have an axis for it
  int64_t kv_heads = 0;  // 0: as many as heads
  AttentionLayout layout = AttentionLayout::bhsd;
  MaskKind mask = MaskKind::none;
  int64_t window = 0;
  std::optional<double> scale;     // 1 / sqrt(head size) when not given
  std::optional<double> soft_cap;  // none when not given

  void visit_attributes(AttributeVisitor& v) override;
  bool optional_input(int64_t input) const override { return input == 3; }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
  Tolerance tolerance(std::span<const TensorType> inputs) const override;

  double scale_for(int64_t head) const;
};

}  // namespace rlx
