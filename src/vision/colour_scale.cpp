// The scale is given in Oklab (Ottosson 2020), a space in which distances are as large as they look:
// lightness, chroma and hue at a few places.
#include "vision/colour_scale.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace rlx::vision {
namespace {

struct Tone {
  double lightness, chroma, hue;  // hue in degrees
};

// Equally far apart. Hues beyond 360 go on around the circle.
constexpr Tone kTones[] = {{0.10, 0.02, 280}, {0.22, 0.09, 292}, {0.34, 0.14, 305},
                           {0.46, 0.17, 330}, {0.58, 0.18, 362}, {0.69, 0.17, 390},
                           {0.79, 0.15, 423}, {0.88, 0.13, 452}, {0.98, 0.06, 466}};

using Linear = std::array<double, 3>;

// Linear red, green and blue; below 0 or above 1 if no screen shows it.
Linear linear_of(const Tone& tone) {
  const double angle = tone.hue * std::numbers::pi / 180;
  const double a = tone.chroma * std::cos(angle);
  const double b = tone.chroma * std::sin(angle);
  const auto cubed = [](double v) { return v * v * v; };
  const double l = cubed(tone.lightness + 0.3963377774 * a + 0.2158037573 * b);
  const double m = cubed(tone.lightness - 0.1055613458 * a - 0.0638541728 * b);
  const double s = cubed(tone.lightness - 0.0894841775 * a - 1.2914855480 * b);
  return {4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
          -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
          -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s};
}

bool is_shown(const Linear& rgb) {
  return std::ranges::all_of(rgb, [](double v) { return v >= -1e-4 && v <= 1 + 1e-4; });
}

Colour colour_of(Tone tone) {
  while (tone.chroma > 0 && !is_shown(linear_of(tone))) tone.chroma -= 0.002;
  Colour out{};
  const Linear rgb = linear_of(tone);
  for (size_t c = 0; c < 3; ++c) {
    const double v = std::clamp(rgb[c], 0.0, 1.0);
    const double coded = v <= 0.0031308 ? 12.92 * v : 1.055 * std::pow(v, 1 / 2.4) - 0.055;
    out[c] = static_cast<uint8_t>(std::lround(255 * coded));
  }
  return out;
}

constexpr size_t kColours = 256;

std::vector<Colour> make_scale() {
  std::vector<Colour> out;
  constexpr size_t kLast = std::size(kTones) - 1;
  for (size_t i = 0; i < kColours; ++i) {
    const double at = static_cast<double>(i * kLast) / (kColours - 1);
    const size_t before = std::min(kLast - 1, static_cast<size_t>(at));
    const double part = at - static_cast<double>(before);
    const Tone& a = kTones[before];
    const Tone& b = kTones[before + 1];
    out.push_back(colour_of({std::lerp(a.lightness, b.lightness, part), std::lerp(a.chroma, b.chroma, part),
                             std::lerp(a.hue, b.hue, part)}));
  }
  return out;
}

}  // namespace

Colour scale_colour(double t) {
  static const std::vector<Colour> scale = make_scale();
  const double at = std::isnan(t) ? 0 : std::clamp(t, 0.0, 1.0);
  return scale[static_cast<size_t>(std::lround(at * (kColours - 1)))];
}

}  // namespace rlx::vision
