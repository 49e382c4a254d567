// Curves on logarithmic axes, as an SVG document that needs no other file.
#pragma once

#include <string>
#include <vector>

namespace rlx::measure {

struct LogPlot {
  struct Point {
    double x, y;
  };
  struct Curve {
    std::string name;
    std::vector<Point> points = {};  // those that are not positive are left out
    bool beside = false;             // belongs to the curve before it: its colour, dashed
  };
  std::string title;
  std::string x, y;  // what the axes are
  std::vector<Curve> curves = {};

  std::string svg() const;
};

}  // namespace rlx::measure
