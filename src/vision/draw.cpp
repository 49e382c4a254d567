#include "vision/draw.h"

#include <algorithm>

namespace rlx::vision {
namespace {

double distance_to_side(Point p, Point from, Point to) {
  const Point side = to - from;
  const double square = dot(side, side);
  const double along = square == 0 ? 0 : std::clamp(dot(p - from, side) / square, 0.0, 1.0);
  return length(p - (from + side * along));
}

// Within the picture, also for places that are far away.
int64_t clamped(double at, int64_t size) {
  return static_cast<int64_t>(std::clamp(at, 0.0, static_cast<double>(size - 1)));
}

void draw_side(Image& image, Point from, Point to, std::array<uint8_t, 3> colour, double thickness) {
  const double reach = thickness / 2 + 1;
  const int64_t left = clamped(std::min(from.x, to.x) - reach, image.width);
  const int64_t right = clamped(std::max(from.x, to.x) + reach, image.width);
  const int64_t top = clamped(std::min(from.y, to.y) - reach, image.height);
  const int64_t bottom = clamped(std::max(from.y, to.y) + reach, image.height);
  for (int64_t y = top; y <= bottom; ++y) {
    for (int64_t x = left; x <= right; ++x) {
      const Point center{static_cast<double>(x) + 0.5, static_cast<double>(y) + 0.5};
      // Smooth over one pixel at the edge.
      const double cover = std::clamp(thickness / 2 + 0.5 - distance_to_side(center, from, to), 0.0, 1.0);
      if (cover == 0) continue;
      uint8_t* pixel = image.pixel(x, y);
      for (size_t c = 0; c < 3; ++c)
        pixel[c] = static_cast<uint8_t>(std::lround(pixel[c] * (1 - cover) + colour[c] * cover));
    }
  }
}

}  // namespace

void draw_box(Image& image, const TextBox& box, std::array<uint8_t, 3> colour, double thickness) {
  const std::array<Point, 4> corners = box.corners();
  for (size_t i = 0; i < 4; ++i) draw_side(image, corners[i], corners[(i + 1) % 4], colour, thickness);
}

}  // namespace rlx::vision
