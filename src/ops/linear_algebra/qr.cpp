// QR factorisation by Householder reflections, in panels of columns; what is to the right of a panel, and Q,
// are reflected by products: I - V T V^T.
#include <algorithm>
#include <cmath>

#include "kernels/householder_panel.wgsl.h"
#include "kernels/identity.wgsl.h"
#include "ops/linear_algebra/matrices.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/outputs.h"
#include "ops/rearrange/contiguous.h"
#include "rlx/ops/linear_algebra.h"

namespace rlx {
namespace {

// The reflections of one panel: its columns from `first` on.
struct Panel {
  int64_t first = 0;
  Operand v;  // [count, rows - first, width]
  Operand t;  // [count, width, width]
};

constexpr int64_t kWidest = kernels::householder_panel::WIDEST;

// `steps` columns are reflected in all.
Panel lower_panel(Lowering& l, const Operand& matrix, int64_t first, int64_t steps) {
  const Dims& dims = matrix.view.dims;
  const int64_t width = std::min(kWidest, steps - first);
  const int64_t group = matrix_group(l.caps(), dims[1] - first);
  const Operand v = l.scratch(DType::f32, {dims[0], dims[1] - first, width});
  const Operand t = l.scratch(DType::f32, {dims[0], width, width});
  l.split(dims[0], 1, [&](int64_t begin, int64_t length) {
    const auto part = [&](const Operand& o) { return o.with_view(o.view.slice(0, begin, length)); };
    return l.make<kernels::householder_panel>({.matrix = part(matrix), .v = part(v), .t = part(t)},
                                              {.count = to_u32(length),
                                               .rows = to_u32(dims[1]),
                                               .columns = to_u32(dims[2]),
                                               .first = to_u32(first),
                                               .last = to_u32(first + width)},
                                              length, {.GROUP = to_u32(group)});
  });
  return {.first = first, .v = v, .t = t};
}

// c = (I - V T V^T) c, or with T^T, for the columns from `column` on of the rows that the panel reflects.
void lower_reflect(Lowering& l, const Panel& p, const Operand& t, const Operand& c, int64_t column) {
  const int64_t columns = c.view.dims[2] - column;
  if (columns == 0) return;
  const Operand part = block(c, p.first, c.view.dims[1] - p.first, column, columns);
  const Dims dims = {c.view.dims[0], t.view.dims[1], columns};
  const Operand projected = l.scratch(DType::f32, dims);
  const Operand scaled = l.scratch(DType::f32, dims);
  lower_matrix_product(l, transposed(p.v), part, projected);
  lower_matrix_product(l, t, projected, scaled);
  lower_subtract_product(l, p.v, scaled, part);
}

// Reflects the columns of m [rows, columns] from `column` on; v is zero before row k.
void reflect_reference(const std::vector<double>& v, double tau, int64_t k, std::vector<double>& m,
                       int64_t columns, int64_t column) {
  const int64_t rows = std::ssize(v);
  for (int64_t c = column; c < columns; ++c) {
    double dot = 0;
    for (int64_t row = k; row < rows; ++row)
      dot += v[static_cast<size_t>(row)] * m[static_cast<size_t>(row * columns + c)];
    for (int64_t row = k; row < rows; ++row)
      m[static_cast<size_t>(row * columns + c)] -= tau * dot * v[static_cast<size_t>(row)];
  }
}

// r [rows, columns] becomes R below which there are zeros up to rounding, q [rows, steps] Q.
void factor_reference(std::vector<double>& r, std::vector<double>& q, int64_t rows, int64_t columns) {
  const int64_t steps = std::min(rows, columns);
  std::vector<std::vector<double>> vectors;
  std::vector<double> taus;
  for (int64_t k = 0; k < steps; ++k) {
    std::vector<double> v(static_cast<size_t>(rows));
    double below = 0;
    for (int64_t row = k; row < rows; ++row) {
      v[static_cast<size_t>(row)] = r[static_cast<size_t>(row * columns + k)];
      if (row > k) below = std::hypot(below, v[static_cast<size_t>(row)]);
    }
    const double alpha = v[static_cast<size_t>(k)];
    const double norm = std::hypot(alpha, below);
    const double beta = alpha < 0 ? norm : -norm;
    const double tau = below == 0 ? 0 : (beta - alpha) / beta;
    for (int64_t row = k + 1; row < rows && below != 0; ++row) v[static_cast<size_t>(row)] /= alpha - beta;
    v[static_cast<size_t>(k)] = 1;
    reflect_reference(v, tau, k, r, columns, k);
    vectors.push_back(std::move(v));
    taus.push_back(tau);
  }
  for (int64_t k = 0; k < steps; ++k) q[static_cast<size_t>(k * steps + k)] = 1;
  for (int64_t k = steps; k-- > 0;)
    reflect_reference(vectors[static_cast<size_t>(k)], taus[static_cast<size_t>(k)], k, q, steps, k);
}

struct Qr final : OpOf<Qr> {
  static constexpr auto kName = "qr";

  std::vector<TensorType> infer(const InferArgs& in) const override {
    in.expect_count(1);
    expect_matrices(in, 0);
    const Shape& x = in.shape(0);
    const Dim& rows = x[x.rank() - 2];
    const Dim& columns = x[x.rank() - 1];
    const Dim steps = Dim::min(rows, columns);
    return {{in.dtype(0), with_axes(batch_of(x), {rows, steps})},
            {in.dtype(0), with_axes(batch_of(x), {steps, columns})}};
  }
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
  // A column is reflected `steps` times, and each reflection has an error of the size of its columns, of
  // `rows` elements up to 2. Directions that hardly differ from those before them have a larger one.
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    const Shape& x = inputs[0].shape;
    const auto rows = static_cast<double>(x[x.rank() - 2].value());
    const auto steps = static_cast<double>(Dim::min(x[x.rank() - 2], x[x.rank() - 1]).value());
    return {.ulps = 64 * std::sqrt(steps), .scale = 2 * std::sqrt(rows)};
  }
};

void Qr::reference(RefContext& r) const {
  const RefTensor& x = r.in(0);
  const int64_t rows = x.dims[x.dims.size() - 2];
  const int64_t columns = x.dims.back();
  const int64_t steps = std::min(rows, columns);
  for (int64_t i = 0; !x.real.empty() && i < std::ssize(x.real) / (rows * columns); ++i) {
    std::vector<double> m = matrix_of(x, i);
    std::vector<double> q(static_cast<size_t>(rows * steps));
    factor_reference(m, q, rows, columns);
    std::ranges::copy(q, r.out(0).real.begin() + i * rows * steps);
    for (int64_t row = 0; row < steps; ++row) {
      for (int64_t c = row; c < columns; ++c)
        r.out(1).real[static_cast<size_t>((i * steps + row) * columns + c)] =
            m[static_cast<size_t>(row * columns + c)];
    }
  }
}

void Qr::lower(Lowering& l) const {
  const Operand& x = l.in(0);
  if (x.view.elements() == 0) return;
  const Operand work = l.scratch(DType::f32, x.view.dims);
  lower_convert(l, x, work);
  const int64_t rows = x.view.dims[x.view.dims.size() - 2];
  const int64_t columns = x.view.dims.back();
  const int64_t steps = std::min(rows, columns);
  const int64_t count = x.view.elements() / (rows * columns);
  const Operand matrix = work.with_view(View::contiguous({count, rows, columns}));
  std::vector<Panel> panels;
  for (int64_t first = 0; first < steps; first += kWidest) {
    panels.push_back(lower_panel(l, matrix, first, steps));
    lower_reflect(l, panels.back(), transposed(panels.back().t), matrix, std::min(first + kWidest, steps));
  }
  const Operand upper = block(matrix, 0, steps, 0, columns);
  lower_triangles(l, steps < rows ? lower_contiguous(l, upper) : upper, {}, l.out(1), /*upper=*/true);

  const Operand q = output_memory(l, l.out(0));
  l.flat<kernels::identity>({.y = q}, {.rows = to_u32(rows), .columns = to_u32(steps)});
  for (auto p = panels.rbegin(); p != panels.rend(); ++p) lower_reflect(l, *p, p->t, q, p->first);
  lower_output(l, q, l.out(0));
}

}  // namespace

QrFactors qr(Value x) { return named_outputs<QrFactors>(add_node(std::make_shared<Qr>(), {x})); }

namespace ops {
void register_qr(OpTable& table) {
  table.add<Qr>(
      {.formula = "{Q, R}: x = Q R, Q with orthonormal columns, R upper triangular, signs as LAPACK has them",
       .operands = "x: matrices [.., m, n]",
       .outputs = "q: [.., m, k], orthonormal columns, where k = min(m, n)\n"
                  "r: [.., k, n], upper triangular",
       .types = "f32 f16 bf16",
       .variants = {"panels"},
       .samples = {"qr(T[3,3])", "qr(T[2,3,17,5])", "qr(T[5,17])", "qr(T[1,1])", "qr(T[3,1,1])",
                   "qr(T[0,3,3])", "qr(T[2,0,3])", "qr(T[20001,2,2])", "qr(T[70,65])"}});
}
}  // namespace ops

}  // namespace rlx
