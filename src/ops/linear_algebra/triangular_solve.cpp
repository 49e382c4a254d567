// Solving with triangular matrices: substitution in blocks of rows, between which products take the solved
// rows off the rest.
#include <algorithm>
#include <cmath>

#include "kernels/substitute.wgsl.h"
#include "ops/linear_algebra/matrices.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "rlx/ops/linear_algebra.h"

namespace rlx {
namespace {

Operand rows_first(const Operand& o) { return o.with_view(o.view, 2); }

void lower_substitute(Lowering& l, const Operand& t, const Operand& x, bool unit) {
  const int64_t rows = x.view.dims[1];
  const int64_t columns = x.view.dims[2];
  l.split(x.view.dims[0], 1, [&](int64_t begin, int64_t length) {
    const auto part = [&](const Operand& o) {
      return rows_first(o.with_view(o.view.slice(0, begin, length)));
    };
    return l.make<kernels::substitute>(
        {.t = part(t), .x = part(x)},
        {.count = to_u32(length), .rows = to_u32(rows), .columns = to_u32(columns)},
        ceil_div(length * columns, int64_t{kernels::substitute::GROUP}), {.UNIT = unit});
  });
}

Operand reversed(const Operand& o, int64_t axis) {
  const int64_t n = o.view.dims[static_cast<size_t>(axis)];
  return o.with_view(o.view.slice(axis, n - 1, n, -1));
}

struct TriangularSolve final : OpOf<TriangularSolve> {
  static constexpr auto kName = "triangular_solve";
  bool upper = false;
  bool unit = false;
  bool transposed = false;

  void visit_attributes(AttributeVisitor& v) override {
    v("upper", upper, false);
    v("unit", unit, false);
    v("transposed", transposed, false);
  }

  std::vector<TensorType> infer(const InferArgs& in) const override {
    in.expect_count(2);
    expect_square(in, 0);
    expect_matrices(in, 1);
    in.expect_same_dtype(0, 1);
    const Shape& t = in.shape(0);
    const Shape& b = in.shape(1);
    const Dim& n = t[t.rank() - 1];
    if (b[b.rank() - 2] != n)
      fail("{}: matrices {} and right-hand sides {} differ in their rows", kName, t.text(), b.text());
    return {{in.dtype(0), with_axes(broadcast(batch_of(t), batch_of(b), kName), {n, b[b.rank() - 1]})}};
  }
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
  // The error grows with the solution, which random triangles let grow without a bound: samples have small
  // elements.
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    const Shape& t = inputs[0].shape;
    const auto n = static_cast<double>(t[t.rank() - 1].value());
    return {.ulps = 64, .terms = n, .scale = 8};
  }
};

void TriangularSolve::reference(RefContext& r) const {
  RefTensor& x = r.out();
  if (x.real.empty()) return;
  const std::span<const int64_t> batch(x.dims.begin(), x.dims.end() - 2);
  const RefTensor t = broadcast_matrices(r.in(0), batch, transposed);
  x.real = broadcast_matrices(r.in(1), batch).real;
  const int64_t n = t.dims.back();
  const int64_t columns = x.dims.back();
  const auto size = static_cast<size_t>(n * columns);
  for (size_t i = 0; i < x.real.size() / size; ++i) {
    solve_triangle(matrix_of(t, static_cast<int64_t>(i)), n, std::span(x.real).subspan(i * size, size),
                   columns, {.upper = upper != transposed, .unit = unit});
  }
}

void TriangularSolve::lower(Lowering& l) const {
  const Operand& y = l.out();
  if (y.view.elements() == 0) return;
  const Operand x = output_memory(l, y);
  lower_convert(l, l.in(1), x.with_view(View::contiguous(y.view.dims)));
  const Operand t32 = in_f32(l, l.in(0));
  const Operand t = broadcast_matrices(l, t32, {y.view.dims.begin(), y.view.dims.end() - 2});
  lower_triangular_solve(l, transposed ? rlx::transposed(t) : t, x,
                         {.upper = upper != transposed, .unit = unit});
  lower_output(l, x, y);
}

}  // namespace

void lower_triangular_solve(Lowering& l, Operand t, Operand x, Triangle triangle) {
  if (x.view.elements() == 0) return;
  if (triangle.upper) {  // a lower triangle, read backwards
    t = reversed(reversed(t, 1), 2);
    x = reversed(x, 1);
  }
  const int64_t n = x.view.dims[1];
  const int64_t columns = x.view.dims[2];
  const int64_t height = n <= kWholeMatrix ? n : kMatrixBlock;
  for (int64_t first = 0; first < n; first += height) {
    const int64_t rows = std::min(height, n - first);
    const int64_t rest = n - first - rows;
    const Operand solved = block(x, first, rows, 0, columns);
    lower_substitute(l, block(t, first, rows, first, rows), solved, triangle.unit);
    lower_subtract_product(l, block(t, first + rows, rest, first, rows), solved,
                           block(x, first + rows, rest, 0, columns));
  }
}

Value triangular_solve(Value t, Value b, const TriangleOptions& options) {
  auto op = std::make_shared<TriangularSolve>();
  op->upper = options.upper;
  op->unit = options.unit;
  op->transposed = options.transposed;
  return add_node(op, {t, b});
}

namespace ops {
void register_triangular_solve(OpTable& table) {
  table.add<TriangularSolve>(
      {.formula = "x of t x = b, for the lower (or upper) triangle of t; t^T x = b if transposed",
       .operands = "t: matrices [.., n, n], of which one triangle is read\n"
                   "b: right-hand sides [.., n, k]; batches of t and b broadcast",
       .attributes = "upper: the upper triangle of t is read, instead of the lower one\n"
                     "unit: the diagonal of t counts as ones\n"
                     "transposed: t^T takes the place of t",
       .outputs = "x: [.., n, k]",
       .types = "f32 f16 bf16",
       .variants = {"substitute"},
       .samples = {"triangular_solve(T[5,5] in 1..2, T[5,3])",
                   "triangular_solve(T[3,17,17] in -0.1..0.1, T[3,17,2]) {unit=true, upper=true}",
                   "triangular_solve(T[2,1,4,4] in 1..2, T[3,4,1]) {transposed=true}",
                   "triangular_solve(T[4,4] in 1..2, T[2,4,3]) {transposed=true, upper=true}",
                   "triangular_solve(T[1,1] in 1..2, T[1,1])", "triangular_solve(T[0,0], T[0,3])",
                   "triangular_solve(T[3,3], T[0,3,2])",
                   "triangular_solve(T[40001,2,2] in 1..2, T[40001,2,1])",
                   "triangular_solve(T[97,97] in -0.05..0.05, T[97,65]) {unit=true, upper=true}"}});
}
}  // namespace ops

}  // namespace rlx
