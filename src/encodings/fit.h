// Scales for groups of a block, chosen so that the sum of the squared errors is small: several steps near the
// one that the largest value asks for are tried, each improved by least squares for the codes that it gives.
#pragma once

#include <array>
#include <span>

#include "encodings/block.h"

namespace rlx {

struct Fit {
  float step = 0;
  float low = 0;  // what code 0 stands for
};

inline float squared_error(std::span<const float> values, const Fit& fit, int low, int high) {
  float sum = 0;
  for (const float v : values) {
    const float decoded = fit.low + fit.step * static_cast<float>(quantum(v - fit.low, fit.step, low, high));
    sum += (v - decoded) * (v - decoded);
  }
  return sum;
}

constexpr int kFitTries = 25;

// A step, perhaps a negative one, for codes from low (below 0) to high, of which code 0 is 0.
inline float fit_step(std::span<const float> values, int low, int high) {
  float largest = 0;
  for (const float v : values) {
    if (std::abs(v) > std::abs(largest)) largest = v;
  }
  if (largest == 0) return 0;
  Fit best{.step = largest / static_cast<float>(low)};
  float error = squared_error(values, best, low, high);
  for (int i = 0; i < kFitTries; ++i) {
    const float codes = static_cast<float>(-low) * (0.75F + 0.5F * static_cast<float>(i) / (kFitTries - 1));
    const float step = -largest / codes;
    float products = 0;
    float squares = 0;
    for (const float v : values) {
      const auto q = static_cast<float>(quantum(v, step, low, high));
      products += v * q;
      squares += q * q;
    }
    const Fit tried{.step = squares > 0 ? products / squares : 0};
    const float e = squared_error(values, tried, low, high);
    if (e < error) {
      error = e;
      best = tried;
    }
  }
  return best.step;
}

// The steps of groups of values, and the one of them that is farthest from 0.
template <size_t kGroups>
struct GroupSteps {
  std::array<float, kGroups> of = {};
  float largest = 0;
};
template <size_t kGroups>
GroupSteps<kGroups> fit_steps(const float* values, size_t group, int low, int high) {
  GroupSteps<kGroups> steps;
  for (size_t g = 0; g < kGroups; ++g) {
    steps.of[g] = fit_step(std::span(values + g * group, group), low, high);
    if (std::abs(steps.of[g]) > std::abs(steps.largest)) steps.largest = steps.of[g];
  }
  return steps;
}

// A step that is not negative and the value of code 0, for codes from 0 to high. If `below`, code 0 is not
// above 0.
inline Fit fit_range(std::span<const float> values, int high, bool below) {
  const auto [least, most] = std::ranges::minmax(values);
  const auto bounded = [&](float low) { return below ? std::min(low, 0.0F) : low; };
  Fit best{.low = bounded(least)};
  best.step = std::max(0.0F, most - best.low) / static_cast<float>(high);
  if (!(best.step > 0)) return best;
  const Fit first = best;
  float error = squared_error(values, best, 0, high);
  const auto n = static_cast<float>(values.size());
  for (int i = 0; i < kFitTries; ++i) {
    const float step = first.step / (0.75F + 0.5F * static_cast<float>(i) / (kFitTries - 1));
    float codes = 0;
    float squares = 0;
    float sum = 0;
    float products = 0;
    for (const float v : values) {
      const auto q = static_cast<float>(quantum(v - first.low, step, 0, high));
      codes += q;
      squares += q * q;
      sum += v;
      products += v * q;
    }
    const float determinant = n * squares - codes * codes;
    if (!(determinant > 0)) continue;
    Fit tried{.step = (n * products - sum * codes) / determinant};
    tried.low = bounded((sum - tried.step * codes) / n);
    if (below && tried.low == 0 && squares > 0) tried.step = products / squares;
    const float e = squared_error(values, tried, 0, high);
    if (tried.step > 0 && e < error) {
      error = e;
      best = tried;
    }
  }
  return best;
}

}  // namespace rlx
