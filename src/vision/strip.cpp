#include "vision/strip.h"

#include <algorithm>
#include <array>

namespace rlx::vision {
namespace {

using Colour = std::array<double, 3>;

// The weights of the four pixels around a place that lies `t` behind the second of them: Keys' cubic, which
// passes through the pixels and keeps the edges of small letters sharper than a line between them does.
std::array<double, 4> cubic_weights(double t) {
  const double s = 1 - t;
  return {-0.5 * t * s * s, 1 + t * t * (1.5 * t - 2.5), 1 + s * s * (1.5 * s - 2.5), -0.5 * s * t * t};
}

// Between the centres of the sixteen pixels around a place; no darker than black, and no lighter than white.
Colour at(const Image& image, Point p) {
  const double x = std::clamp(p.x - 0.5, 0.0, static_cast<double>(image.width - 1));
  const double y = std::clamp(p.y - 0.5, 0.0, static_cast<double>(image.height - 1));
  const auto left = static_cast<int64_t>(x);
  const auto top = static_cast<int64_t>(y);
  const std::array<double, 4> across = cubic_weights(x - static_cast<double>(left));
  const std::array<double, 4> down = cubic_weights(y - static_cast<double>(top));
  Colour out = {};
  for (int64_t j = 0; j < 4; ++j) {
    const int64_t row = std::clamp<int64_t>(top + j - 1, 0, image.height - 1);
    for (int64_t i = 0; i < 4; ++i) {
      const uint8_t* pixel = image.pixel(std::clamp<int64_t>(left + i - 1, 0, image.width - 1), row);
      const double weight = across[static_cast<size_t>(i)] * down[static_cast<size_t>(j)];
      for (size_t c = 0; c < 3; ++c) out[c] += weight * pixel[c];
    }
  }
  for (double& c : out) c = std::clamp(c, 0.0, 255.0);
  return out;
}

// How many places of the picture make one of the strip, so that thin strokes of large letters are not missed.
int64_t samples_for(double length, int64_t pixels) {
  constexpr int64_t kMost = 8;
  return std::clamp<int64_t>(static_cast<int64_t>(std::lround(length / static_cast<double>(pixels))), 1,
                             kMost);
}

}  // namespace

TextBox with_margins(const TextBox& box) {
  // Measured on printed paragraphs (docs/ocr.md): without them spaces are lost, with more of them letters.
  constexpr double kAbove = 0.1;
  constexpr double kBeside = 0.15;
  const double high = length(box.down);
  const double wide = length(box.along);
  const Point beside = box.along * (wide == 0 ? 0 : kBeside * high / wide);
  const Point above = box.down * kAbove;
  return {box.origin - beside - above, box.along + beside * 2, box.down + above * 2, box.score};
}

TextBox beginning(const TextBox& box, double heights) {
  const double wide = length(box.along);
  const double most = heights * length(box.down);
  return {box.origin, wide <= most ? box.along : box.along * (most / wide), box.down, box.score};
}

double strip_width(const TextBox& box, int64_t height) {
  return static_cast<double>(height) * length(box.along) / std::max(length(box.down), 1e-6);
}

void cut_strip(const Image& image, const TextBox& box, int64_t width, int64_t height, int64_t stride,
               std::span<float> into) {
  const int64_t across = samples_for(length(box.along), width);
  const int64_t down = samples_for(length(box.down), height);
  const Point step_x = box.along * (1 / static_cast<double>(width * across));
  const Point step_y = box.down * (1 / static_cast<double>(height * down));
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      Colour sum = {};
      for (int64_t j = y * down; j < (y + 1) * down; ++j) {
        for (int64_t i = x * across; i < (x + 1) * across; ++i) {
          const Colour sample = at(image, box.origin + step_x * (static_cast<double>(i) + 0.5) +
                                              step_y * (static_cast<double>(j) + 0.5));
          for (size_t c = 0; c < 3; ++c) sum[c] += sample[c];
        }
      }
      for (size_t c = 0; c < 3; ++c) {
        const double mean = sum[2 - c] / static_cast<double>(across * down);
        into[c * static_cast<size_t>(height * stride) + static_cast<size_t>(y * stride + x)] =
            static_cast<float>(mean / 127.5 - 1);
      }
    }
  }
}

}  // namespace rlx::vision
