// A glyph is a few strokes on a grid on which digits are 4 wide and 6 tall, from the top down to the base
// line. Strokes are broken lines, or smooth curves through their points.
#include "vision/lettering.h"

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

namespace rlx::vision {
namespace {

constexpr double kTall = 6;
constexpr double kGap = 1.7;        // between glyphs
constexpr double kThickness = 0.8;  // of strokes

enum class Stroke { broken, smooth, loop };

struct Line {
  Stroke stroke;
  std::vector<Point> points;
};

struct Glyph {
  double width = 4;
  std::vector<Line> lines = {};
};

// Catmull and Rom's curve from b to c, between a and d.
Point on_curve(Point a, Point b, Point c, Point d, double t) {
  return (b * 2 + (c - a) * t + (a * 2 - b * 5 + c * 4 - d) * (t * t) +
          (b * 3 - a - c * 3 + d) * (t * t * t)) *
         0.5;
}

std::vector<Point> traced(const Line& line) {
  if (line.stroke == Stroke::broken) return line.points;
  const auto count = static_cast<int>(line.points.size());
  const bool loop = line.stroke == Stroke::loop;
  const auto point = [&](int i) {
    return line.points[static_cast<size_t>(loop ? (i + count) % count : std::clamp(i, 0, count - 1))];
  };
  constexpr int kSteps = 6;
  std::vector<Point> out = {point(0)};
  for (int i = 0; i < (loop ? count : count - 1); ++i) {
    for (int s = 1; s <= kSteps; ++s)
      out.push_back(on_curve(point(i - 1), point(i), point(i + 1), point(i + 2), s / double{kSteps}));
  }
  return out;
}

// A 6 upside down is a 9.
Glyph turned(const Glyph& glyph) {
  Glyph out = glyph;
  for (Line& line : out.lines) {
    for (Point& p : line.points) p = {glyph.width - p.x, kTall - p.y};
  }
  return out;
}

std::map<char, Glyph> make_glyphs() {
  using enum Stroke;
  const Line bowl{loop,
                  {{1.6, 2}, {2.8, 2.6}, {3.2, 4}, {2.8, 5.4}, {1.6, 6}, {0.4, 5.4}, {0, 4}, {0.4, 2.6}}};
  std::map<char, Glyph> g;
  g[' '] = {.width = 1.2};
  g['.'] = {.width = 0.5, .lines = {{broken, {{0.25, 5.9}, {0.25, 5.95}}}}};
  g[':'] = {.width = 0.5,
            .lines = {{broken, {{0.25, 2.4}, {0.25, 2.45}}}, {broken, {{0.25, 5.7}, {0.25, 5.75}}}}};
  g['-'] = {.width = 2.4, .lines = {{broken, {{0, 3.4}, {2.4, 3.4}}}}};
  g['0'] = {.lines = {{loop, {{2, 0}, {3.5, 1}, {4, 3}, {3.5, 5}, {2, 6}, {0.5, 5}, {0, 3}, {0.5, 1}}}}};
  g['1'] = {.width = 2.6, .lines = {{broken, {{0.4, 1.4}, {2.1, 0}, {2.1, 6}}}}};
  g['2'] = {
      .lines = {
          {smooth, {{0.2, 1.5}, {0.8, 0.4}, {2, 0}, {3.3, 0.5}, {3.7, 1.7}, {3, 3.1}, {1.6, 4.6}, {0.1, 6}}},
          {broken, {{0.1, 6}, {4, 6}}}}};
  g['3'] = {
      .lines = {{smooth, {{0.2, 1}, {1, 0.2}, {2, 0}, {3.2, 0.4}, {3.6, 1.5}, {3, 2.5}, {1.5, 2.85}}},
                {smooth, {{1.5, 2.85}, {3.2, 3.2}, {3.9, 4.3}, {3.4, 5.5}, {2, 6}, {0.8, 5.8}, {0, 5}}}}};
  g['4'] = {.lines = {{broken, {{3.1, 6}, {3.1, 0}, {0, 4.3}, {4.1, 4.3}}}}};
  g['5'] = {.lines = {{broken, {{3.6, 0}, {0.7, 0}, {0.4, 2.7}}},
                      {smooth,
                       {{0.4, 2.7},
                        {1.2, 2.25},
                        {2.2, 2.1},
                        {3.4, 2.6},
                        {3.9, 3.9},
                        {3.4, 5.3},
                        {2, 6},
                        {0.8, 5.8},
                        {0, 5.1}}}}};
  g['6'] = {
      .lines = {
          {smooth, {{3.5, 0.7}, {2.4, 0}, {1.2, 0.5}, {0.4, 1.9}, {0.1, 4.1}}},
          {loop,
           {{2, 2.3}, {3.4, 2.8}, {3.9, 4.1}, {3.4, 5.5}, {2, 6}, {0.6, 5.4}, {0.1, 4.1}, {0.6, 2.9}}}}};
  g['7'] = {.lines = {{broken, {{0, 0}, {4, 0}, {1.5, 6}}}}};
  g['8'] = {
      .lines = {
          {loop, {{2, 0}, {3.2, 0.4}, {3.6, 1.4}, {3.1, 2.4}, {2, 2.8}, {0.9, 2.4}, {0.4, 1.4}, {0.8, 0.4}}},
          {loop, {{2, 2.8}, {3.4, 3.3}, {4, 4.4}, {3.4, 5.5}, {2, 6}, {0.6, 5.5}, {0, 4.4}, {0.6, 3.3}}}}};
  g['9'] = turned(g['6']);
  g['k'] = {
      .width = 3,
      .lines = {{broken, {{0, 0}, {0, 6}}}, {broken, {{2.8, 2}, {0, 4.5}}}, {broken, {{1.1, 3.6}, {3, 6}}}}};
  g['H'] = {
      .lines = {{broken, {{0, 0}, {0, 6}}}, {broken, {{4, 0}, {4, 6}}}, {broken, {{0, 2.9}, {4, 2.9}}}}};
  g['z'] = {.width = 2.9, .lines = {{broken, {{0, 2.1}, {2.9, 2.1}, {0, 6}, {2.9, 6}}}}};
  g['s'] = {.width = 2.9,
            .lines = {{smooth,
                       {{2.7, 2.7},
                        {2, 2.1},
                        {1, 2.1},
                        {0.2, 2.9},
                        {0.8, 3.7},
                        {2.2, 4.2},
                        {2.8, 5},
                        {2.1, 5.9},
                        {1, 6},
                        {0.1, 5.3}}}}};
  g['d'] = {.width = 3.2, .lines = {{broken, {{3.2, 0}, {3.2, 6}}}, bowl}};
  g['B'] = {.lines = {{broken, {{2.2, 6}, {0, 6}, {0, 0}, {2.1, 0}}},
                      {smooth, {{2.1, 0}, {3.3, 0.4}, {3.6, 1.4}, {3.3, 2.5}, {2.1, 2.9}}},
                      {broken, {{0, 2.9}, {2.2, 2.9}}},
                      {smooth, {{2.2, 2.9}, {3.6, 3.4}, {4, 4.4}, {3.6, 5.5}, {2.2, 6}}}}};
  for (auto& [letter, glyph] : g) {
    for (Line& line : glyph.lines) line = {broken, traced(line)};
  }
  return g;
}

const Glyph* find_glyph(char c) {
  static const std::map<char, Glyph> glyphs = make_glyphs();
  const auto it = glyphs.find(c);
  return it == glyphs.end() ? nullptr : &it->second;
}

double distance_to_glyph(const Glyph& glyph, Point p) {
  double nearest = std::numeric_limits<double>::infinity();
  for (const Line& line : glyph.lines) {
    for (size_t i = 1; i < line.points.size(); ++i)
      nearest = std::min(nearest, distance_to_line(p, line.points[i - 1], line.points[i]));
  }
  return nearest;
}

void draw_glyph(Image& image, const Glyph& glyph, Point top_left, double scale, Colour colour) {
  const auto first = [](double v) { return std::max<int64_t>(0, static_cast<int64_t>(v)); };
  const int64_t right = std::min(image.width, first(top_left.x + (glyph.width + 1) * scale + 1));
  const int64_t bottom = std::min(image.height, first(top_left.y + (kTall + 1) * scale + 1));
  for (int64_t y = first(top_left.y - scale); y < bottom; ++y) {
    for (int64_t x = first(top_left.x - scale); x < right; ++x) {
      const Point centre{static_cast<double>(x) + 0.5, static_cast<double>(y) + 0.5};
      const double distance = distance_to_glyph(glyph, (centre - top_left) * (1 / scale)) * scale;
      const double cover = std::clamp(kThickness * scale / 2 + 0.5 - distance, 0.0, 1.0);
      if (cover > 0) cover_pixel(image.pixel(x, y), colour, cover);
    }
  }
}

}  // namespace

double text_width(std::string_view text, double height) {
  double width = 0;
  for (const char c : text) {
    if (const Glyph* glyph = find_glyph(c)) width += (width > 0 ? kGap : 0) + glyph->width;
  }
  return width * height / kTall;
}

void draw_text(Image& image, Point at, std::string_view text, double height, Colour colour, Anchor anchor) {
  const double scale = height / kTall;
  const double part = anchor == Anchor::left ? 0 : anchor == Anchor::centre ? 0.5 : 1;
  Point top_left{at.x - part * text_width(text, height), at.y - height};
  for (const char c : text) {
    const Glyph* glyph = find_glyph(c);
    if (!glyph) continue;
    draw_glyph(image, *glyph, top_left, scale, colour);
    top_left.x += (glyph->width + kGap) * scale;
  }
}

}  // namespace rlx::vision
