// Pictures of tables of numbers, with axes and a legend.
#pragma once

#include <string>
#include <vector>

#include "rlx/image.h"

namespace rlx::vision {

struct Tick {
  double at;  // along the axis, from 0 to 1
  std::string label;
};

struct HeatMap {
  int64_t columns = 0, rows = 0;
  std::vector<float> values;  // one column after the other, each from the bottom up
  double low = 0, high = 1;   // what the first and the last colour stand for
  std::vector<Tick> x, y, legend;
};

// Where the table lies in the picture.
inline constexpr int64_t kMapLeft = 70, kMapTop = 16, kMapWidth = 840, kMapHeight = 384;

Image draw_heat_map(const HeatMap& map);

}  // namespace rlx::vision
