#include "vision/strip.h"

#include <algorithm>
#include <array>

namespace rlx::vision {
namespace {

using Colour = std::array<double, 3>;

// Between the centres of the four pixels around a place.
Colour at(const Image& image, Point p) {
  const double x = std::clamp(p.x - 0.5, 0.0, static_cast<double>(image.width - 1));
  const double y = std::clamp(p.y - 0.5, 0.0, static_cast<double>(image.height - 1));
  const auto left = static_cast<int64_t>(x);
  const auto top = static_cast<int64_t>(y);
  const int64_t right = std::min(left + 1, image.width - 1);
  const int64_t bottom = std::min(top + 1, image.height - 1);
  const double u = x - static_cast<double>(left);
  const double v = y - static_cast<double>(top);
  Colour out;
  for (size_t c = 0; c < 3; ++c) {
    const double upper = image.pixel(left, top)[c] * (1 - u) + image.pixel(right, top)[c] * u;
    const double lower = image.pixel(left, bottom)[c] * (1 - u) + image.pixel(right, bottom)[c] * u;
    out[c] = upper * (1 - v) + lower * v;
  }
  return out;
}

// How many places of the picture make one of the strip, so that thin strokes of large letters are not missed.
int64_t samples_for(double length, int64_t pixels) {
  constexpr int64_t kMost = 8;
  return std::clamp<int64_t>(static_cast<int64_t>(std::lround(length / static_cast<double>(pixels))), 1,
                             kMost);
}

}  // namespace

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
