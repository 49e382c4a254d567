// A scalar expression at the tail of a kernel: bias, activation, residual and scale cost no extra
// dispatch.
//
// The kernel's source has a line `fn epilogue(...) ...  //@ epilogue`, which is replaced, and `//@ params` as
// the last line of struct Params, where the expression's numbers go. $0 is the kernel's value, $1.. the
// extra operands, which are read at the flat index i of the output.
#pragma once

#include <vector>

#include "kernels/dispatch.h"
#include "ops/expr.h"

namespace rlx {

struct WithEpilogue {
  KernelPtr kernel;
  std::vector<uint32_t> words;  // to append to the kernel's own parameters
};

// `expr` may be empty (no steps): the kernel as it is.
WithEpilogue with_epilogue(const KernelPtr& kernel, const Expr& expr);

}  // namespace rlx
