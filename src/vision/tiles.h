// Large pictures are looked at in overlapping parts of one size, whose maps are put together again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "rlx/image.h"

namespace rlx::vision {

// How a picture is cut along one of its axes, and where the parts of the map belong. All tiles have one size,
// so that one plan serves them.
struct TileAxis {
  int64_t tile = 0;                 // pixels of the picture in each tile
  int64_t map = 0;                  // pixels of the map that it becomes: a multiple of 32
  int64_t whole = 0;                // pixels of the whole map
  std::vector<int64_t> starts;      // of each tile, in the picture
  std::vector<int64_t> map_starts;  // and in the map
  std::vector<int64_t> ends;  // up to here the map is a tile's: the middle of what it shares with the next

  // Pixels of the picture for one of the map.
  double scale() const { return static_cast<double>(tile) / static_cast<double>(map); }
};

// No tile's map has a side longer than this: text that fits into one is found whatever its size.
inline constexpr int64_t kLongestTile = 960;

// `scale` is the number of the map's pixels for one of the picture, which has `length` of them.
TileAxis tile_axis(int64_t length, double scale);

// Writes the map of the tile in that column and row into the whole one, as far as it is this tile's.
void place_tile(std::span<const float> tile, const TileAxis& x, size_t column, const TileAxis& y, size_t row,
                std::span<float> whole);

Image part_of(const Image& image, int64_t left, int64_t top, int64_t width, int64_t height);

// Whether it has nothing that could be told from its background.
bool is_blank(const Image& image);

}  // namespace rlx::vision
