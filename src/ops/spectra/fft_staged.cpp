// Fourier transforms of rows that are too large for all bindings, or spread over too much memory: each pass
// takes blocks of columns that are gathered and put back by copies.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels/binder.h"
#include "ops/elementwise/elementwise.h"
#include "ops/machinery/fill.h"
#include "ops/rearrange/contiguous.h"
#include "ops/spectra/complex_views.h"
#include "ops/spectra/fft_transform.h"

namespace rlx {

void FftLowering::run_staged() {
  Operand x = dense_input();
  for (size_t i = 0; i < passes_.size(); ++i) {
    FftTransform t{.x = x, .y = spectra(), .n = t_.n, .signal = t_.n, .inverse = t_.inverse};
    if (i + 1 == passes_.size()) t.scale = t_.scale;
    if (fits(rows_of(t, i, 0, 1), l_.caps())) {
      run_rows(t, i);
    } else {
      run_blocks(t, i);
    }
    x = t.y;
  }
  if (t_.post.present()) x = multiplied(x, t_.post);
  store(x);
}

Operand FftLowering::dense_input() {
  Operand z = spectra();
  lower_fill(l_, as_floats(z), 0);
  const int64_t length = t_.x.view.dims.back();
  const bool is_complex = t_.x.dtype == DType::c64;
  Operand from = is_complex ? as_floats(t_.x) : t_.x;
  if (!is_complex) {
    from.view.dims.push_back(1);
    from.view.strides.push_back(1);
  }
  const Operand floats = l_.scratch(DType::f32, from.view.dims);
  lower_expr(l_, Expr::parse("cast_f32($0)", {from.dtype}), {from}, floats);
  const int64_t parts = is_complex ? 2 : 1;
  if (t_.packed) {
    const View pairs = View::contiguous({t_.rows(), 2 * t_.n});
    lower_copy_into(l_, floats.with_view(View::contiguous({t_.rows(), length})),
                    as_floats(z).with_view(pairs.slice(1, 0, length)));
    return z;
  }
  const Operand rows = floats.with_view(View::contiguous({t_.rows(), length, parts}));
  // Elements from `begin` on to `to`, `sign` apart; a part of them.
  const auto copy = [&](const Operand& source, int64_t part, int64_t begin, int64_t count, int64_t to,
                        int64_t sign) {
    if (count <= 0) return;
    const View at = as_floats(z).view.slice(2, part, 1);
    lower_copy_into(l_, source.with_view(source.view.slice(2, part, 1).slice(1, begin, count)),
                    as_floats(z).with_view(at.slice(1, to, count, sign)));
  };
  if (!t_.mirror) {
    for (int64_t part = 0; part < parts; ++part) copy(rows, part, 0, length, 0, 1);
  } else {
    // Bins that are their own mirror images have no imaginary part.
    const int64_t inner = std::min(length - 1, (t_.signal - 1) / 2);
    const Operand opposite = l_.scratch(DType::f32, rows.view.dims);
    lower_expr(l_, Expr::parse("neg($0)", {DType::f32}), {rows}, opposite);
    copy(rows, 0, 0, length, 0, 1);
    copy(rows, 1, 1, inner, 1, 1);
    copy(rows, 0, 1, inner, t_.signal - 1, -1);
    copy(opposite, 1, 1, inner, t_.signal - 1, -1);
  }
  return t_.pre.present() ? multiplied(z, t_.pre) : z;
}

Operand FftLowering::multiplied(const Operand& x, Operand table) {
  const int64_t length = table.view.elements() / 2;
  table.dtype = DType::c64;
  table.view = View::contiguous({length});
  const Operand y = spectra();
  if (length < t_.n) lower_fill(l_, as_floats(y), 0);
  for (int64_t row = 0; row < t_.rows(); ++row) {
    const auto part = [&](const Operand& o) {
      Operand out = o.with_view(o.view.slice(0, row, 1).slice(1, 0, length));
      out.view = *out.view.reshape({length});
      return out;
    };
    lower_expr(l_, Expr::parse("mul($0,$1)", {DType::c64, DType::c64}), {part(x), table}, part(y));
  }
  return y;
}

void FftLowering::store(const Operand& x) {
  if (t_.pairs_out) {
    const View all = *View::contiguous({t_.rows(), 2 * t_.n}).reshape(t_.y.view.dims);
    return lower_copy_into(l_, as_floats(x).with_view(all), t_.y.with_view(t_.y.view));
  }
  Operand from = as_floats(x);
  Operand to = as_floats(t_.y);
  if (t_.y.dtype != DType::c64) {
    from.view = from.view.slice(2, 0, 1);
    to.view.dims.push_back(1);
    to.view.strides.push_back(1);
  }
  from.view = *from.view.slice(1, 0, t_.y.view.dims.back()).reshape(to.view.dims);
  from.outer_rank = to.outer_rank = 0;
  lower_copy_into(l_, from, to);
}

void FftLowering::run_blocks(const FftTransform& t, size_t i) {
  const FftPass& pass = passes_[i];
  const int64_t row_columns = t.n / pass.length;
  const auto most = static_cast<int64_t>(l_.caps().max_binding_bytes) / 2;
  int64_t width = std::max<int64_t>(1, most / (2 * int64_t{sizeof(float)} * pass.length));
  if (width > pass.before) width -= width % pass.before;
  const Operand gathered = l_.scratch(DType::c64, {pass.length, width});
  const Operand made = l_.scratch(DType::c64, {pass.length, width});
  for (int64_t row = 0; row < t.rows(); ++row) {
    for (int64_t first = 0; first < row_columns;) {
      // A block is a part of the results before, or several of them.
      const int64_t left = width < pass.before ? pass.before - first % pass.before : row_columns - first;
      const Block block{first, std::min({width, left, row_columns - first})};
      run_block(t, i, row, block, gathered, made);
      first += block.count;
    }
  }
}

void FftLowering::run_block(const FftTransform& t, size_t i, int64_t row, const Block& block,
                            const Operand& gathered, const Operand& made) {
  const FftPass& pass = passes_[i];
  const auto row_as = [&](const Operand& o, Dims dims) {
    View view = View::contiguous(std::move(dims));
    view.offset = o.view.offset + row * t.n;
    return o.with_view(view);
  };
  Operand x = row_as(t.x, {pass.length, t.n / pass.length});
  x.view = x.view.slice(1, block.first, block.count);
  const Dims dims = {pass.length, block.count};
  lower_copy(l_, x, gathered.with_view(View::contiguous(dims)));
  FftTransform part = t;
  part.x = gathered.with_view(View::contiguous({1, pass.length * block.count}), 1);
  part.y = made.with_view(View::contiguous({1, pass.length * block.count}), 1);
  l_.emit(make(part, i, 0, 1, &block));
  Operand y = row_as(t.y, {t.n / (pass.before * pass.length), pass.length, pass.before});
  const int64_t width = std::min(block.count, pass.before);
  y.view = y.view.slice(0, block.first / pass.before, block.count / width)
               .slice(2, block.first % pass.before, width);
  const View from = View::contiguous({pass.length, block.count / width, width}).permute({1, 0, 2});
  lower_copy_into(l_, made.with_view(from), y);
}

}  // namespace rlx
