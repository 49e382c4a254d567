// The ways to make a Fourier transform. Lengths with small prime factors take one pass in workgroup memory,
// or several through scratch memory; all others become a convolution with a chirp (Bluestein), of a length
// that is a power of two. An even number of floats that takes several passes is transformed as half as many
// complex numbers.
#include <bit>
#include <complex>
#include <cstdint>

#include "base/checked.h"
#include "kernels/binder.h"
#include "kernels/fft_pack.wgsl.h"
#include "kernels/fft_unpack.wgsl.h"
#include "kernels/rates.h"
#include "ops/spectra/complex_views.h"
#include "ops/spectra/dft.h"
#include "ops/spectra/fft_transform.h"

namespace rlx {
namespace {

// Beyond that a chirp is faster than sums of so many products.
constexpr int64_t kLargestPrime = 61;

bool is_smooth(int64_t n) {
  const std::vector<int64_t> factors = prime_factors(n);
  return factors.empty() || factors.back() <= kLargestPrime;
}

using FftVariant = Variant<FftTransform, bool>;

double moved_ns(const Target& target, const FftTransform& t, int64_t n) {
  const Rates r = rates_of(target.caps);
  const auto passes = static_cast<double>(fft_passes(n, target.caps).size());
  const auto elements = static_cast<double>(t.rows() * n);
  return passes * (r.dispatch_ns + elements * 16 / r.bytes_per_ns);
}

int64_t chirp_length(int64_t n) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(2 * n - 1)));
}

// X[k] = w[k] sum over t of (x[t] w[t]) conj(w[k - t]), w[t] = exp(-pi i t^2 / n): a convolution.
bool run_chirp(Lowering& l, const FftTransform& t, const Candidate&) {
  const int64_t n = t.n;
  const int64_t m = chirp_length(n);
  ComplexList w, kernel(static_cast<size_t>(m));
  for (int64_t i = 0; i < n; ++i) {
    w.push_back(t.inverse ? std::conj(chirp(i, n)) : chirp(i, n));
    kernel[static_cast<size_t>(i)] = kernel[static_cast<size_t>((m - i) % m)] = std::conj(w.back());
  }
  kernel = dft(kernel, false);
  for (std::complex<double>& v : kernel) v /= static_cast<double>(m);
  const Operand factors = complex_table(l, w);
  Operand products = l.scratch(DType::c64, {t.rows(), m});
  products.outer_rank = 1;
  FftLowering(l, {.x = t.x,
                  .y = products,
                  .n = m,
                  .signal = n,
                  .mirror = t.mirror,
                  .pre = factors,
                  .post = complex_table(l, kernel)})
      .run();
  FftLowering(
      l, {.x = products, .y = t.y, .n = m, .signal = m, .inverse = true, .scale = t.scale, .post = factors})
      .run();
  return true;
}

// Floats in, or floats out.
bool is_packable(const Target&, const FftTransform& t) {
  const bool forward = t.x.dtype != DType::c64 && t.y.dtype == DType::c64;
  return t.n % 2 == 0 && is_smooth(t.n) && (forward || t.mirror);
}

// Low and high roots of n, up to half a turn.
Operand half_roots(Lowering& l, int64_t n, int64_t low) {
  ComplexList roots;
  for (int64_t i = 0; i < low; ++i) roots.push_back(unit_root(i, n));
  for (int64_t i = 0; i <= n / 2; i += low) roots.push_back(unit_root(i, n));
  return complex_table(l, roots);
}

// The spectra of floats from those of pairs of them. In the other direction they are the conjugates.
Dispatch make_unpack(Lowering& l, const FftTransform& t, const Operand& halves) {
  using Unpack = kernels::fft_unpack;
  const int64_t low = FftPass{.length = t.n}.low_roots();
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
Dispatch make_pack(Lowering& l, const FftTransform& t, const Operand& halves) {
  using Pack = kernels::fft_pack;
  const int64_t low = FftPass{.length = t.n}.low_roots();
  const int64_t count = t.rows() * (t.n / 2);
  return l.make<Pack>({.x = as_floats(t.x), .roots = half_roots(l, t.n, low), .z = as_floats(halves)},
                      {.count = to_u32(count),
                       .m = to_u32(t.n / 2),
                       .x_length = to_u32(t.x.view.dims.back()),
                       .low_roots = to_u32(low)},
                      ceil_div(count, int64_t{Pack::GROUP}));
}

bool run_packed(Lowering& l, const FftTransform& t, const Candidate&) {
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
     [](const Target& target, const FftTransform& t) {
       const Rates r = rates_of(target.caps);
       const auto elements = static_cast<double>(t.rows() * t.n);
       return one_candidate(moved_ns(target, t, t.n / 2) + r.dispatch_ns + elements * 8 / r.bytes_per_ns);
     },
     run_packed},
    {"stockham", [](const Target&, const FftTransform& t) { return is_smooth(t.n); },
     [](const Target& target, const FftTransform& t) { return one_candidate(moved_ns(target, t, t.n)); },
     [](Lowering& l, const FftTransform& t, const Candidate&) {
       FftLowering(l, t).run();
       return true;
     }},
    {"chirp", always,
     [](const Target& target, const FftTransform& t) {
       return one_candidate(2 * moved_ns(target, t, chirp_length(t.n)));
     },
     run_chirp},
};

}  // namespace

void lower_fft(Lowering& l, std::string_view op, const FftTransform& t) {
  l.choose(op, kVariants, t).make(l, t);
}
std::vector<std::string> fft_variants() { return names_of(kVariants); }

}  // namespace rlx
