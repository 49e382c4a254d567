// What convolutions and their transposes are lowered to: a product whose one operand is read in windows.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "ops/convolution/conv.h"
#include "ops/elementwise/expr.h"
#include "ops/products/load_window.h"
#include "ops/products/product_op.h"
#include "rlx/ops/convolution.h"

namespace rlx {

// A convolution, or some rows of one, in views whose axes are by group: [batch, groups, filters or channels,
// 3 spatial axes] for x, y and what the epilogue reads, [groups, filters, channels, kernel] for w.
struct ConvProblem {
  ConvLayout layout = ConvLayout::channels_first;
  std::array<products::WindowAxis, 3> axes;
  products::Outside outside = products::Outside::zeros;  // of x
  Operand x, w, y;
  Operand x_zero, w_zero;  // one number each, subtracted from all elements; may be absent
  OperandList extra;
  Expr expr;
};

// x, y or an operand of the epilogue, as the problem has it.
View by_group(const View& v, ConvLayout layout, int64_t groups);
// The bias, input 2, and the epilogue of the op whose y the problem has.
void set_epilogue(ConvProblem& p, const ProductOp& op, const Lowering& l, int64_t groups);
// The windows and operands of a convolution, with the bias and the epilogue of `op`, whose inputs x and w are
// the first two.
ConvProblem conv_problem(const Conv& windows, const ProductOp& op, const Lowering& l);
// The kernels that convolutions and their transposes can have.
std::vector<std::string> conv_variants();
// `op` is the one whose kernels may be forced.
void lower_conv(Lowering& l, std::string_view op, const ConvProblem& p);

}  // namespace rlx
