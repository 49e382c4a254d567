// Products of matrices and what is made of them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "rlx/export.h"
#include "rlx/value.h"

RLX_EXPORT_BEGIN
namespace rlx {

// NumPy's matmul: batches broadcast, rank-1 operands are vectors. A transposed operand is read in place.
Value matmul(Value a, Value b);
// act(a x b + bias), where the activation is the name of an element-wise function; "" for none.
Value matmul_bias_act(Value a, Value b, Value bias, std::string_view activation = "");
// Contracts pairs of axes; the result has the batch axes, then the rest of `a`'s, then the rest of `b`'s.
Value dot_general(Value a, Value b, std::vector<int64_t> a_contracting, std::vector<int64_t> b_contracting,
                  std::vector<int64_t> a_batch = {}, std::vector<int64_t> b_batch = {});
// Each row of x [.., k] times the matrix of w [experts, k, n] that `expert` [..] names; a row is zero if
// there is no such expert (an index below 0, or past the last one).
Value grouped_matmul(Value x, Value w, Value expert);

// Einstein's summation: einsum("bij,bjk->bik", {a, b}). Without "->" the result has the letters that occur
// once, in alphabetic order; "..." stands for axes that broadcast.
Value einsum(std::string_view equation, const std::vector<Value>& inputs);

// --- Of the matrices in the last two axes; computed in f32, results in the type of the input ---

Value det(Value x);
Value inverse(Value x);  // NaN where there is none

struct Solution {
  Value x;     // NaN where a is singular
  Value info;  // i32 [..]: the number of the first pivot that is zero, from 1 on; else 0
};
// a x = b, for a [.., n, n] and b [.., n, k], whose batches broadcast. b is one vector for each matrix if it
// has one axis, or those of a without the last.
Solution solve(Value a, Value b);
struct LuDecomposition {
  Value lu;      // [.., m, n], both in one matrix, without the ones on L's diagonal
  Value pivots;  // i32 [.., min(m, n)]: row i was exchanged with row pivots[i], from 1 on
  Value info;    // as above
};
// P x = L U for x [.., m, n], as LAPACK's getrf has it; a column without a pivot is left as it is. NaN is the
// largest pivot.
LuDecomposition lu(Value x);
struct CholeskyFactor {
  Value l;     // lower triangular; NaN where x is not positive definite
  Value info;  // i32 [..]: the size of the first leading minor that is not, as in LAPACK; else 0
};
// L L^T = x for x [.., n, n], of which only the lower triangle is read.
CholeskyFactor cholesky(Value x);
struct QrFactors {
  Value q;  // [.., m, k], orthonormal columns, where k = min(m, n)
  Value r;  // [.., k, n], upper triangular
};
// x = Q R for x [.., m, n], reduced. By Householder reflections with LAPACK's signs: the diagonal of R is
// negative where the column to be reflected begins with a positive number or zero, and positive where that is
// negative; it stays as it is where there is nothing below it.
QrFactors qr(Value x);
struct TriangleOptions {
  bool upper = false;       // which triangle of t counts; the other is not read
  bool unit = false;        // the diagonal is taken as ones
  bool transposed = false;  // t^T x = b
};
// x of t x = b, for t [.., n, n] and b [.., n, k], whose batches broadcast. A zero on the diagonal gives
// infinities and NaN.
Value triangular_solve(Value t, Value b, const TriangleOptions& options = {});

}  // namespace rlx
RLX_EXPORT_END
