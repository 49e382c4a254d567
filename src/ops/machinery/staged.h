// Whole-tensor steps in f32, each of which can be cut anywhere: for rows too long to be bound.
#pragma once

#include <string_view>
#include <vector>

#include "kernels/lowering.h"
#include "ops/reductions/reduce.h"

namespace rlx {

class Staged {
 public:
  // Values have these dims, or 1 in place of some.
  Staged(Lowering& l, std::vector<int64_t> dims) : l_(l), dims_(std::move(dims)) {}

  // x in f32, broadcast to the dims.
  Operand f32(const Operand& x);
  // An expression (ops/elementwise/expr.h) of f32 values; its dims are the largest of theirs.
  Operand map(std::string_view expr, const OperandList& inputs);
  // Along the axes, which stay with length 1.
  Operand reduce(ReduceKind kind, const Operand& value, const std::vector<int64_t>& axes);
  // y = value, in y's type.
  void store(const Operand& value, const Operand& y);

 private:
  Lowering& l_;
  std::vector<int64_t> dims_;
};

}  // namespace rlx
