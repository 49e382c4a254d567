// The double matmul of the reference, fast enough to check models of many GFLOP.
#include "base/parallel.h"
#include "ops/linear_algebra/matmul.h"

namespace rlx {
namespace {

// c[n] += a * b[n]: four rows of c at once, so that a row of b is loaded once for them.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
void multiply_rows(const double* a, int64_t a_stride, const double* b, int64_t b_stride, double* c,
                   int64_t c_stride, int64_t rows, int64_t n, int64_t k) {
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    double* c0 = c + r * c_stride;
    double* c1 = c0 + c_stride;
    double* c2 = c1 + c_stride;
    double* c3 = c2 + c_stride;
    for (int64_t p = 0; p < k; ++p) {
      const double* row = b + p * b_stride;
      const double x0 = a[r * a_stride + p], x1 = a[(r + 1) * a_stride + p];
      const double x2 = a[(r + 2) * a_stride + p], x3 = a[(r + 3) * a_stride + p];
      for (int64_t j = 0; j < n; ++j) {
        c0[j] += x0 * row[j];
        c1[j] += x1 * row[j];
        c2[j] += x2 * row[j];
        c3[j] += x3 * row[j];
      }
    }
  }
  for (; r < rows; ++r) {
    for (int64_t p = 0; p < k; ++p) {
      for (int64_t j = 0; j < n; ++j) c[r * c_stride + j] += a[r * a_stride + p] * b[p * b_stride + j];
    }
  }
}

}  // namespace

void multiply_reference(const double* a, const double* b, double* c, int64_t m, int64_t n, int64_t k) {
  // A block of b of this size stays in the second-level cache while all rows of a block of a pass over it.
  constexpr int64_t kColumns = 256;
  constexpr int64_t kDepth = 128;
  parallel_for(m, 32, [&](int64_t begin, int64_t end) {
    for (int64_t p = 0; p < k; p += kDepth) {
      for (int64_t j = 0; j < n; j += kColumns) {
        multiply_rows(a + begin * k + p, k, b + p * n + j, n, c + begin * n + j, n, end - begin,
                      std::min(kColumns, n - j), std::min(kDepth, k - p));
      }
    }
  });
}

}  // namespace rlx
