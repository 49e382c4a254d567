// What factorisations and solvers of linear systems share. They work on f32 operands [count, rows, columns]:
// copies of their inputs, which they change in place.
#pragma once

#include "ir/op.h"
#include "ir/reference.h"
#include "kernels/lowering.h"

namespace rlx {

// The inputs' last two axes are matrices; a square one where the op wants it. Errors name the shape.
void expect_matrices(const InferArgs& in, int64_t input);
void expect_square(const InferArgs& in, int64_t input);
// All axes but the last two.
Shape batch_of(const Shape& matrices);
// The shape of matrices with these sizes, or of none, after the batch.
Shape with_axes(Shape batch, std::initializer_list<Dim> axes);

// y = x, cast to y's type.
void lower_convert(Lowering& l, const Operand& x, const Operand& y);
// x where it is f32, else a copy that is.
Operand in_f32(Lowering& l, const Operand& x);
// The view as [count, rows, columns], or [count, length] of vectors, copied first where strides cannot
// express it.
Operand with_one_batch_axis(Lowering& l, const Operand& x, int64_t axes_of_one = 2);
// The matrices of x, or `axes_of_one` axes of something else for each matrix, for a batch of these dims.
Operand broadcast_matrices(Lowering& l, const Operand& x, const Dims& batch, int64_t axes_of_one = 2);
// Memory in f32 for an output: the output itself where that is f32. `lower_output` brings it there.
Operand output_memory(Lowering& l, const Operand& y, int64_t axes_of_one = 2);
void lower_output(Lowering& l, const Operand& memory, const Operand& y);
// Part of the rows and columns of all matrices.
Operand block(const Operand& matrices, int64_t row, int64_t rows, int64_t column, int64_t columns);
Operand transposed(const Operand& matrices);

// The packed factors of an LU factorisation with partial pivoting, P A = L U, as LAPACK has them.
struct LuFactors {
  Operand matrix;  // f32[count, rows, columns], the matrix at first
  Operand pivots;  // i32[count, min(rows, columns)]: with which row each was exchanged, from 1 on
  Operand info;    // i32[count]: the first pivot that is zero, from 1 on; 0 if there is none
};
LuFactors lu_scratch(Lowering& l, const Operand& x);  // a copy of x, [count, rows, columns]
void lower_lu(Lowering& l, std::string_view op, const LuFactors& f);
std::vector<std::string> lu_variants();
// Solves A x = b for x [count, n, k], which holds b at first; NaN where A is singular.
void lower_lu_solve(Lowering& l, const LuFactors& f, const Operand& x);

struct Triangle {
  bool upper = false;
  bool unit = false;  // the diagonal is taken as ones
};
// Solves t x = b for x [count, n, k], which holds b at first; the other triangle of t is not read.
void lower_triangular_solve(Lowering& l, Operand t, Operand x, Triangle triangle);

// y -= a b, or y = a b, for [count, m, k], [count, k, n] and [count, m, n], which may lie in the same memory
// side by side.
void lower_subtract_product(Lowering& l, const Operand& a, const Operand& b, const Operand& y);
void lower_matrix_product(Lowering& l, const Operand& a, const Operand& b, const Operand& y);

// y = one triangle of x [count, rows, columns], zeros in the other; NaN where there is `info` and it is not
// 0.
void lower_triangles(Lowering& l, const Operand& x, const Operand& info, const Operand& y, bool upper);

// Matrices of up to so many rows and columns are taken whole; larger ones in blocks.
inline constexpr int64_t kWholeMatrix = 64;
inline constexpr int64_t kMatrixBlock = 32;
// The largest workgroup that shares a matrix: the lanes of a CPU take turns between barriers.
int64_t matrix_group(const Caps& caps, int64_t rows);

// --- The same on the host, in double ---

struct LuReference {
  std::vector<double> matrix;
  std::vector<int64_t> pivots;  // from 0 on
  int64_t info = 0;
};
LuReference factor_lu(std::vector<double> matrix, int64_t rows, int64_t columns);
void solve_lu(const LuReference& f, int64_t n, std::span<double> x, int64_t columns);
void solve_triangle(std::span<const double> t, int64_t n, std::span<double> x, int64_t columns,
                    Triangle triangle);
// Matrix number i of a tensor.
std::vector<double> matrix_of(const RefTensor& x, int64_t i);
// All of them, transposed if asked for, for a batch of these dims.
RefTensor broadcast_matrices(const RefTensor& x, std::span<const int64_t> batch, bool transposed = false);

}  // namespace rlx
