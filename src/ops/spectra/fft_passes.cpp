// The passes of a Fourier transform over rows: how long each is, its roots and radices, and its dispatches.
#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <utility>

#include "base/checked.h"
#include "base/format.h"
#include "kernels/binder.h"
#include "kernels/fft.wgsl.h"
#include "ops/machinery/rows.h"
#include "ops/spectra/complex_views.h"
#include "ops/spectra/fft_transform.h"

namespace rlx {
namespace {

// Columns side by side that make reads and writes of several passes worth a memory transaction. A CPU has
// caches for that, and fewer, longer passes cost it less.
int64_t side_by_side(const Caps& caps) { return caps.software() ? 2 : 8; }

int64_t fft_tile(const Caps& caps) {
  const uint64_t most = std::bit_floor(uint64_t{caps.max_workgroup_bytes} / (4 * sizeof(float)));
  return std::clamp<int64_t>(static_cast<int64_t>(most), 256, 2048);
}

// The roots of `length`, then low and high ones for all of before * length.
ComplexList roots_of(const FftPass& pass, bool inverse) {
  ComplexList roots;
  for (int64_t t = 0; t < pass.length; ++t) roots.push_back(unit_root(t, pass.length));
  if (pass.before > 1) {
    const int64_t all = pass.before * pass.length;
    const int64_t low = pass.low_roots();
    for (int64_t t = 0; t < low; ++t) roots.push_back(unit_root(t, all));
    for (int64_t t = 0; t < all; t += low) roots.push_back(unit_root(t, all));
  }
  return inverse ? conjugates(std::move(roots)) : roots;
}

void set_radices(kernels::fft::Params& params, int64_t length, bool sixteen) {
  const auto add = [&](int64_t radix) { params.radices[params.steps++] = to_u32(radix); };
  for (; sixteen && length % 16 == 0; length /= 16) add(16);
  for (; length % 4 == 0; length /= 4) add(4);
  for (const int64_t factor : prime_factors(length)) add(factor);
}

// Whether neighbouring rows are nearer to each other than neighbours in a row.
bool rows_are_near(const Operand& rows) {
  const View inner = rows.view.slice_axes(rows.outer_rank, rows.view.rank()).coalesced();
  const View outer = rows.view.slice_axes(0, rows.outer_rank).coalesced();
  return inner.rank() > 0 && outer.rank() > 0 && std::abs(inner.strides[0]) > std::abs(outer.strides.back());
}

}  // namespace

int64_t FftTransform::rows() const { return row_count(y); }
std::string FftTransform::key() const {
  return formatted("{} rows{} n {}", to_string(x.dtype), size_class(rows()), n);
}

int64_t FftPass::low_roots() const {
  const auto root = static_cast<uint64_t>(std::ceil(std::sqrt(static_cast<double>(before * length))));
  return static_cast<int64_t>(std::bit_ceil(root));
}

std::vector<FftPass> fft_passes(int64_t n, const Caps& caps) {
  const int64_t tile = fft_tile(caps);
  if (n <= tile) return {{n, 1}};
  std::vector<int64_t> factors = prime_factors(n);
  std::ranges::reverse(factors);
  std::vector<int64_t> lengths;
  for (const int64_t factor : factors) {
    const auto room =
        std::ranges::find_if(lengths, [&](int64_t a) { return a * factor <= tile / side_by_side(caps); });
    if (room == lengths.end()) {
      lengths.push_back(factor);
    } else {
      *room *= factor;
    }
  }
  std::vector<FftPass> passes;
  int64_t before = 1;
  for (const int64_t length : lengths) {
    passes.push_back({length, before});
    before *= length;
  }
  return passes;
}

Operand complex_table(Lowering& l, const ComplexList& values) {
  std::vector<float> floats;
  floats.reserve(2 * values.size());
  for (const std::complex<double>& v : values) {
    floats.push_back(static_cast<float>(v.real()));
    floats.push_back(static_cast<float>(v.imag()));
  }
  return l.table(Tensor::of({std::ssize(floats)}, floats));
}

FftLowering::FftLowering(Lowering& l, FftTransform t)
    : l_(l), t_(std::move(t)), tile_(fft_tile(l.caps())), passes_(fft_passes(t_.n, l.caps())) {}

void FftLowering::run() {
  for (const FftPass& pass : passes_) roots_.push_back(complex_table(l_, roots_of(pass, t_.inverse)));
  for (size_t i = 0; i < std::min<size_t>(2, passes_.size() - 1); ++i) between_.push_back(spectra());
  std::vector<FftTransform> steps;
  for (size_t i = 0; i < passes_.size(); ++i) {
    const bool last = i + 1 == passes_.size();
    steps.push_back(step(i, i == 0 ? t_.x : between_[(i - 1) % 2], last ? t_.y : between_[i % 2]));
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!fits(rows_of(steps[i], i, 0, 1), l_.caps())) return run_staged();
  }
  for (size_t i = 0; i < steps.size(); ++i) run_rows(steps[i], i);
}

Operand FftLowering::spectra() {
  const Operand s = l_.scratch(DType::c64, {t_.rows(), t_.n});
  return s.with_view(s.view, 1);
}

FftTransform FftLowering::step(size_t i, const Operand& x, const Operand& y) const {
  const bool first = i == 0;
  const bool last = i + 1 == passes_.size();
  return {.x = x,
          .y = y,
          .n = t_.n,
          .signal = first ? t_.signal : t_.n,
          .mirror = first && t_.mirror,
          .packed = first && t_.packed,
          .pairs_out = last && t_.pairs_out,
          .inverse = t_.inverse,
          .scale = last ? t_.scale : 1,
          .pre = first ? t_.pre : Operand{},
          .post = last ? t_.post : Operand{}};
}

Dispatch FftLowering::make(const FftTransform& t, size_t i, int64_t first_row, int64_t rows,
                           const Block* block) const {
  const FftPass& pass = passes_[i];
  const int64_t row_columns = t.n / pass.length;
  const bool several = row_columns > 1;
  const int64_t count = block ? block->count : several ? row_columns : rows;
  const bool powers = std::has_single_bit(static_cast<uint64_t>(t.n));
  int64_t columns = std::min(count, std::max<int64_t>(1, tile_ / pass.length));
  if (powers) columns = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(columns)));
  kernels::fft::Params params{.first = to_u32(first_row),
                              .end = to_u32(first_row + rows),
                              .signal = to_u32(t.signal),
                              .length = to_u32(pass.length),
                              .row_columns = to_u32(row_columns),
                              .columns = to_u32(columns),
                              .before = to_u32(pass.before),
                              .first_column = to_u32(block ? block->first : 0),
                              .block = to_u32(block ? block->count : 0),
                              .x_length = to_u32(block ? t.n : t.x.view.dims.back()),
                              .y_length = to_u32(block ? t.n : t.y.view.dims.back()),
                              .low_roots = to_u32(pass.low_roots()),
                              .scale = static_cast<float>(t.scale),
                              .turn = t.inverse ? 1.0F : -1.0F,
                              .steps = 0,
                              .radices = {}};
  set_radices(params, pass.length, powers);
  // The lanes of a CPU take turns between barriers.
  const auto work =
      static_cast<uint64_t>(ceil_div(columns * pass.length, powers && pass.length >= 16 ? 16 : 4));
  const uint64_t group = std::clamp<uint64_t>(std::bit_ceil(work), 32, l_.caps().software() ? 64 : 256);
  return l_.make<kernels::fft>(
      {.x = as_floats(t.x), .roots = roots_[i], .pre = t.pre, .post = t.post, .y = as_floats(t.y)}, params,
      (several ? rows : 1) * ceil_div(count, columns),
      {.GROUP = static_cast<uint32_t>(group),
       .TILE = to_u32(tile_),
       .COMPLEX_IN = t.x.dtype == DType::c64,
       .MIRROR = t.mirror,
       .REAL_OUT = t.y.dtype != DType::c64,
       .READ_ACROSS = several || rows_are_near(t.x),
       .WRITE_ACROSS = pass.before > 1 || (!several && rows_are_near(t.y)),
       .BLOCK = block != nullptr,
       .PACKED = t.packed,
       .PAIRS_OUT = t.pairs_out,
       .POWERS = powers});
}

Dispatch FftLowering::rows_of(const FftTransform& t, size_t i, int64_t begin, int64_t rows) const {
  Dispatch d = make(t, i, begin, rows, nullptr);
  if (rows == t.rows()) return d;
  for (Operand& o : d.operands) {
    if (o.present() && o.outer_rank > 0) o.window = rows_window(o, begin, rows);
  }
  return d;
}

void FftLowering::run_rows(const FftTransform& t, size_t i) {
  l_.split(t.rows(), 1, [&](int64_t begin, int64_t length) { return rows_of(t, i, begin, length); });
}

}  // namespace rlx
