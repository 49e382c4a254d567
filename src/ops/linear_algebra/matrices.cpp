#include "ops/linear_algebra/matrices.h"

#include "base/format.h"
#include "kernels/binder.h"
#include "kernels/block_product.wgsl.h"
#include "kernels/rates.h"
#include "kernels/triangle.wgsl.h"
#include "ops/elementwise/elementwise.h"
#include "ops/rearrange/contiguous.h"

namespace rlx {
namespace {

// All axes but the last `kept` as one.
Dims with_one_batch(const Dims& dims, int64_t kept) {
  const auto first = dims.end() - kept;
  Dims out = {product(Dims(dims.begin(), first))};
  for (auto d = first; d != dims.end(); ++d) out.push_back(*d);
  return out;
}

}  // namespace

void expect_matrices(const InferArgs& in, int64_t input) {
  in.expect_float(input);
  if (in.shape(input).rank() < 2)
    fail("{}: {} has the shape {}, where matrices are needed", in.op(), in.operand_name(input),
         in.shape(input).text());
}

void expect_square(const InferArgs& in, int64_t input) {
  expect_matrices(in, input);
  const Shape& x = in.shape(input);
  if (x[x.rank() - 1] != x[x.rank() - 2])
    fail("{}: the last two axes of {} are no square matrix", in.op(), x.text());
}

Shape batch_of(const Shape& matrices) {
  return Shape(std::vector<Dim>(matrices.begin(), matrices.end() - 2));
}

Shape with_axes(Shape batch, std::initializer_list<Dim> axes) {
  for (const Dim& d : axes) batch.push_back(d);
  return batch;
}

void lower_convert(Lowering& l, const Operand& x, const Operand& y) {
  lower_expr(l, Expr::parse(formatted("cast_{}($0)", to_string(y.dtype)), {x.dtype}), {x}, y);
}

Operand in_f32(Lowering& l, const Operand& x) {
  if (x.dtype == DType::f32) return x;
  const Operand copy = l.scratch(DType::f32, x.view.dims);
  lower_convert(l, x, copy);
  return copy;
}

Operand with_one_batch_axis(Lowering& l, const Operand& x, int64_t axes_of_one) {
  const Dims dims = with_one_batch(x.view.dims, axes_of_one);
  if (const std::optional<View> view = x.view.reshape(dims)) return x.with_view(*view);
  return lower_contiguous(l, x).with_view(View::contiguous(dims));
}

Operand broadcast_matrices(Lowering& l, const Operand& x, const Dims& batch, int64_t axes_of_one) {
  Dims dims = batch;
  for (auto d = x.view.dims.end() - axes_of_one; d != x.view.dims.end(); ++d) dims.push_back(*d);
  return with_one_batch_axis(l, x.with_view(x.view.broadcast_to(dims)), axes_of_one);
}

Operand output_memory(Lowering& l, const Operand& y, int64_t axes_of_one) {
  const Operand memory = y.dtype == DType::f32 ? y : l.scratch(DType::f32, y.view.dims);
  return memory.with_view(View::contiguous(with_one_batch(y.view.dims, axes_of_one)));
}

void lower_output(Lowering& l, const Operand& memory, const Operand& y) {
  if (memory.storage != y.storage) lower_convert(l, memory.with_view(View::contiguous(y.view.dims)), y);
}

Operand block(const Operand& matrices, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  return matrices.with_view(matrices.view.slice(1, row, rows).slice(2, column, columns));
}

Operand transposed(const Operand& matrices) { return matrices.with_view(matrices.view.permute({0, 2, 1})); }

namespace {

void lower_block_product(Lowering& l, const Operand& a, const Operand& b, const Operand& y, bool subtract) {
  if (y.view.elements() == 0 || a.view.elements() == 0) return;
  constexpr int64_t kTile = kernels::block_product::TILE;
  const Dims& dims = y.view.dims;
  const auto make = [&](int64_t first, int64_t count, int64_t row, int64_t rows) {
    const auto part = [&](const Operand& o, bool has_rows) {
      const View some = o.view.slice(0, first, count);
      return o.with_view(has_rows ? some.slice(1, row, rows) : some, 2);
    };
    return l.make<kernels::block_product>({.a = part(a, true), .b = part(b, false), .y = part(y, true)},
                                          {.count = to_u32(count),
                                           .rows = to_u32(rows),
                                           .columns = to_u32(dims[2]),
                                           .depth = to_u32(a.view.dims[2])},
                                          count * ceil_div(rows, kTile) * ceil_div(dims[2], kTile),
                                          {.SUBTRACT = subtract});
  };
  if (fits(make(0, 1, 0, dims[1]), l.caps())) {
    l.split(dims[0], 1, [&](int64_t first, int64_t count) { return make(first, count, 0, dims[1]); });
    return;
  }
  for (int64_t i = 0; i < dims[0]; ++i)
    l.split(dims[1], kTile, [&](int64_t row, int64_t rows) { return make(i, 1, row, rows); });
}

}  // namespace

void lower_subtract_product(Lowering& l, const Operand& a, const Operand& b, const Operand& y) {
  lower_block_product(l, a, b, y, /*subtract=*/true);
}

void lower_matrix_product(Lowering& l, const Operand& a, const Operand& b, const Operand& y) {
  lower_block_product(l, a, b, y, /*subtract=*/false);
}

void lower_triangles(Lowering& l, const Operand& x, const Operand& info, const Operand& y, bool upper) {
  l.flat<kernels::triangle>({.x = x, .info = info, .y = y.with_view(View::contiguous(x.view.dims))},
                            {.rows = to_u32(x.view.dims[1]), .columns = to_u32(x.view.dims[2])},
                            {.UPPER = upper});
}

int64_t matrix_group(const Caps& caps, int64_t rows) {
  return rates_of(caps).cpu ? 32 : rows <= 64 ? 64 : 256;
}

}  // namespace rlx
