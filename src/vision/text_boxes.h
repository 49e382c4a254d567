// From a map of where text is to boxes around its lines.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "rlx/image.h"

namespace rlx::vision {

inline double dot(Point a, Point b) { return a.x * b.x + a.y * b.y; }
inline double cross(Point a, Point b) { return a.x * b.y - a.y * b.x; }
inline double length(Point a) { return std::hypot(a.x, a.y); }

// A line of text: from its upper left corner it runs to the right along `along`, and down along `down`, as
// its letters stand; in the picture these may be any two directions.
struct TextBox {
  Point origin;
  Point along;
  Point down;
  double score = 0;  // how sure it is that this is text, from 0 to 1

  Point center() const { return origin + (along + down) * 0.5; }
  // In the order in which one goes around it.
  std::array<Point, 4> corners() const {
    return {origin, origin + along, origin + along + down, origin + down};
  }
  TextBox upside_down() const { return {origin + along + down, along * -1, down * -1, score}; }
};

struct BoxOptions {
  float threshold = 0.3F;    // of the map: what counts as text
  double least_score = 0.5;  // mean of the map within a box
  double unclip =
      1.6;  // text is marked smaller than it is: area times this by perimeter is added on each side
  double least_side = 3;  // in pixels of the map, before that
  int64_t most_boxes = 1000;
};

// Boxes around the connected regions of a map with values from 0 to 1, in the map's pixels. Those of lines
// that run up or down are turned so that they read from top to bottom.
std::vector<TextBox> text_boxes(std::span<const float> map, int64_t width, int64_t height,
                                const BoxOptions& options = {});

// The rectangle of the smallest area around the points, along its side that is nearest to the x axis.
struct Rectangle {
  Point center;
  Point axis;        // of length 1; the other one is (-axis.y, axis.x)
  double along = 0;  // lengths of the sides
  double across = 0;
};
Rectangle smallest_rectangle(std::vector<Point> points);

// Boxes of a picture, and those of large lines that were found in the same picture made small. A large line
// that is not already there takes the place of the boxes in it, which are parts of its letters.
std::vector<TextBox> with_large_lines(std::vector<TextBox> boxes, const std::vector<TextBox>& large);

// As one reads: rows from the top, and each from the left, where most of the text is taken to stand upright:
// a page may be turned by any angle.
std::vector<size_t> reading_order(std::span<const TextBox> boxes);
void sort_for_reading(std::vector<TextBox>& boxes);

}  // namespace rlx::vision
