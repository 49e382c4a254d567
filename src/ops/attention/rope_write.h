// What a decoder does with queries, keys and values before attention, in one dispatch.
#pragma once

#include "ops/attention/rope.h"
#include "ops/machinery/op_of.h"
#include "ops/rearrange/write_state.h"

namespace rlx {

// Inputs are a state for keys, one for values, x[..., seq, queries + keys + values], and the tables of a
// rope. The rope of x's first `queries` elements is the last output; that of the next `keys`, and the rest of
// x as it is, replace entries of the states as write_state does.
struct RopeWrite final : OpOf<RopeWrite> {
  static constexpr auto kName = "rope_write";
  int64_t queries = 0, keys = 0;
  Rope rope;
  int64_t axis = 0;
  Dim start = 0;

  void visit_attributes(AttributeVisitor& v) override {
    v("queries", queries);
    v("keys", keys);
    rope.visit_attributes(v);
    v("axis", axis, 0);
    v("start", start, 0);
  }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void infer_again(const InferArgs& in, std::vector<TensorType>& types) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
  Tolerance tolerance(std::span<const TensorType> inputs) const override { return rope.tolerance(inputs); }
  bool overwrites(int64_t input) const override { return input < 2; }

  // The writes of both states.
  WriteState write() const;
};

}  // namespace rlx
