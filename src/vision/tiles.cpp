#include "vision/tiles.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace rlx::vision {
namespace {

constexpr int64_t kStep = 32;      // the detector halves its picture five times
constexpr int64_t kOverlap = 128;  // half of it is what a tile sees of its neighbour's text

int64_t rounded(double value) { return static_cast<int64_t>(std::llround(value)); }

}  // namespace

TileAxis tile_axis(int64_t length, double scale) {
  TileAxis out;
  const double wanted = static_cast<double>(length) * scale;
  out.map = std::max<int64_t>(1, rounded(wanted / kStep)) * kStep;
  if (out.map <= kLongestTile) {
    out.tile = length;
    out.whole = out.map;
    out.starts = out.map_starts = {0};
    out.ends = {out.whole};
    return out;
  }
  const auto count = static_cast<int64_t>(std::ceil((wanted - kOverlap) / (kLongestTile - kOverlap)));
  const double each = (wanted + static_cast<double>((count - 1) * kOverlap)) / static_cast<double>(count);
  out.map = std::min(kLongestTile, static_cast<int64_t>(std::ceil(each / kStep)) * kStep);
  out.tile = std::clamp<int64_t>(rounded(static_cast<double>(out.map) / scale), 1, length);
  out.whole = std::max(out.map, rounded(static_cast<double>(length) / out.scale()));
  for (int64_t i = 0; i < count; ++i) {
    const double part = static_cast<double>(i) / static_cast<double>(std::max<int64_t>(1, count - 1));
    out.starts.push_back(rounded(part * static_cast<double>(length - out.tile)));
    out.map_starts.push_back(rounded(part * static_cast<double>(out.whole - out.map)));
    if (i > 0)
      out.ends.push_back((out.map_starts[static_cast<size_t>(i) - 1] + out.map + out.map_starts.back()) / 2);
  }
  out.ends.push_back(out.whole);
  return out;
}

void place_tile(std::span<const float> tile, const TileAxis& x, size_t column, const TileAxis& y, size_t row,
                std::span<float> whole) {
  const int64_t left = column == 0 ? 0 : x.ends[column - 1];
  const int64_t top = row == 0 ? 0 : y.ends[row - 1];
  for (int64_t v = top; v < y.ends[row]; ++v) {
    const float* from = tile.data() + (v - y.map_starts[row]) * x.map + (left - x.map_starts[column]);
    std::copy_n(from, x.ends[column] - left, whole.data() + v * x.whole + left);
  }
}

Image part_of(const Image& image, int64_t left, int64_t top, int64_t width, int64_t height) {
  Image out{.width = width, .height = height};
  out.rgb.reserve(static_cast<size_t>(3 * width * height));
  for (int64_t y = top; y < top + height; ++y) {
    const uint8_t* row = image.pixel(left, y);
    out.rgb.insert(out.rgb.end(), row, row + 3 * width);
  }
  return out;
}

bool is_blank(const Image& image) {
  constexpr int kFaint = 12;  // of 255
  std::array<uint8_t, 3> low = {255, 255, 255};
  std::array<uint8_t, 3> high = {0, 0, 0};
  for (size_t i = 0; i < image.rgb.size(); i += 3) {
    for (size_t c = 0; c < 3; ++c) {
      low[c] = std::min(low[c], image.rgb[i + c]);
      high[c] = std::max(high[c], image.rgb[i + c]);
    }
  }
  for (size_t c = 0; c < 3; ++c) {
    if (high[c] - low[c] >= kFaint) return false;
  }
  return true;
}

}  // namespace rlx::vision
