#include "tests/support/compare.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/format.h"
#include "ir/tolerance.h"

namespace rlx::testing {
namespace {

bool close_value(double got, double want, DType dtype, const Tolerance& t, double* allowed) {
  const Closeness closeness = rlx::compare(got, want, dtype, t);
  *allowed = closeness.allowed;
  return closeness.close;
}

// Complex numbers are twice as many.
std::vector<double> parts_of(const Tensor& t) {
  if (t.dtype() != DType::c64) return t.doubles();
  std::vector<double> out;
  for (int64_t i = 0; i < t.elements(); ++i) {
    out.push_back(t.complex(i).real());
    out.push_back(t.complex(i).imag());
  }
  return out;
}

}  // namespace

::testing::AssertionResult close(const Tensor& got, const RefTensor& want, const Tolerance& tolerance) {
  if (got.dtype() != want.dtype || got.shape() != want.dims) {
    return ::testing::AssertionFailure()
           << "got " << got.type_text() << ", want " << to_string(want.dtype) << Shape(want.dims).text();
  }
  int64_t wrong = 0;
  std::string first;
  for (int64_t i = 0; i < got.elements(); ++i) {
    const auto p = static_cast<size_t>(i);
    bool good = true;
    std::string text;
    double allowed = 0;
    if (want.dtype == DType::c64) {
      const auto g = got.complex(i);
      Tolerance both = tolerance;  // relative to the whole number
      if (const double size = std::abs(want.complex[p]); std::isfinite(size))
        both.scale = std::max(both.scale, size);
      good = close_value(g.real(), want.complex[p].real(), DType::f32, both, &allowed) &&
             close_value(g.imag(), want.complex[p].imag(), DType::f32, both, &allowed);
      if (!good)
        text = formatted("({}, {}) instead of ({}, {})", g.real(), g.imag(), want.complex[p].real(),
                         want.complex[p].imag());
    } else if (is_float(want.dtype)) {
      good = close_value(got.real(i), want.real[p], want.dtype, tolerance, &allowed);
      if (!good) text = formatted("{} instead of {} (allowed error {})", got.real(i), want.real[p], allowed);
    } else {
      good = got.integer(i) == want.ints[p];
      if (!good) text = formatted("{} instead of {}", got.integer(i), want.ints[p]);
    }
    if (!good && wrong++ == 0) first = formatted("element {}: {}", i, text);
  }
  if (wrong == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << wrong << " of " << got.elements() << " elements differ; " << first;
}

::testing::AssertionResult within(std::span<const double> got, std::span<const double> want, double allowed,
                                  double relative) {
  if (got.size() != want.size())
    return ::testing::AssertionFailure() << got.size() << " numbers instead of " << want.size();
  int64_t wrong = 0;
  std::string first;
  for (size_t i = 0; i < want.size(); ++i) {
    // Of an infinity, every part would be infinite.
    const double most = allowed + (std::isfinite(want[i]) ? relative * std::fabs(want[i]) : 0);
    if (rlx::difference(got[i], want[i]) <= most) continue;
    if (wrong++ == 0)
      first = formatted("number {} is {} instead of {} (allowed error {})", i, got[i], want[i], most);
  }
  if (wrong == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << wrong << " of " << want.size() << " numbers differ; " << first;
}

::testing::AssertionResult within(const Tensor& got, const Tensor& want, double allowed, double relative) {
  if (got.type_text() != want.type_text())
    return ::testing::AssertionFailure() << "got " << got.type_text() << ", want " << want.type_text();
  return within(parts_of(got), parts_of(want), allowed, relative);
}

double largest_size(std::span<const double> values) {
  double largest = 0;
  for (const double v : values) {
    if (std::isfinite(v)) largest = std::max(largest, std::fabs(v));
  }
  return largest;
}

}  // namespace rlx::testing
