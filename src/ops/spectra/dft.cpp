#include "ops/spectra/dft.h"

#include <bit>
#include <cmath>
#include <numbers>

namespace rlx {

std::complex<double> unit_root(int64_t t, int64_t n) {
  // Within an eighth of the circle sine and cosine are nearly exact.
  t %= n;
  if (8 * t <= n) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(t) / static_cast<double>(n);
    return {std::cos(angle), -std::sin(angle)};
  }
  if (2 * t > n) return std::conj(unit_root(n - t, n));
  if (4 * t > n) {
    const std::complex<double> v = unit_root(n - 2 * t, 2 * n);  // mirrored at the imaginary axis
    return {-v.real(), v.imag()};
  }
  const std::complex<double> v = unit_root(n - 4 * t, 4 * n);  // mirrored at the diagonal
  return {-v.imag(), -v.real()};
}

std::complex<double> chirp(int64_t t, int64_t n) {
  // t^2 modulo 2n without leaving 64 bits for any n that memory can hold.
  return unit_root(t * t % (2 * n), 2 * n);
}

std::vector<int64_t> prime_factors(int64_t n) {
  std::vector<int64_t> factors;
  for (int64_t p = 2; p * p <= n; ++p) {
    for (; n % p == 0; n /= p) factors.push_back(p);
  }
  if (n > 1) factors.push_back(n);
  return factors;
}

ComplexList conjugates(ComplexList x) {
  for (std::complex<double>& v : x) v = std::conj(v);
  return x;
}

namespace {

constexpr int64_t kLargestDirect = 61;

// As a convolution with a chirp, of a length that is a power of two.
ComplexList dft_by_chirp(const ComplexList& x) {
  const auto n = static_cast<int64_t>(x.size());
  const size_t m = std::bit_ceil(static_cast<size_t>(2 * n - 1));
  ComplexList a(m), b(m);
  for (int64_t t = 0; t < n; ++t) {
    const auto at = static_cast<size_t>(t);
    const std::complex<double> w = chirp(t, n);
    a[at] = x[at] * w;
    b[at] = std::conj(w);
    if (t > 0) b[m - at] = b[at];
  }
  a = dft(a, false);
  b = dft(b, false);
  for (size_t i = 0; i < m; ++i) a[i] *= b[i] / static_cast<double>(m);
  a = dft(a, true);
  ComplexList y(x.size());
  for (size_t k = 0; k < y.size(); ++k) y[k] = a[k] * chirp(static_cast<int64_t>(k), n);
  return y;
}

// Of n elements from x on, `step` apart; `roots` are those of the whole.
void transform(const std::complex<double>* x, size_t step, size_t n, const ComplexList& roots,
               std::complex<double>* y, const int64_t* factor) {
  if (n == 1) {
    *y = *x;
    return;
  }
  const auto q = static_cast<size_t>(*factor);
  const size_t m = n / q;
  for (size_t j = 0; j < q; ++j) transform(x + j * step, step * q, m, roots, y + j * m, factor + 1);
  std::complex<double> parts[kLargestDirect];
  for (size_t k = 0; k < m; ++k) {
    for (size_t j = 0; j < q; ++j) parts[j] = y[j * m + k];
    for (size_t i = 0; i < q; ++i) {
      std::complex<double> sum = parts[0];
      for (size_t j = 1; j < q; ++j) {
        const std::complex<double> w = roots[j * (k + m * i) % n * (roots.size() / n)];
        sum += std::complex<double>(parts[j].real() * w.real() - parts[j].imag() * w.imag(),
                                    parts[j].real() * w.imag() + parts[j].imag() * w.real());
      }
      y[i * m + k] = sum;
    }
  }
}

}  // namespace

ComplexList dft(const ComplexList& x, bool inverse) {
  if (inverse) return conjugates(dft(conjugates(x), false));
  const auto n = static_cast<int64_t>(x.size());
  if (n < 2) return x;
  const std::vector<int64_t> factors = prime_factors(n);
  if (factors.back() > kLargestDirect) return dft_by_chirp(x);
  ComplexList roots(x.size());
  for (int64_t t = 0; t < n; ++t) roots[static_cast<size_t>(t)] = unit_root(t, n);
  ComplexList y(x.size());
  transform(x.data(), 1, x.size(), roots, y.data(), factors.data());
  return y;
}

}  // namespace rlx
