#include "ops/machinery/staged.h"

#include <algorithm>

#include "base/format.h"
#include "ops/elementwise/elementwise.h"
#include "ops/rearrange/contiguous.h"

namespace rlx {

Operand Staged::f32(const Operand& x) {
  Operand dense = lower_contiguous(l_, x.with_view(x.view.broadcast_to(dims_)));
  if (x.dtype == DType::f32) return dense;
  const Operand wide = l_.scratch(DType::f32, dims_);
  store(dense, wide);
  return wide;
}

Operand Staged::map(std::string_view expr, const OperandList& inputs) {
  std::vector<int64_t> dims(dims_.size(), 1);
  for (const Operand& o : inputs) std::ranges::transform(dims, o.view.dims, dims.begin(), std::ranges::max);
  const Operand to = l_.scratch(DType::f32, dims);
  lower_expr(l_, Expr::parse(expr, std::vector<DType>(inputs.size(), DType::f32)), inputs, to);
  return to;
}

Operand Staged::reduce(ReduceKind kind, const Operand& value, const std::vector<int64_t>& axes) {
  std::vector<int64_t> dims = value.view.dims;
  for (int64_t axis : axes) dims[static_cast<size_t>(axis)] = 1;
  const Operand to = l_.scratch(DType::f32, dims);
  lower_reduce(l_, kind, value, axes, to);
  return to;
}

void Staged::store(const Operand& value, const Operand& y) {
  lower_expr(l_, Expr::parse(formatted("cast_{}($0)", to_string(y.dtype)), {value.dtype}), {value}, y);
}

}  // namespace rlx
