// Copies between layouts: a helper of many ops, and an op itself (contiguous).
#pragma once

#include <span>

#include "kernels/lowering.h"
#include "ops/machinery/op_of.h"

namespace rlx {

// y = x in row-major order, for a contiguous y.
void lower_copy(Lowering& l, const Operand& x, const Operand& y);
// A contiguous copy of x in scratch memory.
Operand lower_contiguous(Lowering& l, const Operand& x);
// The same for any y; each element of y's view is written, what lies between them is kept.
void lower_copy_into(Lowering& l, const Operand& x, const Operand& y);
// The same for several, in as few dispatches as the device allows; none reads what another writes.
struct CopyInto {
  Operand x, y;
};
void lower_copies_into(Lowering& l, std::span<const CopyInto> copies);

// Emits a dispatch whose kernel asks x_has and y_has of the operands x and y: if it cannot be bound, every
// piece of x with every piece of y.
void emit_in_windows(Lowering& l, const Dispatch& whole, size_t x, size_t y);

// The input in its own memory, decoded and in row-major order; materialize_views puts it where a view cannot
// be read.
struct Contiguous final : OpOf<Contiguous> {
  static constexpr auto kName = "contiguous";
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  bool reads_encoded(int64_t, DType, const View&) const override { return true; }
  void lower(Lowering& l) const override { lower_copy(l, l.in(0), l.out()); }
};

}  // namespace rlx
