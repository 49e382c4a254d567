// Discrete Fourier transforms. Lengths with small prime factors take one pass in workgroup memory, or several
// through scratch memory; all others become a convolution with a chirp (Bluestein), of a length that is a
// power of two. An even number of floats that takes several passes is transformed as half as many complex
// numbers.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "base/format.h"
#include "ir/reference.h"
#include "kernels/binder.h"
#include "kernels/fft.wgsl.h"
#include "kernels/fft_pack.wgsl.h"
#include "kernels/fft_unpack.wgsl.h"
#include "kernels/rates.h"
#include "ops/copy.h"
#include "ops/dft.h"
#include "ops/elementwise.h"
#include "ops/fill.h"
#include "ops/op_table.h"
#include "ops/rows.h"
#include "rlx/ops/spectra.h"

namespace rlx {
namespace {

using Kernel = kernels::fft;

// Beyond that a chirp is faster than sums of so many products.
constexpr int64_t kLargestPrime = 61;
// Columns side by side that make reads and writes of several passes worth a memory transaction. A CPU has
// caches for that, and fewer, longer passes cost it less.
int64_t side_by_side(const Caps& caps) { return caps.software() ? 2 : 8; }

bool is_smooth(int64_t n) {
  const std::vector<int64_t> factors = prime_factors(n);
  return factors.empty() || factors.back() <= kLargestPrime;
}

// c64 as two f32 side by side, with the same rows.
Operand as_floats(const Operand& x) {
  if (x.dtype != DType::c64) return x;
  Operand out = x;
  out.dtype = DType::f32;
  for (int64_t& stride : out.view.strides) stride *= 2;
  out.view.offset *= 2;
  out.view.dims.push_back(2);
  out.view.strides.push_back(1);
  return out;
}

Operand table_of(Lowering& l, const ComplexList& values) {
  std::vector<float> floats;
  floats.reserve(2 * values.size());
  for (const std::complex<double>& v : values) {
    floats.push_back(static_cast<float>(v.real()));
    floats.push_back(static_cast<float>(v.imag()));
  }
  return l.table(Tensor::of({std::ssize(floats)}, floats));
}

// A transform of rows: what is read, what is written, and what is done on the way.
struct Transform {
  Operand x;            // rows of floats or c64
  Operand y;            // rows of c64, or of f32 for the real parts only; the first of n
  int64_t n = 1;        // elements that are transformed
  int64_t signal = 1;   // how many of these x stands for; the others are zero
  bool mirror = false;  // x has the bins 0 .. signal / 2 of the spectrum of floats
  // Pairs of neighbouring floats of x, or of y, are real and imaginary parts.
  bool packed = false, pairs_out = false;
  bool inverse = false;
  double scale = 1;
  Operand pre, post;  // tables of pairs that multiply x and y, for each element of a row; may be absent

  int64_t rows() const { return row_count(y); }
  std::string key() const { return formatted("{} rows{} n {}", to_string(x.dtype), size_class(rows()), n); }
};

// The length of one pass over the rows, and the product of those before it.
struct Pass {
  int64_t length = 1, before = 1;

  // The roots of all before * length are products of one of so many low ones and of a high one.
  int64_t low_roots() const {
    const auto root = static_cast<uint64_t>(std::ceil(std::sqrt(static_cast<double>(before * length))));
    return static_cast<int64_t>(std::bit_ceil(root));
  }
};

int64_t tile_of(const Caps& caps) {
  const uint64_t most = std::bit_floor(uint64_t{caps.max_workgroup_bytes} / (4 * sizeof(float)));
  return std::clamp<int64_t>(static_cast<int64_t>(most), 256, 2048);
}

std::vector<Pass> passes_of(int64_t n, const Caps& caps) {
  const int64_t tile = tile_of(caps);
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
  std::vector<Pass> passes;
  int64_t before = 1;
  for (const int64_t length : lengths) {
    passes.push_back({length, before});
    before *= length;
  }
  return passes;
}

// The roots of `length`, then low and high ones for all of before * length.
ComplexList roots_of(const Pass& pass, bool inverse) {
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

void set_radices(Kernel::Params& params, int64_t length, bool sixteen) {
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

// Some columns of one row that lie in memory of their own, [length, count].
struct Block {
  int64_t first = 0, count = 0;
};

class FftLowering {
 public:
  FftLowering(Lowering& l, Transform t)
      : l_(l), t_(std::move(t)), tile_(tile_of(l.caps())), passes_(passes_of(t_.n, l.caps())) {}

  void run() {
    for (const Pass& pass : passes_) roots_.push_back(table_of(l_, roots_of(pass, t_.inverse)));
    for (size_t i = 0; i < std::min<size_t>(2, passes_.size() - 1); ++i) between_.push_back(spectra());
    std::vector<Transform> steps;
    for (size_t i = 0; i < passes_.size(); ++i) {
      const bool last = i + 1 == passes_.size();
      steps.push_back(step(i, i == 0 ? t_.x : between_[(i - 1) % 2], last ? t_.y : between_[i % 2]));
    }
    for (size_t i = 0; i < steps.size(); ++i) {
      if (!fits(rows_of(steps[i], i, 0, 1), l_.caps())) return run_staged();
    }
    for (size_t i = 0; i < steps.size(); ++i) run_rows(steps[i], i);
  }

 private:
  // Rows of n in scratch memory.
  Operand spectra() {
    const Operand s = l_.scratch(DType::c64, {t_.rows(), t_.n});
    return s.with_view(s.view, 1);
  }

  // One pass, with what is done to x before the first and to y after the last.
  Transform step(size_t i, const Operand& x, const Operand& y) const {
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

  Dispatch make(const Transform& t, size_t i, int64_t first_row, int64_t rows, const Block* block) const {
    const Pass& pass = passes_[i];
    const int64_t row_columns = t.n / pass.length;
    const bool several = row_columns > 1;
    const int64_t count = block ? block->count : several ? row_columns : rows;
    const bool powers = std::has_single_bit(static_cast<uint64_t>(t.n));
    int64_t columns = std::min(count, std::max<int64_t>(1, tile_ / pass.length));
    if (powers) columns = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(columns)));
    Kernel::Params params{.first = to_u32(first_row),
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
    return l_.make<Kernel>(
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

  Dispatch rows_of(const Transform& t, size_t i, int64_t begin, int64_t rows) const {
    Dispatch d = make(t, i, begin, rows, nullptr);
    if (rows == t.rows()) return d;
    for (Operand& o : d.operands) {
      if (o.present() && o.outer_rank > 0) o.window = rows_window(o, begin, rows);
    }
    return d;
  }

  void run_rows(const Transform& t, size_t i) {
    l_.split(t.rows(), 1, [&](int64_t begin, int64_t length) { return rows_of(t, i, begin, length); });
  }

  // --- Rows that are too large for all bindings, or spread over too much memory ---

  void run_staged() {
    Operand x = dense_input();
    for (size_t i = 0; i < passes_.size(); ++i) {
      Transform t{.x = x, .y = spectra(), .n = t_.n, .signal = t_.n, .inverse = t_.inverse};
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

  // x as it would be read, c64[rows, n].
  Operand dense_input() {
    const Operand z = spectra();
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

  // Times a table of pairs, of which the last ones may be missing where x is zero.
  Operand multiplied(const Operand& x, Operand table) {
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

  // What is wanted of the results.
  void store(const Operand& x) {
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

  // One block of columns of a row after the other, gathered and put back by copies, which can be cut
  // anywhere.
  void run_blocks(const Transform& t, size_t i) {
    const Pass& pass = passes_[i];
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

  void run_block(const Transform& t, size_t i, int64_t row, const Block& block, const Operand& gathered,
                 const Operand& made) {
    const Pass& pass = passes_[i];
    const auto row_as = [&](const Operand& o, Dims dims) {
      View view = View::contiguous(std::move(dims));
      view.offset = o.view.offset + row * t.n;
      return o.with_view(view);
    };
    Operand x = row_as(t.x, {pass.length, t.n / pass.length});
    x.view = x.view.slice(1, block.first, block.count);
    const Dims dims = {pass.length, block.count};
    lower_copy(l_, x, gathered.with_view(View::contiguous(dims)));
    Transform part = t;
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

  Lowering& l_;
  Transform t_;
  int64_t tile_;
  std::vector<Pass> passes_;
  std::vector<Operand> roots_;    // of each pass
  std::vector<Operand> between_;  // where passes leave what others read
};

// --- Kinds of kernels ---

using FftVariant = Variant<Transform, bool>;

double moved_ns(const Target& target, const Transform& t, int64_t n) {
  const Rates r = rates_of(target.caps);
  const auto passes = static_cast<double>(passes_of(n, target.caps).size());
  const auto elements = static_cast<double>(t.rows() * n);
  return passes * (r.dispatch_ns + elements * 16 / r.bytes_per_ns);
}

int64_t chirp_length(int64_t n) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(2 * n - 1)));
}

// X[k] = w[k] sum over t of (x[t] w[t]) conj(w[k - t]), w[t] = exp(-pi i t^2 / n): a convolution.
bool run_chirp(Lowering& l, const Transform& t, const Candidate&) {
  const int64_t n = t.n;
  const int64_t m = chirp_length(n);
  ComplexList w, kernel(static_cast<size_t>(m));
  for (int64_t i = 0; i < n; ++i) {
    w.push_back(t.inverse ? std::conj(chirp(i, n)) : chirp(i, n));
    kernel[static_cast<size_t>(i)] = kernel[static_cast<size_t>((m - i) % m)] = std::conj(w.back());
  }
  kernel = dft(kernel, false);
  for (std::complex<double>& v : kernel) v /= static_cast<double>(m);
  const Operand factors = table_of(l, w);
  Operand products = l.scratch(DType::c64, {t.rows(), m});
  products.outer_rank = 1;
  FftLowering(l, {.x = t.x,
                  .y = products,
                  .n = m,
                  .signal = n,
                  .mirror = t.mirror,
                  .pre = factors,
                  .post = table_of(l, kernel)})
      .run();
  FftLowering(
      l, {.x = products, .y = t.y, .n = m, .signal = m, .inverse = true, .scale = t.scale, .post = factors})
      .run();
  return true;
}

// Floats in, or floats out.
bool is_packable(const Target&, const Transform& t) {
  const bool forward = t.x.dtype != DType::c64 && t.y.dtype == DType::c64;
  return t.n % 2 == 0 && is_smooth(t.n) && (forward || t.mirror);
}

// Low and high roots of n, up to half a turn.
Operand half_roots(Lowering& l, int64_t n, int64_t low) {
  ComplexList roots;
  for (int64_t i = 0; i < low; ++i) roots.push_back(unit_root(i, n));
  for (int64_t i = 0; i <= n / 2; i += low) roots.push_back(unit_root(i, n));
  return table_of(l, roots);
}

// The spectra of floats from those of pairs of them. In the other direction they are the conjugates.
Dispatch make_unpack(Lowering& l, const Transform& t, const Operand& halves) {
  using Unpack = kernels::fft_unpack;
  const int64_t low = Pass{.length = t.n}.low_roots();
  const int64_t bins = t.y.view.dims.back();
  return l.make<Unpack>({.z = as_floats(halves), .roots = half_roots(l, t.n, low), .y = as_floats(t.y)},
                        {.count = to_u32(t.rows() * bins),
                         .m = to_u32(t.n / 2),
                         .y_length = to_u32(bins),
                         .low_roots = to_u32(low),
                         .scale = static_cast<float>(t.scale),
                         .turn = t.inverse ? -1.0F : 1.0F},
                        ceil_div(t.rows() * bins, int64_t{Unpack::GROUP}));
}

// And back.
Dispatch make_pack(Lowering& l, const Transform& t, const Operand& halves) {
  using Pack = kernels::fft_pack;
  const int64_t low = Pass{.length = t.n}.low_roots();
  const int64_t count = t.rows() * (t.n / 2);
  return l.make<Pack>({.x = as_floats(t.x), .roots = half_roots(l, t.n, low), .z = as_floats(halves)},
                      {.count = to_u32(count),
                       .m = to_u32(t.n / 2),
                       .x_length = to_u32(t.x.view.dims.back()),
                       .low_roots = to_u32(low)},
                      ceil_div(count, int64_t{Pack::GROUP}));
}

bool run_packed(Lowering& l, const Transform& t, const Candidate&) {
  const int64_t m = t.n / 2;
  const Operand halves = l.scratch(DType::c64, {t.rows(), m});
  const Operand rows = halves.with_view(halves.view, 1);
  const Dispatch step = t.mirror ? make_pack(l, t, halves) : make_unpack(l, t, halves);
  if (!fits(step, l.caps())) {  // what is so large takes a little longer
    FftLowering(l, t).run();
  } else if (t.mirror) {
    l.emit(step);
    FftLowering(
        l, {.x = rows, .y = t.y, .n = m, .signal = m, .pairs_out = true, .inverse = true, .scale = t.scale})
        .run();
  } else {
    FftLowering(l, {.x = t.x, .y = rows, .n = m, .signal = m, .packed = true}).run();
    l.emit(step);
  }
  return true;
}

constexpr FftVariant kVariants[] = {
    {"packed", is_packable,
     [](const Target& target, const Transform& t) {
       const Rates r = rates_of(target.caps);
       const auto elements = static_cast<double>(t.rows() * t.n);
       return one_candidate(moved_ns(target, t, t.n / 2) + r.dispatch_ns + elements * 8 / r.bytes_per_ns);
     },
     run_packed},
    {"stockham", [](const Target&, const Transform& t) { return is_smooth(t.n); },
     [](const Target& target, const Transform& t) { return one_candidate(moved_ns(target, t, t.n)); },
     [](Lowering& l, const Transform& t, const Candidate&) {
       FftLowering(l, t).run();
       return true;
     }},
    {"chirp", always,
     [](const Target& target, const Transform& t) {
       return one_candidate(2 * moved_ns(target, t, chirp_length(t.n)));
     },
     run_chirp},
};

// --- The ops ---

// Attributes that both have.
struct Common {
  int64_t axis = -1;
  int64_t n = 0;
  FftNorm norm = FftNorm::backward;

  void visit(AttributeVisitor& v) {
    v("axis", axis, -1);
    v("n", n, 0);
    v.choice("norm", norm, {"backward", "ortho", "forward"}, std::optional(FftNorm::backward));
  }
  double factor(int64_t length, bool inverse) const {
    if (norm == FftNorm::ortho) return 1 / std::sqrt(static_cast<double>(length));
    return (norm == FftNorm::backward) == inverse ? 1 / static_cast<double>(length) : 1;
  }
  // Errors are relative to the root of the sum of the squares of x, and grow with the number of steps; the
  // three transforms of a chirp are of up to four times the length. Values of x are below 2 in the sweep.
  Tolerance tolerance(int64_t length, bool inverse) const {
    const auto size = static_cast<double>(length);
    return {.ulps = 8 + 4 * std::log2(size), .scale = 4 * std::sqrt(size) * factor(length, inverse)};
  }
};

int64_t known_length(const InferArgs& in, int64_t axis) {
  const Dim& length = in.shape(0)[axis];
  if (!length.is_static())
    fail("{}: axis {} of {} must have a known length, or n must be given", in.op(), axis, in.shape(0).text());
  return length.value();
}

void check_length(const InferArgs& in, int64_t n) {
  if (n < 1)
    fail("{}: {} elements of {} cannot be transformed; there must be at least 1", in.op(), n,
         in.shape(0).text());
  if (n > int64_t{1} << 30)
    fail("{}: {} elements are too many; there can be {}", in.op(), n, int64_t{1} << 30);
}

// The first elements of rows.
Operand first_of(const Operand& rows, int64_t count) {
  const int64_t last = rows.view.rank() - 1;
  return rows.with_view(rows.view.slice(last, 0, std::min(count, rows.view.dims.back())), rows.outer_rank);
}

void lower_transform(Lowering& l, std::string_view op, int64_t axis, Transform t) {
  if (l.out().view.elements() == 0) return;
  if (l.in(0).view.elements() == 0) return lower_fill(l, l.out(), 0);
  const int64_t at = normal_axis(axis, l.out().view.rank());
  t.signal = t.n;
  t.x = first_of(as_rows(l.in(0), {at}), t.mirror ? t.n / 2 + 1 : t.n);
  t.y = as_rows(l.out(), {at});
  l.choose(op, kVariants, t).make(l, t);
}

// Calls f(row of x, row of y) for all rows along the axis.
template <class From, class To, class F>
void for_each_row(const std::vector<From>& x, int64_t x_length, std::vector<To>& y,
                  const std::vector<int64_t>& dims, int64_t axis, F&& f) {
  const auto at = static_cast<size_t>(normal_axis(axis, std::ssize(dims)));
  const int64_t y_length = dims[at];
  int64_t inner = 1;
  for (size_t i = at + 1; i < dims.size(); ++i) inner *= dims[i];
  if (y.empty()) return;
  const int64_t rows = std::ssize(y) / y_length;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t outer = row / inner;
    ComplexList from;
    for (int64_t i = 0; i < x_length; ++i)
      from.emplace_back(x[static_cast<size_t>((outer * x_length + i) * inner + row % inner)]);
    const std::vector<To> to = f(std::move(from));
    for (int64_t i = 0; i < y_length; ++i)
      y[static_cast<size_t>((outer * y_length + i) * inner + row % inner)] = to[static_cast<size_t>(i)];
  }
}

struct Fft final : OpOf<Fft> {
  static constexpr auto kName = "fft";
  Common o;
  bool inverse = false;
  bool onesided = false;

  void visit_attributes(AttributeVisitor& v) override {
    o.visit(v);
    v("inverse", inverse, false);
    v("onesided", onesided, false);
  }
  std::vector<TensorType> infer(const InferArgs& in) const override {
    in.expect_count(1);
    in.expect_dtype(0, is_float(in.dtype(0)) || in.dtype(0) == DType::c64, "a float type or c64");
    Shape shape = in.shape(0);
    const int64_t axis = in.axis(o.axis, shape.rank());
    if (o.n == 0 && !onesided && !shape[axis].is_static()) return {TensorType{DType::c64, shape}};
    const int64_t length = o.n != 0 ? o.n : known_length(in, axis);
    check_length(in, length);
    shape[axis] = onesided ? length / 2 + 1 : length;
    return {TensorType{DType::c64, shape}};
  }
  void reference(RefContext& r) const override {
    const RefTensor& x = r.in(0);
    const int64_t had = x.dims[static_cast<size_t>(normal_axis(o.axis, std::ssize(x.dims)))];
    const int64_t length = o.n != 0 ? o.n : had;
    const auto transformed = [&](ComplexList row) {
      row.resize(static_cast<size_t>(length));
      row = dft(row, inverse);
      for (std::complex<double>& v : row) v *= o.factor(length, inverse);
      return row;
    };
    RefTensor& y = r.out();
    if (x.dtype == DType::c64) {
      for_each_row(x.complex, had, y.complex, y.dims, o.axis, transformed);
    } else {
      for_each_row(x.real, had, y.complex, y.dims, o.axis, transformed);
    }
  }
  void lower(Lowering& l) const override {
    const Dims& dims = l.in(0).view.dims;
    const int64_t length = o.n != 0 ? o.n : dims[static_cast<size_t>(normal_axis(o.axis, std::ssize(dims)))];
    if (length == 0) return;
    lower_transform(l, kName, o.axis, {.n = length, .inverse = inverse, .scale = o.factor(length, inverse)});
  }
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    const Shape& x = inputs[0].shape;
    return o.tolerance(o.n != 0 ? o.n : std::max<int64_t>(1, x[normal_axis(o.axis, x.rank())].value()),
                       inverse);
  }
};

struct Irfft final : OpOf<Irfft> {
  static constexpr auto kName = "irfft";
  Common o;

  void visit_attributes(AttributeVisitor& v) override { o.visit(v); }
  std::vector<TensorType> infer(const InferArgs& in) const override {
    in.expect_count(1);
    in.expect_dtype(0, in.dtype(0) == DType::c64, "c64");
    Shape shape = in.shape(0);
    const int64_t axis = in.axis(o.axis, shape.rank());
    const int64_t length = o.n != 0 ? o.n : 2 * (known_length(in, axis) - 1);
    check_length(in, length);
    shape[axis] = length;
    return {TensorType{DType::f32, shape}};
  }
  void reference(RefContext& r) const override {
    RefTensor& y = r.out();
    const auto at = static_cast<size_t>(normal_axis(o.axis, std::ssize(y.dims)));
    const auto length = static_cast<size_t>(y.dims[at]);
    for_each_row(r.in(0).complex, r.in(0).dims[at], y.real, y.dims, o.axis, [&](ComplexList row) {
      row.resize(length / 2 + 1);
      row.resize(length);
      row[0] = row[0].real();
      if (length % 2 == 0) row[length / 2] = row[length / 2].real();
      for (size_t i = length / 2 + 1; i < length; ++i) row[i] = std::conj(row[length - i]);
      std::vector<double> out;
      for (const std::complex<double>& v : dft(row, true))
        out.push_back(v.real() * o.factor(static_cast<int64_t>(length), true));
      return out;
    });
  }
  void lower(Lowering& l) const override {
    const Dims& dims = l.out().view.dims;
    const int64_t length = dims[static_cast<size_t>(normal_axis(o.axis, std::ssize(dims)))];
    lower_transform(l, kName, o.axis,
                    {.n = length, .mirror = true, .inverse = true, .scale = o.factor(length, true)});
  }
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    const Shape& x = inputs[0].shape;
    return o.tolerance(o.n != 0 ? o.n : 2 * (x[normal_axis(o.axis, x.rank())].value() - 1), true);
  }
};

Value add_fft(const Value& x, const FftOptions& options, bool inverse, bool onesided) {
  auto op = std::make_shared<Fft>();
  op->o = {.axis = options.axis, .n = options.n, .norm = options.norm};
  op->inverse = inverse;
  op->onesided = onesided;
  return x.graph().add_value(op, {x});
}

std::vector<int64_t> axes_or_all(const Value& x, std::vector<int64_t> axes) {
  if (axes.empty()) return axes_from(0, x.shape().rank());
  return axes;
}

}  // namespace

Value fft(Value x, const FftOptions& options) { return add_fft(x, options, false, false); }
Value ifft(Value x, const FftOptions& options) { return add_fft(x, options, true, false); }
Value rfft(Value x, const FftOptions& options) { return add_fft(x, options, false, true); }
Value irfft(Value x, const FftOptions& options) {
  auto op = std::make_shared<Irfft>();
  op->o = {.axis = options.axis, .n = options.n, .norm = options.norm};
  return x.graph().add_value(op, {x});
}

Value fftn(Value x, std::vector<int64_t> axes, FftNorm norm) {
  for (const int64_t axis : axes_or_all(x, std::move(axes))) x = fft(x, {.axis = axis, .norm = norm});
  return x;
}
Value ifftn(Value x, std::vector<int64_t> axes, FftNorm norm) {
  for (const int64_t axis : axes_or_all(x, std::move(axes))) x = ifft(x, {.axis = axis, .norm = norm});
  return x;
}
Value rfftn(Value x, std::vector<int64_t> axes, FftNorm norm) {
  axes = axes_or_all(x, std::move(axes));
  if (axes.empty()) fail("rfftn: there is no axis");
  x = rfft(x, {.axis = axes.back(), .norm = norm});
  axes.pop_back();
  return axes.empty() ? x : fftn(x, std::move(axes), norm);
}
Value irfftn(Value x, std::vector<int64_t> axes, int64_t n, FftNorm norm) {
  axes = axes_or_all(x, std::move(axes));
  if (axes.empty()) fail("irfftn: there is no axis");
  const int64_t last = axes.back();
  axes.pop_back();
  if (!axes.empty()) x = ifftn(x, std::move(axes), norm);
  return irfft(x, {.axis = last, .n = n, .norm = norm});
}

namespace ops {
void register_fft(OpTable& table) {
  table.add<Fft>(
      {.formula = "y[k] = factor * sum over t of x[t] exp(-2 pi i t k / n) (inverse: +), t < n; onesided: k "
                  "<= n / 2",
       .operands = "x",
       .types = "f32 f16 bf16 c64",
       .variants = names_of(kVariants),
       .samples = {"fft(T[3,16])", "fft(T[1])", "fft(T[17,3]) {axis=0}", "fft(T[2,257])", "fft(T[0,4])",
                   "fft(T[3,0]) {n=4}", "fft(T[7,60]) {inverse=true, norm=\"ortho\"}",
                   "fft(c64[2,12,5]) {axis=-2, n=8, norm=\"forward\"}",
                   "fft(c64[2,12,5]) {axis=1, n=17, inverse=true}", "fft(f32[3,1000]) {onesided=true}",
                   "fft(c64[7,1024])", "fft(f32[2,2048])", "fft(c64[131072])", "fft(c64[50653])",
                   "fft(f32[1155,57]) {axis=0, onesided=true}", "fft(f32[17000]) {n=16411}"}});
  table.add<Irfft>({.formula = "the n floats whose bins 0 .. n / 2 are x",
                    .operands = "x",
                    .types = "c64",
                    .variants = names_of(kVariants),
                    .samples = {"irfft(T[3,9])", "irfft(T[2,9]) {n=17}", "irfft(T[5,3]) {axis=0, n=1}",
                                "irfft(T[4,2]) {n=8}", "irfft(T[2,129]) {n=257, norm=\"ortho\"}",
                                "irfft(T[0,3])", "irfft(T[2,0]) {n=3}",
                                "irfft(T[7,3,2]) {axis=1, n=2, norm=\"forward\"}", "irfft(T[9001])"}});
}
}  // namespace ops

}  // namespace rlx
