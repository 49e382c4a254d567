// Cholesky factorisation, in blocks: one on the diagonal by a workgroup, those below it by substitution, and
// the rest is updated by products.
#include <algorithm>
#include <cmath>

#include "kernels/cholesky_block.wgsl.h"
#include "ops/linear_algebra/matrices.h"
#include "ops/machinery/fill.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/outputs.h"
#include "rlx/ops/linear_algebra.h"

namespace rlx {
namespace {

// The workgroup memory for blocks of this size.
constexpr int64_t floats_for(int64_t side) { return side * (side + 1); }

void lower_block(Lowering& l, const Operand& matrix, const Operand& info, int64_t first, int64_t last) {
  const int64_t group = matrix_group(l.caps(), last - first);
  const int64_t held = floats_for(last - first <= kMatrixBlock ? kMatrixBlock : kWholeMatrix);
  l.split(matrix.view.dims[0], 1, [&](int64_t begin, int64_t length) {
    const auto part = [&](const Operand& o) { return o.with_view(o.view.slice(0, begin, length)); };
    return l.make<kernels::cholesky_block>({.matrix = part(matrix), .info = part(info)},
                                           {.count = to_u32(length),
                                            .size = to_u32(matrix.view.dims[1]),
                                            .first = to_u32(first),
                                            .last = to_u32(last)},
                                           length, {.GROUP = to_u32(group), .HELD = to_u32(held)});
  });
}

// In place; the other triangle is left over.
void lower_cholesky(Lowering& l, const Operand& matrix, const Operand& info) {
  const int64_t n = matrix.view.dims[1];
  const bool whole =
      n <= kWholeMatrix && 4 * floats_for(kWholeMatrix) <= int64_t{l.caps().max_workgroup_bytes};
  const int64_t side = whole ? n : kMatrixBlock;
  for (int64_t first = 0; first < n; first += side) {
    const int64_t last = std::min(first + side, n);
    lower_block(l, matrix, info, first, last);
    const Operand below = block(matrix, last, n - last, first, last - first);
    lower_triangular_solve(l, block(matrix, first, last - first, first, last - first), transposed(below), {});
    lower_subtract_product(l, below, transposed(below), block(matrix, last, n - last, last, n - last));
  }
}

// The factor in the lower triangle of m, zeros above it, and info.
int64_t factor_reference(std::vector<double>& m, int64_t n) {
  const auto at = [&](int64_t row, int64_t column) -> double& {
    return m[static_cast<size_t>(row * n + column)];
  };
  for (int64_t k = 0; k < n; ++k) {
    for (int64_t column = k + 1; column < n; ++column) at(k, column) = 0;
  }
  for (int64_t k = 0; k < n; ++k) {
    for (int64_t j = 0; j < k; ++j) {
      for (int64_t row = k; row < n; ++row) at(row, k) -= at(row, j) * at(k, j);
    }
    if (!(at(k, k) > 0)) {
      std::ranges::fill(m, NAN);
      return k + 1;
    }
    const double root = std::sqrt(at(k, k));
    for (int64_t row = k; row < n; ++row) at(row, k) /= root;
  }
  return 0;
}

struct Cholesky final : OpOf<Cholesky> {
  static constexpr auto kName = "cholesky";

  std::optional<ValueRange> sensible_values(int64_t, std::span<const TensorType>) const override {
    return ValueRange{.low = -1, .high = 1, .positive_definite = true};
  }
  std::vector<TensorType> infer(const InferArgs& in) const override {
    in.expect_count(1);
    expect_square(in, 0);
    return {in[0], {DType::i32, batch_of(in.shape(0))}};
  }
  void reference(RefContext& r) const override {
    const int64_t n = r.in(0).dims.back();
    for (size_t i = 0; n > 0 && i < r.out(1).ints.size(); ++i) {
      std::vector<double> m = matrix_of(r.in(0), static_cast<int64_t>(i));
      r.out(1).ints[i] = factor_reference(m, n);
      std::ranges::copy(m, r.out(0).real.begin() + static_cast<std::ptrdiff_t>(i) * n * n);
    }
  }
  void lower(Lowering& l) const override;
  // Every element is a sum of up to n products, divided by a diagonal that may be small.
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    const Shape& x = inputs[0].shape;
    return {.ulps = 64, .terms = static_cast<double>(x[x.rank() - 1].value()), .scale = 1};
  }
};

void Cholesky::lower(Lowering& l) const {
  const Operand& x = l.in(0);
  if (x.view.elements() == 0) return lower_fill(l, l.out(1), 0);
  const Operand work = l.scratch(DType::f32, x.view.dims);
  lower_convert(l, x, work);
  const int64_t n = x.view.dims.back();
  const int64_t count = x.view.elements() / (n * n);
  const Operand matrix = work.with_view(View::contiguous({count, n, n}));
  const Operand info = l.out(1).with_view(View::contiguous({count}));
  lower_cholesky(l, matrix, info);
  lower_triangles(l, matrix, info, l.out(0), /*upper=*/false);
}

}  // namespace

CholeskyFactor cholesky(Value x) {
  return named_outputs<CholeskyFactor>(add_node(std::make_shared<Cholesky>(), {x}));
}

namespace ops {
void register_cholesky(OpTable& table) {
  // What is drawn at random is seldom positive definite: tests/gpu/linear_algebra_test.cpp has matrices that
  // are.
  table.add<Cholesky>(
      {.formula = "{L, info}: L L^T = x by the lower triangle of x; NaN where x is not positive definite, "
                  "info: its first leading minor that is not, from 1 on, or 0",
       .operands = "x: matrices [.., n, n], of which only the lower triangle is read",
       .outputs = "l: [.., n, n], lower triangular; NaN where x is not positive definite\n"
                  "info (i32): [..], the size of the first leading minor that is not positive "
                  "definite, or 0",
       .types = "f32 f16 bf16",
       .variants = {"blocks"},
       .samples = {"cholesky(T[30,2,2] in 1..2)", "cholesky(T[2,3,1,1] in 1..2)", "cholesky(T[17,17])",
                   "cholesky(T[0,3,3])", "cholesky(T[2,0,0])", "cholesky(T[70001,1,1] in 1..2)"}});
}
}  // namespace ops

}  // namespace rlx
