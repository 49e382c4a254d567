#include "vision/draw.h"

#include <algorithm>

#include "vision/text_boxes.h"

namespace rlx::vision {
namespace {

// Within the picture, also for places that are far away.
int64_t clamped(double at, int64_t size) {
  return static_cast<int64_t>(std::clamp(at, 0.0, static_cast<double>(size - 1)));
}

}  // namespace

double distance_to_line(Point place, Point from, Point to) {
  const Point side = to - from;
  const double square = dot(side, side);
  const double along = square == 0 ? 0 : std::clamp(dot(place - from, side) / square, 0.0, 1.0);
  return length(place - (from + side * along));
}

void cover_pixel(uint8_t* pixel, Colour colour, double cover) {
  for (size_t c = 0; c < 3; ++c)
    pixel[c] = static_cast<uint8_t>(std::lround(pixel[c] * (1 - cover) + colour[c] * cover));
}

void draw_line(Image& image, Point from, Point to, Colour colour, double thickness) {
  const double reach = thickness / 2 + 1;
  const int64_t left = clamped(std::min(from.x, to.x) - reach, image.width);
  const int64_t right = clamped(std::max(from.x, to.x) + reach, image.width);
  const int64_t top = clamped(std::min(from.y, to.y) - reach, image.height);
  const int64_t bottom = clamped(std::max(from.y, to.y) + reach, image.height);
  for (int64_t y = top; y <= bottom; ++y) {
    for (int64_t x = left; x <= right; ++x) {
      const Point center{static_cast<double>(x) + 0.5, static_cast<double>(y) + 0.5};
      // Smooth over one pixel at the edge.
      const double cover = std::clamp(thickness / 2 + 0.5 - distance_to_line(center, from, to), 0.0, 1.0);
      if (cover > 0) cover_pixel(image.pixel(x, y), colour, cover);
    }
  }
}

void draw_box(Image& image, const std::array<Point, 4>& corners, Colour colour, double thickness) {
  for (size_t i = 0; i < 4; ++i) draw_line(image, corners[i], corners[(i + 1) % 4], colour, thickness);
}

}  // namespace rlx::vision
