// A scalar expression on the result of an op.
#pragma once

#include "ops/elementwise/expr.h"

namespace rlx {

// On the host: r.out() = expr(product, the inputs of r from `first_extra` on).
void reference_epilogue(const Expr& expr, RefTensor product, int64_t first_extra, RefContext& r);

}  // namespace rlx
