// MatMul, Gemm and com.microsoft's FusedMatMul.
#include <algorithm>

#include "import/onnx/products.h"
#include "import/onnx/rules.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"

namespace rlx::onnx {

// Integers are multiplied and added element by element: exact, but of use for small matrices only.
Value product(Value a, Value b) {
  if (is_float(value_dtype(a.dtype()))) return matmul(a, b);
  const Shape& sa = a.shape();
  const Shape& sb = b.shape();
  if (sa.rank() == 0 || sb.rank() == 0) fail("a product of a scalar");
  // [.., m, k, 1] * [.., 1, k, n], summed over k.
  Shape left = sa;
  left.push_back(1);
  Shape right = sb;
  if (sb.rank() == 1) right.push_back(1);
  if (sa.rank() > 1) right.insert(right.rank() - 2, 1);
  Value y = sum(reshape(a, left) * reshape(b, right), {-2});
  if (sb.rank() == 1) {
    Shape flat = y.shape();
    flat.erase(flat.rank() - 1);
    y = reshape(y, flat);
  }
  return y;
}

namespace {

Value last_two_swapped(Value x) {
  std::vector<int64_t> perm;
  for (int64_t i = 0; i < x.shape().rank(); ++i) perm.push_back(i);
  if (perm.size() > 1) std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return transpose(x, perm);
}

// [m, batch.., k] as [batch.., m, k].
Value first_moved_in(Value x) {
  std::vector<int64_t> perm;
  for (int64_t i = 0; i < x.shape().rank(); ++i) perm.push_back(i);
  if (perm.size() > 2) std::rotate(perm.begin(), perm.begin() + 1, perm.end() - 1);
  return transpose(x, perm);
}

void matmul_rule(Call& c) {
  c.expect_inputs(2, 2);
  c.out(product(c.in(0), c.in(1)));
}

void gemm_rule(Call& c) {
  c.expect_inputs(2, 3);
  const Value a = c.in(0);
  const Value b = c.in(1);
  if (a.shape().rank() != 2 || b.shape().rank() != 2)
    fail("it multiplies {} and {}, which are not both matrices", a.shape().text(), b.shape().text());
  if (c.opset() < 7) c.ignores("broadcast");  // what need not be broadcast fits anyway
  const double alpha = c.real("alpha", 1);
  const double beta = c.real("beta", 1);
  Value y = product(c.flag("transA", false) ? transpose(a) : a, c.flag("transB", false) ? transpose(b) : b);
  if (alpha != 1) y = y * alpha;
  if (c.has(2) && beta != 0) y = y + (beta == 1 ? c.in(2) : c.in(2) * beta);
  c.out(y);
}

void fused_matmul_rule(Call& c) {
  c.expect_inputs(2, 2);
  Value a = c.flag("transBatchA", false) ? first_moved_in(c.in(0)) : c.in(0);
  Value b = c.flag("transBatchB", false) ? first_moved_in(c.in(1)) : c.in(1);
  if (c.flag("transA", false)) a = last_two_swapped(a);
  if (c.flag("transB", false)) b = last_two_swapped(b);
  const double alpha = c.real("alpha", 1);
  const Value y = product(a, b);
  c.out(alpha == 1 ? y : y * alpha);
}

}  // namespace

namespace rules {
void register_matmul(RuleTable& table) {
  table.add("MatMul", matmul_rule);
  table.add("Gemm", gemm_rule);
  table.add(kMicrosoft, "FusedMatMul", fused_matmul_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
