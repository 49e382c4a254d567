// Factorisations and solutions on the host, in double. NaN is the largest pivot, so that it is never passed
// over.
#include <algorithm>
#include <cmath>

#include "ops/linear_algebra/matrices.h"

namespace rlx {
namespace {

bool larger(double a, double b) { return std::isnan(a) ? !std::isnan(b) : std::fabs(a) > std::fabs(b); }

}  // namespace

std::vector<double> matrix_of(const RefTensor& x, int64_t i) {
  const int64_t size = x.dims[x.dims.size() - 1] * x.dims[x.dims.size() - 2];
  const auto begin = x.real.begin() + i * size;
  return {begin, begin + size};
}

RefTensor broadcast_matrices(const RefTensor& x, std::span<const int64_t> batch, bool transposed) {
  View view = View::contiguous(x.dims);
  const int64_t rank = view.rank();
  Dims order;
  for (int64_t axis = 0; axis < rank - 2; ++axis) order.push_back(axis);
  order.push_back(rank - (transposed ? 1 : 2));
  order.push_back(rank - (transposed ? 2 : 1));
  view = view.permute(order);
  Dims dims(batch.begin(), batch.end());
  dims.push_back(view.dims[static_cast<size_t>(rank - 2)]);
  dims.push_back(view.dims[static_cast<size_t>(rank - 1)]);
  return {.dtype = x.dtype,
          .dims = {dims.begin(), dims.end()},
          .real = gather_view(x.real, view.broadcast_to(dims))};
}

LuReference factor_lu(std::vector<double> matrix, int64_t rows, int64_t columns) {
  LuReference f{.matrix = std::move(matrix)};
  const auto at = [&](int64_t row, int64_t column) -> double& {
    return f.matrix[static_cast<size_t>(row * columns + column)];
  };
  for (int64_t k = 0; k < std::min(rows, columns); ++k) {
    int64_t best = k;
    for (int64_t row = k + 1; row < rows; ++row) {
      if (larger(at(row, k), at(best, k))) best = row;
    }
    f.pivots.push_back(best);
    for (int64_t c = 0; best != k && c < columns; ++c) std::swap(at(k, c), at(best, c));
    const double pivot = at(k, k);
    if (pivot == 0) {
      if (f.info == 0) f.info = k + 1;
      continue;
    }
    for (int64_t row = k + 1; row < rows; ++row) {
      const double factor = at(row, k) /= pivot;
      for (int64_t c = k + 1; c < columns; ++c) at(row, c) -= factor * at(k, c);
    }
  }
  return f;
}

void solve_triangle(std::span<const double> t, int64_t n, std::span<double> x, int64_t columns,
                    Triangle triangle) {
  const auto row_of = [&](int64_t i) { return triangle.upper ? n - 1 - i : i; };
  for (int64_t i = 0; i < n; ++i) {
    const int64_t row = row_of(i);
    double* const here = x.data() + row * columns;
    for (int64_t j = 0; j < i; ++j) {
      const double factor = t[static_cast<size_t>(row * n + row_of(j))];
      const double* const other = x.data() + row_of(j) * columns;
      for (int64_t c = 0; c < columns; ++c) here[c] -= factor * other[c];
    }
    if (triangle.unit) continue;
    for (int64_t c = 0; c < columns; ++c) here[c] /= t[static_cast<size_t>(row * n + row)];
  }
}

void solve_lu(const LuReference& f, int64_t n, std::span<double> x, int64_t columns) {
  if (f.info != 0) {
    std::ranges::fill(x, NAN);
    return;
  }
  for (int64_t row = 0; row < n; ++row) {
    const int64_t other = f.pivots[static_cast<size_t>(row)];
    for (int64_t c = 0; other != row && c < columns; ++c)
      std::swap(x[static_cast<size_t>(row * columns + c)], x[static_cast<size_t>(other * columns + c)]);
  }
  solve_triangle(f.matrix, n, x, columns, {.unit = true});
  solve_triangle(f.matrix, n, x, columns, {.upper = true});
}

}  // namespace rlx
