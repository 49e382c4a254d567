// Linear systems and inverses, by LU factorisation.
#include <algorithm>
#include <cmath>

#include "kernels/identity.wgsl.h"
#include "ops/linear_algebra/matrices.h"
#include "ops/machinery/fill.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/outputs.h"
#include "rlx/ops/linear_algebra.h"

namespace rlx {
namespace {

// Relative to the largest elements of the solution, the error is the condition of the matrix in units of the
// last place; both are up to some hundreds for random matrices.
Tolerance solution_tolerance(const Shape& a) {
  const auto n = static_cast<double>(a[a.rank() - 1].value());
  return {.ulps = 256 * n, .scale = 64};
}

struct Solve final : OpOf<Solve> {
  static constexpr auto kName = "solve";

  // PyTorch's rule: b is one vector for each matrix if it has one axis, or the axes of the matrices without
  // the last.
  static bool is_vectors(const Shape& a, const Shape& b) {
    return b.rank() == 1 ||
           (b.rank() == a.rank() - 1 && b == Shape(std::vector<Dim>(a.begin(), a.end() - 1)));
  }
  std::vector<TensorType> infer(const InferArgs& in) const override {
    in.expect_count(2);
    expect_square(in, 0);
    in.expect_float(1);
    in.expect_same_dtype(0, 1);
    const Shape& a = in.shape(0);
    const Shape& b = in.shape(1);
    const Dim& n = a[a.rank() - 1];
    const bool vectors = is_vectors(a, b);
    if (b.rank() == 0 || b[b.rank() - (vectors ? 1 : 2)] != n)
      fail("{}: matrices {} and right-hand sides {} differ in their rows", kName, a.text(), b.text());
    const Shape x = vectors ? with_axes(batch_of(a), {n})
                            : with_axes(broadcast(batch_of(a), batch_of(b), kName), {n, b[b.rank() - 1]});
    return {{in.dtype(0), x}, {DType::i32, batch_of(a)}};
  }
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    return solution_tolerance(inputs[0].shape);
  }
};

void Solve::reference(RefContext& r) const {
  const RefTensor& a = r.in(0);
  const int64_t n = a.dims.back();
  for (size_t i = 0; n > 0 && i < r.out(1).ints.size(); ++i)
    r.out(1).ints[i] = factor_lu(matrix_of(a, static_cast<int64_t>(i)), n, n).info;
  RefTensor& x = r.out();
  if (x.real.empty()) return;
  const bool vectors = is_vectors(Shape(a.dims), Shape(r.in(1).dims));
  RefTensor b = r.in(1);
  if (vectors) b.dims.push_back(1);  // each a column
  const std::span<const int64_t> batch(x.dims.begin(), x.dims.end() - (vectors ? 1 : 2));
  x.real = broadcast_matrices(b, batch).real;
  const RefTensor matrices = broadcast_matrices(a, batch);
  const int64_t columns = b.dims.back();
  const auto size = static_cast<size_t>(n * columns);
  for (size_t i = 0; i < x.real.size() / size; ++i) {
    solve_lu(factor_lu(matrix_of(matrices, static_cast<int64_t>(i)), n, n), n,
             std::span(x.real).subspan(i * size, size), columns);
  }
}

void Solve::lower(Lowering& l) const {
  const Operand& a = l.in(0);
  const Operand& x = l.out(0);
  if (a.view.elements() == 0) return lower_fill(l, l.out(1), 0);
  const Dims of_matrices(a.view.dims.begin(), a.view.dims.end() - 2);
  const int64_t n = a.view.dims.back();
  LuFactors f = lu_scratch(l, a);
  f.info = l.out(1).with_view(View::contiguous(f.info.view.dims));
  lower_lu(l, kName, f);
  if (x.view.elements() == 0) return;

  const auto shape_of = [](const Operand& o) { return Shape(o.view.dims); };
  const bool vectors = is_vectors(shape_of(a), shape_of(l.in(1)));
  const Operand memory = output_memory(l, x, vectors ? 1 : 2);
  lower_convert(l, l.in(1), memory.with_view(View::contiguous(x.view.dims)));
  const Dims batch(x.view.dims.begin(), x.view.dims.end() - (vectors ? 1 : 2));
  const auto for_each_x = [&](const Operand& o, Dims own) {
    Dims dims = of_matrices;
    dims.insert(dims.end(), own.begin(), own.end());
    return broadcast_matrices(l, o.with_view(View::contiguous(dims)), batch, std::ssize(own));
  };
  f = {.matrix = for_each_x(f.matrix, {n, n}),
       .pivots = for_each_x(f.pivots, {n}),
       .info = for_each_x(f.info, {})};
  const int64_t count = f.info.view.dims[0];
  lower_lu_solve(l, f, memory.with_view(View::contiguous({count, n, x.view.elements() / (count * n)})));
  lower_output(l, memory, x);
}

struct Inverse final : OpOf<Inverse> {
  static constexpr auto kName = "inverse";

  std::vector<TensorType> infer(const InferArgs& in) const override {
    in.expect_count(1);
    expect_square(in, 0);
    return {in[0]};
  }
  void reference(RefContext& r) const override {
    const RefTensor& x = r.in(0);
    const int64_t n = x.dims.back();
    const auto size = static_cast<size_t>(n * n);
    for (size_t i = 0; size > 0 && i < x.real.size() / size; ++i) {
      const std::span<double> y = std::span(r.out().real).subspan(i * size, size);
      for (size_t k = 0; k < static_cast<size_t>(n); ++k) y[k * static_cast<size_t>(n + 1)] = 1;
      solve_lu(factor_lu(matrix_of(x, static_cast<int64_t>(i)), n, n), n, y, n);
    }
  }
  void lower(Lowering& l) const override {
    const Operand& y = l.out();
    if (y.view.elements() == 0) return;
    const LuFactors f = lu_scratch(l, l.in(0));
    lower_lu(l, kName, f);
    const Operand memory = output_memory(l, y);
    const uint32_t n = to_u32(y.view.dims.back());
    l.flat<kernels::identity>({.y = memory}, {.rows = n, .columns = n});
    lower_lu_solve(l, f, memory);
    lower_output(l, memory, y);
  }
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    return solution_tolerance(inputs[0].shape);
  }
};

}  // namespace

Solution solve(Value a, Value b) {
  return named_outputs<Solution>(add_node(std::make_shared<Solve>(), {a, b}));
}
Value inverse(Value x) { return add_node(std::make_shared<Inverse>(), {x}); }

namespace ops {
void register_solve(OpTable& table) {
  table.add<Solve>(
      {.formula =
           "{x, info} of a x = b; NaN where a is singular: its first zero pivot, from 1 on, is info, else 0",
       .operands = "a: matrices [.., n, n]\n"
                   "b: right-hand sides [.., n, k], or one vector for each matrix, [n] or of the shape of a "
                   "without its last axis",
       .outputs = "x: [.., n, k], or one vector for each matrix; NaN where a is singular\n"
                  "info (i32): [..], for each matrix the number of its first zero pivot, from 1 on, or 0 if "
                  "there is none",
       .types = "f32 f16 bf16",
       .variants = lu_variants(),
       .samples = {"solve(T[3,3], T[3])", "solve(T[2,3,4,4], T[2,3,4])", "solve(T[2,1,4,4], T[3,4,2])",
                   "solve(T[4,4], T[2,4,3])", "solve(T[1,1] in 1..2, T[1])", "solve(T[0,3,3], T[3])",
                   "solve(T[2,0,0], T[2,0])", "solve(T[17,17], T[17,0])",
                   "solve(T[90001,1,1] in 1..2, T[90001,1])", "solve(T[65,65], T[65])"}});
  table.add<Inverse>(
      {.formula = "the inverse of the matrices in the last two axes; NaN where there is none",
       .operands = "x: matrices [.., n, n]",
       .outputs = "y: [.., n, n]",
       .types = "f32 f16 bf16",
       .variants = lu_variants(),
       .samples = {"inverse(T[3,3])", "inverse(T[2,3,4,4])", "inverse(T[1,1])", "inverse(T[0,3,3])",
                   "inverse(T[2,0,0])", "inverse(T[17,17])", "inverse(T[90001,1,1] in 1..2)"}});
}
}  // namespace ops

}  // namespace rlx
