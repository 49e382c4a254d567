// Reading pictures. Link rlx::media.
//
//   const rlx::vision::Image image = rlx::vision::read_image("photo.jpg");
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rlx/export.h"

RLX_EXPORT_BEGIN
namespace rlx::vision {

// 8 bits of red, green and blue for each pixel, whatever the file has.
struct Image {
  int64_t width = 0;
  int64_t height = 0;
  std::vector<uint8_t> rgb = {};  // rows from the top, three bytes for each pixel

  uint8_t* pixel(int64_t x, int64_t y) { return rgb.data() + 3 * (y * width + x); }
  const uint8_t* pixel(int64_t x, int64_t y) const { return rgb.data() + 3 * (y * width + x); }
};

// A place in a picture: (0, 0) is its upper left corner, and pixel (x, y) covers x to x + 1 and y to y + 1.
struct Point {
  double x = 0;
  double y = 0;

  friend Point operator+(Point a, Point b) { return {a.x + b.x, a.y + b.y}; }
  friend Point operator-(Point a, Point b) { return {a.x - b.x, a.y - b.y}; }
  friend Point operator*(Point a, double s) { return {a.x * s, a.y * s}; }
};

// Larger pictures are refused before memory is taken for them.
inline constexpr int64_t kMaxPixels = int64_t{1} << 26;

// A PNG or JPEG file, known by its first bytes. What is transparent becomes white, 16 bits become 8, and a
// JPEG is turned as its camera says. ErrorKind::invalid_file for a file that is no picture or is broken, and
// ErrorKind::unsupported for one of another kind; both begin with the name.
Image read_image(const std::string& path);
// The same for a file in memory; `name` is for messages.
Image decode_image(std::span<const std::byte> bytes, const std::string& name = "the picture");

}  // namespace rlx::vision
RLX_EXPORT_END
