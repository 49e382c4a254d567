// By a windowed sinc: each output is a sum of the inputs around it.
#include "audio/resample.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/fail.h"

namespace rlx::audio {
namespace {

constexpr double kZeros = 16;  // of the sinc on each side
constexpr double kBeta = 8.6;  // of the Kaiser window: 90 dB

double kaiser(double x) {
  return std::cyl_bessel_i(0, kBeta * std::sqrt(std::max(0.0, 1 - x * x))) / std::cyl_bessel_i(0, kBeta);
}

double sinc(double x) {
  const double t = std::numbers::pi * x;
  return std::fabs(t) < 1e-9 ? 1 : std::sin(t) / t;
}

}  // namespace

Sound resampled(const Sound& sound, int64_t rate) {
  check(rate > 0 && sound.rate > 0, "sounds have a rate");
  if (rate == sound.rate) return sound;
  const double step = static_cast<double>(sound.rate) / static_cast<double>(rate);
  const double cutoff = std::min(1.0, 1 / step);  // of half the rate of the input
  const double reach = kZeros / cutoff;
  // The kernel in a table: the window costs more than all else.
  constexpr int64_t kPerZero = 512;
  std::vector<double> table;
  for (int64_t i = 0; i <= static_cast<int64_t>(kZeros) * kPerZero + 1; ++i) {
    const double x = static_cast<double>(i) / kPerZero;
    table.push_back(cutoff * sinc(x) * (x < kZeros ? kaiser(x / kZeros) : 0));
  }
  const auto kernel = [&](double distance) {
    const double at = std::fabs(distance) * cutoff * kPerZero;
    const auto i = static_cast<size_t>(at);
    if (i + 1 >= table.size()) return 0.0;
    return std::lerp(table[i], table[i + 1], at - std::floor(at));
  };
  const auto count = std::ssize(sound.samples);
  Sound out{.rate = rate, .samples = {}};
  const auto length = static_cast<int64_t>(std::ceil(static_cast<double>(count) / step));
  out.samples.reserve(static_cast<size_t>(length));
  for (int64_t n = 0; n < length; ++n) {
    const double center = static_cast<double>(n) * step;
    const auto first = std::max<int64_t>(0, static_cast<int64_t>(std::ceil(center - reach)));
    const auto last = std::min<int64_t>(count - 1, static_cast<int64_t>(std::floor(center + reach)));
    double sum = 0;
    for (int64_t k = first; k <= last; ++k)
      sum += static_cast<double>(sound.samples[static_cast<size_t>(k)]) *
             kernel(center - static_cast<double>(k));
    out.samples.push_back(static_cast<float>(sum));
  }
  return out;
}

}  // namespace rlx::audio
