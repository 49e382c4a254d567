#pragma once

#include "ops/machinery/view_op.h"

namespace rlx {

// `length` elements along `axis` from `start` on, `step` apart. A negative step walks backwards from `start`.
struct Slice final : ViewOf<Slice> {
  static constexpr auto kName = "slice";
  int64_t axis = 0;
  Dim start = 0;
  Dim length = 0;
  int64_t step = 1;

  void visit_attributes(AttributeVisitor& v) override {
    v("axis", axis);
    v("start", start);
    v("length", length);
    v("step", step, 1);
  }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void infer_again(const InferArgs& in, std::vector<TensorType>& types) const override;
  std::optional<View> view(const View& input, const Dims& out_dims) const override;
};

// Checks, as far as the symbols allow, that [start, start + length) in steps lies in an axis of that size.
// `what` names the op.
void check_slice(std::string_view what, const Dim& size, const Dim& start, const Dim& length, int64_t step);

}  // namespace rlx
