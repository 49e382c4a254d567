// Scaled dot-product attention.
#pragma once

#include <limits>

#include "ops/machinery/op_of.h"
#include "rlx/ops/attention.h"

namespace rlx {

// Inputs q, k, v and perhaps a mask, and those of further forms (rlx/ops/attention.h). A score is scale *
// q.k, then soft_cap * tanh(score / soft_cap) when there is a cap, then less slope * distance when there are
// slopes, then the mask; y = softmax(scores) v. q and y have `heads` heads, k and v have `kv_heads`, and each
// of those serves heads / kv_heads neighbouring heads of q. Values may have a different head size than keys.
//
// The mask input broadcasts by NumPy's rule to [batch, heads, queries, keys], so rank 2 is [queries, keys]: a
// bool keeps (true) the score of a key or puts `masked_score` in its place (false), a float is added to the
// score. It comes on top of `mask`.
//
// With masked_score = -inf, and where a float mask is -inf, a key has the weight 0. It is still multiplied
// by the value, as in the product of softmax(scores) and v: an infinite or NaN value makes NaN. NaN and
// +inf among the scores make the whole query NaN, as in softmax. If all scores are -inf, softmax would be
// NaN too: `empty_row` says whether the query is NaN or zeros. With a key length of 0 it is zeros, as in a
// matrix product over an empty axis.
//
// Keys that `mask` excludes have no score; some kernels skip their values, others multiply them by 0, so
// these must be finite. Keys from the length of a batch on are never read.
struct Attention final : OpOf<Attention> {
  static constexpr auto kName = "attention";
  enum Input : int64_t {
    kQ,
    kK,
    kV,
    kMask,
    kLengths,
    kSinks,
    kSlopes,
    kPages,
    kStart,
    kKScale,
    kVScale,
    kInputCount,
  };
  int64_t heads = 0;     // 0: what q's shape says, in the layouts that have an axis for it
  int64_t kv_heads = 0;  // 0: as many as heads
  AttentionLayout layout = AttentionLayout::bhsd;
  MaskKind mask = MaskKind::none;
  int64_t window = 0;
  std::optional<double> scale;     // 1 / sqrt(head size) when not given
  std::optional<double> soft_cap;  // none when not given
  double masked_score = -std::numeric_limits<double>::infinity();
  EmptyRow empty_row = EmptyRow::zeros;
  // Products, scaled and masked scores, and weights are rounded to the type of q, as separate nodes would.
  bool round_scores = false;
  bool log_sum_exp = false;  // a second output, f32 [batch, heads, queries]

  void visit_attributes(AttributeVisitor& v) override;
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void infer_again(const InferArgs& in, std::vector<TensorType>& types) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
  Tolerance tolerance(std::span<const TensorType> inputs) const override;
  double flops(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const override;
  std::optional<ValueRange> sensible_values(int64_t input, std::span<const TensorType> inputs) const override;

  double scale_for(int64_t head) const;
};

}  // namespace rlx
