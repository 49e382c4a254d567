#include "ops/products/panels.h"

#include <algorithm>

#include "base/checked.h"
#include "ops/products/load_strided.h"
#include "ops/rearrange/contiguous.h"

namespace rlx::products {
namespace {

// What eight lanes of a CPU read at once, four columns each.
constexpr int64_t kColumns = 32;

// b with its columns and k as one axis each, [batch.., n, k]; nothing if they are not.
std::optional<View> as_matrices(const Grouped& b) {
  const View lines = b.group(1).coalesced();
  const View depth = b.group(2).coalesced();
  if (lines.rank() != 1 || depth.rank() != 1) return std::nullopt;
  View out = b.group(0);
  out.offset = b.operand.view.offset;
  for (const View* axis : {&lines, &depth}) {
    out.dims.push_back(axis->dims[0]);
    out.strides.push_back(axis->strides[0]);
  }
  return out;
}

// The columns from `begin` on in panels of `width`, [batch.., panel, k, column].
View cut(const View& matrices, int64_t begin, int64_t length, int64_t width) {
  const int64_t columns = matrices.rank() - 2;
  View v = matrices.slice(columns, begin, length).split_axis(columns, length / width);
  std::swap(v.dims.end()[-1], v.dims.end()[-2]);
  std::swap(v.strides.end()[-1], v.strides.end()[-2]);
  return v;
}

Dims panel_dims(const View& matrices) {
  Dims dims(matrices.dims.begin(), matrices.dims.end() - 2);
  for (const int64_t length : {ceil_div(matrices.dims.end()[-2], kColumns), matrices.dims.back(), kColumns})
    dims.push_back(length);
  return dims;
}

// Panels [batch.., panel, k, column] as b. The last may have columns past the end, which are read with
// others in one piece, but not used.
Product reading(Product p, const Operand& panels) {
  View v = panels.view;
  std::swap(v.dims.end()[-1], v.dims.end()[-2]);
  std::swap(v.strides.end()[-1], v.strides.end()[-2]);
  p.b = std::make_shared<LoadStrided>(Grouped{panels.with_view(v), v.rank() - 3, 2});
  return p;
}

// Where b can be copied: its matrices.
std::optional<View> source(const Target& target, const Product& p) {
  if (!rates_of(target.caps).cpu || target.sizes_vary || p.fours) return std::nullopt;
  const Grouped* const b = p.b->whole();
  if (!b || !is_float(p.b->dtype())) return std::nullopt;
  std::optional<View> matrices = as_matrices(*b);
  if (!matrices || matrices->dims.back() != p.size.k || p.run != 0) return std::nullopt;
  // Matrices that several batches share would be copied for each.
  const auto shared = [&](size_t axis) { return matrices->strides[axis] == 0 && matrices->dims[axis] > 1; };
  for (size_t axis = 0; axis + 2 < matrices->dims.size(); ++axis) {
    if (shared(axis)) return std::nullopt;
  }
  return matrices;
}

}  // namespace

std::optional<Product> with_panels(const Target& target, const Product& p) {
  const std::optional<View> matrices = source(target, p);
  if (!matrices) return std::nullopt;
  return reading(p, {.dtype = p.b->dtype(), .view = View::contiguous(panel_dims(*matrices))});
}

double panels_ns(const Rates& r, const Product& p) {
  const Grouped& b = *p.b->whole();
  const auto whole = [](int64_t n) { return n % 4 == 0; };
  // Measured: four at a time, or one by one.
  const bool fours = whole(p.size.n) && whole(p.size.k) && (b.quads(1) || b.quads(2));
  const double elements =
      static_cast<double>(p.size.batch) * static_cast<double>(p.size.n) * static_cast<double>(p.size.k);
  return r.dispatch_ns + elements * (fours ? 1 : 4) / r.speed;
}

Product into_panels(Lowering& l, Product p) {
  const std::optional<View> matrices = source(l.target(), p);
  if (!matrices) return p;
  const Operand b = p.b->whole()->operand;
  const Operand panels = l.scratch(b.dtype, panel_dims(*matrices));
  const int64_t axis = matrices->rank() - 2;
  const int64_t n = p.size.n;
  const int64_t rest = n % kColumns;
  const auto copy = [&](const View& from, const View& to) {
    if (to.is_contiguous()) return lower_copy(l, b.with_view(from), panels.with_view(to));
    lower_copy_into(l, b.with_view(from), panels.with_view(to));
  };
  if (n > rest) copy(cut(*matrices, 0, n - rest, kColumns), panels.view.slice(axis, 0, n / kColumns));
  if (rest > 0) {
    copy(cut(*matrices, n - rest, rest, rest),
         panels.view.slice(axis, n / kColumns, 1).slice(axis + 2, 0, rest));
  }
  return reading(std::move(p), panels);
}

}  // namespace rlx::products
