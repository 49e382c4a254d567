#pragma once

#include "ops/machinery/op_of.h"
#include "rlx/ops/rearrange.h"

namespace rlx {

// Elements around x: `value`, x mirrored without repeating its ends, its end elements, or x over again.
// Negative numbers cut elements off; what is cut is never seen, not even by a mirror: as if x were cut first
// and the rest padded, which is how ONNX Runtime does it (NumPy has no negative numbers; its rules hold
// for what is left).
struct Pad final : OpOf<Pad> {
  static constexpr auto kName = "pad";
  std::vector<int64_t> before, after;  // one for each axis
  PadMode mode = PadMode::constant;
  double value = 0;

  void visit_attributes(AttributeVisitor& v) override {
    v("before", before);
    v("after", after);
    v.choice("mode", mode, {"constant", "reflect", "edge", "wrap"}, std::optional(PadMode::constant));
    v("value", value, 0);
  }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
};

}  // namespace rlx
