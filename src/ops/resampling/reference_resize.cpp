#include "ops/resampling/reference_resize.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <type_traits>

#include "ir/view.h"

namespace rlx {
namespace {

// An element of x and its weight.
struct Share {
  int64_t index = 0;
  double weight = 1;
};

struct Axis {
  const ResizeOptions& o;
  int64_t in = 1, out = 1;
  double numerator = 1, denominator = 1;  // of the scale
  double begin = 0, end = 1;              // of the region

  double place(int64_t i) const;
  int64_t nearest(double x) const;
  std::vector<Share> weighted(double x) const;
  // What element i of y is made of; nothing if it lies outside of x.
  std::optional<std::vector<Share>> shares(int64_t i) const;
};

// x_original of ONNX's text, with its names.
double Axis::place(int64_t i) const {
  const auto x_resized = static_cast<double>(i);
  const auto length_original = static_cast<double>(in);
  const auto length_resized = static_cast<double>(out);
  const double output_width = length_original * numerator / denominator;
  const double half_pixel = (x_resized + 0.5) * denominator / numerator - 0.5;
  switch (o.coordinates) {
    case ResizeCoordinates::half_pixel:
      return half_pixel;
    case ResizeCoordinates::half_pixel_symmetric: {
      const double adjustment = length_resized / output_width;
      const double center = length_original / 2;
      return center * (1 - adjustment) + half_pixel;
    }
    case ResizeCoordinates::pytorch_half_pixel:
      return out > 1 ? half_pixel : 0;
    case ResizeCoordinates::align_corners: {
      // The test data of ONNX have the width with its fraction where a scale is below 1.
      const bool fraction = !o.scales.empty() && numerator < denominator;
      const double last = (fraction ? output_width : length_resized) - 1;
      return i == 0 ? 0 : x_resized * (length_original - 1) / last;
    }
    case ResizeCoordinates::asymmetric:
      return x_resized * denominator / numerator;
    case ResizeCoordinates::tf_half_pixel_for_nn:
      return half_pixel + 0.5;
    case ResizeCoordinates::tf_crop_and_resize:
      if (out == 1) return 0.5 * (begin + end) * (length_original - 1);
      return begin * (length_original - 1) +
             x_resized * (end - begin) * (length_original - 1) / (length_resized - 1);
  }
  return 0;
}

int64_t Axis::nearest(double x) const {
  const double below = std::floor(x);
  const double part = x - below;
  const bool up = o.rounding == ResizeRounding::ceil                ? part > 0
                  : o.rounding == ResizeRounding::floor             ? false
                  : o.rounding == ResizeRounding::round_prefer_ceil ? part >= 0.5
                                                                    : part > 0.5;
  const double chosen = up ? below + 1 : below;
  return static_cast<int64_t>(std::clamp(chosen, 0.0, static_cast<double>(in - 1)));
}

// The weight of an element at this distance: a hat, or Keys' cubic.
double weight_at(const ResizeOptions& o, double distance) {
  const double x = std::abs(distance);
  if (o.mode == ResizeMode::linear) return x < 1 ? 1 - x : 0;
  const double a = o.cubic_coeff;
  if (x <= 1) return (a + 2) * std::pow(x, 3) - (a + 3) * std::pow(x, 2) + 1;
  return x < 2 ? a * std::pow(x, 3) - 5 * a * std::pow(x, 2) + 8 * a * x - 4 * a : 0;
}

std::vector<Share> Axis::weighted(double x) const {
  const double stretch = o.antialias ? std::max(denominator / numerator, 1.0) : 1;
  const double reach = 2 * stretch + 1;
  std::vector<Share> all;
  double sum = 0;
  for (double i = std::floor(x - reach); i <= x + reach; ++i) {
    const double weight = weight_at(o, (i - x) / stretch);
    const double inside = std::clamp(i, 0.0, static_cast<double>(in - 1));
    if (weight == 0 || (o.exclude_outside && inside != i)) continue;
    all.push_back({static_cast<int64_t>(inside), weight});
    sum += weight;
  }
  for (Share& s : all) s.weight /= sum;
  return all;
}

std::optional<std::vector<Share>> Axis::shares(int64_t i) const {
  const double x = place(i);
  if (o.coordinates == ResizeCoordinates::tf_crop_and_resize && !(x >= 0 && x <= static_cast<double>(in - 1)))
    return std::nullopt;
  if (o.mode == ResizeMode::nearest) return std::vector<Share>{{nearest(x), 1}};
  return weighted(x);
}

// The scale that was given, as the fraction with the least denominator that is this number in single
// precision: places that are whole numbers are found to be such.
void set_scale(Axis& axis, double scale) {
  const auto wanted = static_cast<float>(scale);
  do {
    axis.numerator = std::round(static_cast<double>(wanted) * axis.denominator);
  } while (static_cast<float>(axis.numerator / axis.denominator) != wanted && ++axis.denominator > 0);
}

std::vector<Axis> axes_of(const ResizeOptions& o, const std::vector<int64_t>& axes,
                          const std::vector<int64_t>& in, const std::vector<int64_t>& out) {
  std::vector<Axis> all;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(axes[i]);
    Axis& a = all.emplace_back(Axis{.o = o, .in = in[axis], .out = out[axis]});
    if (!o.roi.empty()) {
      a.begin = o.roi[i];
      a.end = o.roi[axes.size() + i];
    }
    if (!o.scales.empty()) {
      set_scale(a, o.scales[i]);
    } else {
      a.numerator = static_cast<double>(o.sizes[static_cast<int64_t>(i)].value());
      a.denominator = static_cast<double>(a.in);
    }
  }
  if (o.aspect == ResizeAspect::stretch || all.empty()) return all;
  const auto scale = [](const Axis& a) { return a.numerator / a.denominator; };
  const Axis one = o.aspect == ResizeAspect::not_larger ? *std::ranges::min_element(all, {}, scale)
                                                        : *std::ranges::max_element(all, {}, scale);
  for (Axis& a : all) {
    a.numerator = one.numerator;
    a.denominator = one.denominator;
  }
  return all;
}

// The axis of a tensor [outer, length, inner].
template <class T>
std::vector<T> resized(const Axis& axis, const std::vector<T>& x, int64_t outer, int64_t inner) {
  std::vector<T> y(static_cast<size_t>(outer * axis.out * inner));
  for (int64_t i = 0; i < axis.out; ++i) {
    const std::optional<std::vector<Share>> shares = axis.shares(i);
    for (int64_t n = 0; n < outer * inner; ++n) {
      const int64_t before = n / inner;
      T& to = y[static_cast<size_t>((before * axis.out + i) * inner + n % inner)];
      if (!shares) to = static_cast<T>(axis.o.outside);
      for (const Share& s : shares.value_or(std::vector<Share>())) {
        const T& from = x[static_cast<size_t>((before * axis.in + s.index) * inner + n % inner)];
        if constexpr (std::is_same_v<T, double>) {
          if (axis.o.mode != ResizeMode::nearest) {
            to += s.weight * from;
            continue;
          }
        }
        to = from;
      }
    }
  }
  return y;
}

}  // namespace

void reference_resize(const ResizeOptions& options, const std::vector<int64_t>& axes, RefContext& r) {
  RefTensor now = r.in(0);
  const std::vector<Axis> all = axes_of(options, axes, now.dims, r.out().dims);
  for (size_t i = all.size(); i-- > 0;) {
    const auto at = now.dims.begin() + axes[i];
    const int64_t outer = product({now.dims.begin(), at});
    const int64_t inner = product({at + 1, now.dims.end()});
    now.visit([&](auto& values) { values = resized(all[i], values, outer, inner); });
    *at = all[i].out;
  }
  r.out() = std::move(now);
}

}  // namespace rlx
