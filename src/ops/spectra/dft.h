// Fourier transforms on the host, in double: for the reference, and for tables that kernels need.
#pragma once

#include <complex>
#include <cstdint>
#include <vector>

namespace rlx {

using ComplexList = std::vector<std::complex<double>>;

// exp(-2 pi i t / n).
std::complex<double> unit_root(int64_t t, int64_t n);
// exp(-pi i t^2 / n).
std::complex<double> chirp(int64_t t, int64_t n);
// The sums over x[t] exp(-2 pi i t k / n), or of the conjugate roots, for any length and without a factor.
ComplexList dft(const ComplexList& x, bool inverse);
ComplexList conjugates(ComplexList x);
// The prime factors in ascending order.
std::vector<int64_t> prime_factors(int64_t n);

}  // namespace rlx
