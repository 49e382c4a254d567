#pragma once

#include "kernels/dispatch.h"
#include "ops/machinery/op_of.h"

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
  void infer_again(const InferArgs& in, std::vector<TensorType>& types) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
  bool overwrites(int64_t input) const override { return input < states; }

  // An error unless this input can be written into that one.
  void check_write(const InferArgs& in, int64_t state, int64_t update) const;
  // The entries of a state that an update of these dims replaces.
  Operand replaced(const Operand& state, const Dims& update_dims) const;
};

}  // namespace rlx
