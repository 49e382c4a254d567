#include "ops/resampling/resize_taps.h"

#include <algorithm>
#include <cmath>

#include "base/fail.h"

namespace rlx {

// The first convergent of the continued fraction that is the same number in single precision.
Fraction as_fraction(double scale) {
  constexpr double kLargest = 1 << 24;
  const auto wanted = static_cast<float>(scale);
  if (!(wanted >= 1 / kLargest && wanted <= kLargest))
    fail("resize: the scale {} is not between 2^-24 and 2^24", scale);
  double rest = wanted;
  Fraction before{0, 1};
  Fraction now{1, 0};
  for (;;) {
    const double whole = std::floor(rest);
    const auto n = static_cast<int64_t>(whole);
    before =
        std::exchange(now, {n * now.numerator + before.numerator, n * now.denominator + before.denominator});
    const double value = static_cast<double>(now.numerator) / static_cast<double>(now.denominator);
    if (static_cast<float>(value) == wanted) return now;
    rest = 1 / (rest - whole);
  }
}

namespace {

// The place in x, in elements, that element o of y stands for.
double place(ResizeCoordinates how, const ResizeAxis& a, int64_t o) {
  const auto at = static_cast<double>(o);
  const auto in = static_cast<double>(a.in);
  const auto out = static_cast<double>(a.out);
  const auto numerator = static_cast<double>(a.scale.numerator);
  const auto denominator = static_cast<double>(a.scale.denominator);
  const double length = in * numerator / denominator;  // of y, before it is rounded
  const double middle = (at + 0.5) * denominator / numerator;
  switch (how) {
    case ResizeCoordinates::half_pixel:
      return middle - 0.5;
    case ResizeCoordinates::half_pixel_symmetric:
      return in / 2 * (1 - out / length) + middle - 0.5;
    case ResizeCoordinates::pytorch_half_pixel:
      return a.out > 1 ? middle - 0.5 : 0;
    case ResizeCoordinates::align_corners:
      // ONNX's text counts the elements of y, so that the last one is the last of x. Its test data do not
      // where a scale below 1 leaves a fraction: there the corners do not meet.
      return o == 0 ? 0 : at * (in - 1) / ((a.scaled && numerator < denominator ? length : out) - 1);
    case ResizeCoordinates::asymmetric:
      return at * denominator / numerator;
    case ResizeCoordinates::tf_half_pixel_for_nn:
      return middle;
    case ResizeCoordinates::tf_crop_and_resize: {
      const double part = a.out > 1 ? at / (out - 1) : 0.5;
      return (a.roi_begin + part * (a.roi_end - a.roi_begin)) * (in - 1);
    }
  }
  return 0;
}

double nearest(ResizeRounding rounding, double at) {
  switch (rounding) {
    case ResizeRounding::round_prefer_floor:
      return std::ceil(at - 0.5);
    case ResizeRounding::round_prefer_ceil:
      return std::floor(at + 0.5);
    case ResizeRounding::floor:
      return std::floor(at);
    case ResizeRounding::ceil:
      return std::ceil(at);
  }
  return 0;
}

// The weight of an element at a distance.
double weight(const ResizeOptions& o, double distance) {
  const double x = std::abs(distance);
  if (o.mode == ResizeMode::linear) return std::max(1 - x, 0.0);
  const double a = o.cubic_coeff;
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

// The kernel is as wide as an element of x or, against aliasing, as one of y.
struct Filter {
  double shrink = 1;
  int64_t first = 0;  // tap, relative to the element before the place
  int64_t count = 1;
};

Filter filter_of(const ResizeOptions& o, const Fraction& scale) {
  if (o.mode == ResizeMode::nearest) return {};
  Filter k;
  if (o.antialias) {
    k.shrink = std::min(static_cast<double>(scale.numerator) / static_cast<double>(scale.denominator), 1.0);
  }
  const double radius = (o.mode == ResizeMode::linear ? 1 : 2) / k.shrink;
  k.first = static_cast<int64_t>(std::floor(-radius)) + 1;
  k.count = 2 - 2 * k.first;
  return k;
}

// The taps of one element, added to `taps`.
void add_weighted(const ResizeOptions& o, const Filter& k, double at, int64_t length, Taps& taps) {
  const double before = std::ceil(at) - 1;
  double sum = 0;
  const size_t first = taps.weight.size();
  for (int64_t i = k.first; i < k.first + k.count; ++i) {
    const int64_t index = static_cast<int64_t>(before) + i;
    const int64_t inside = std::clamp<int64_t>(index, 0, length - 1);
    const bool excluded = o.exclude_outside && index != inside;
    const double w = excluded ? 0 : weight(o, (before + static_cast<double>(i) - at) * k.shrink);
    taps.index.push_back(inside);
    taps.weight.push_back(w);
    sum += w;
  }
  for (size_t i = first; i < taps.weight.size(); ++i) taps.weight[i] /= sum;
}

}  // namespace

Taps resize_taps(const ResizeOptions& o, const ResizeAxis& axis) {
  const Filter k = filter_of(o, axis.scale);
  Taps taps{.count = k.count, .index = {}, .weight = {}};
  const auto last = static_cast<double>(axis.in - 1);
  for (int64_t i = 0; i < axis.out; ++i) {
    const double at = place(o.coordinates, axis, i);
    if (o.coordinates == ResizeCoordinates::tf_crop_and_resize && !(at >= 0 && at <= last)) {
      taps.index.insert(taps.index.end(), static_cast<size_t>(k.count), Taps::kOutside);
      taps.weight.insert(taps.weight.end(), static_cast<size_t>(k.count), 0);
    } else if (o.mode == ResizeMode::nearest) {
      taps.index.push_back(static_cast<int64_t>(std::clamp(nearest(o.rounding, at), 0.0, last)));
      taps.weight.push_back(1);
    } else {
      add_weighted(o, k, at, axis.in, taps);
    }
  }
  return taps;
}

bool Taps::copies(int64_t length) const {
  if (std::ssize(index) != length * count) return false;
  for (size_t i = 0; i < index.size(); ++i) {
    if (weight[i] != 0 && index[i] != static_cast<int64_t>(i) / count) return false;
    if (index[i] == kOutside) return false;
  }
  return true;
}

Taps Taps::part(int64_t begin, int64_t end) const {
  return {count,
          {index.begin() + begin * count, index.begin() + end * count},
          {weight.begin() + begin * count, weight.begin() + end * count}};
}

}  // namespace rlx
