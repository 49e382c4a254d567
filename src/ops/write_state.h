#pragma once

#include "ir/op.h"

namespace rlx {

// States with the entries from `start` on along `axis` replaced by updates: inputs are the states, then an
// update for each. The results are the states' own memory.
struct WriteState final : OpOf<WriteState> {
  static constexpr auto kName = "write_state";
  int64_t axis = 0;
  Dim start = 0;
  int64_t states = 1;

  void visit_attributes(AttributeVisitor& v) override {
    v("axis", axis, 0);
    v("start", start, 0);
    v("states", states, 1);
  }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
  bool overwrites(int64_t input) const override { return input < states; }
};

}  // namespace rlx
