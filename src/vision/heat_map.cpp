#include "vision/heat_map.h"

#include <algorithm>
#include <cmath>

#include "vision/colour_scale.h"
#include "vision/draw.h"
#include "vision/lettering.h"

namespace rlx::vision {
namespace {

constexpr int64_t kRight = 104, kBottom = 36;          // margins
constexpr int64_t kLegendGap = 18, kLegendWidth = 14;  // to the right of the map
constexpr double kLetters = 10;                        // pixels that digits are tall
constexpr double kTickLength = 5;
constexpr Colour kPaper = {255, 255, 255};
constexpr Colour kInk = {60, 60, 66};

void fill(Image& image, Colour colour) {
  for (int64_t i = 0; i < image.width * image.height; ++i)
    std::ranges::copy(colour, image.rgb.data() + 3 * i);
}

double value_at(const HeatMap& map, int64_t column, int64_t row) {
  return map.values[static_cast<size_t>(column * map.rows + row)];
}

// Of the cells that a pixel covers, the largest: a line that is thinner than a pixel stays visible. Of cells
// larger than pixels, one between neighbours.
double row_value(const HeatMap& map, int64_t column, double from, double to) {
  if (to - from >= 1) {
    const auto first = static_cast<int64_t>(from);
    const int64_t end = std::clamp(static_cast<int64_t>(std::ceil(to)), first + 1, map.rows);
    double largest = value_at(map, column, std::min(first, map.rows - 1));
    for (int64_t row = first; row < end; ++row) largest = std::max(largest, value_at(map, column, row));
    return largest;
  }
  const double centre = std::clamp((from + to) / 2 - 0.5, 0.0, static_cast<double>(map.rows - 1));
  const auto below = std::min(static_cast<int64_t>(centre), std::max<int64_t>(0, map.rows - 2));
  const int64_t above = std::min(below + 1, map.rows - 1);
  return std::lerp(value_at(map, column, below), value_at(map, column, above),
                   centre - static_cast<double>(below));
}

void draw_table(Image& image, const HeatMap& map) {
  const auto scaled = [](int64_t i, int64_t cells, int64_t pixels) {
    return static_cast<double>(i * cells) / static_cast<double>(pixels);
  };
  for (int64_t x = 0; x < kMapWidth; ++x) {
    const double at = std::clamp(scaled(2 * x + 1, map.columns, 2 * kMapWidth) - 0.5, 0.0,
                                 static_cast<double>(map.columns - 1));
    const auto left = static_cast<int64_t>(at);
    const int64_t right = std::min(left + 1, map.columns - 1);
    for (int64_t y = 0; y < kMapHeight; ++y) {
      const double from = scaled(y, map.rows, kMapHeight);
      const double to = scaled(y + 1, map.rows, kMapHeight);
      const double value = std::lerp(row_value(map, left, from, to), row_value(map, right, from, to),
                                     at - static_cast<double>(left));
      const Colour colour = scale_colour((value - map.low) / (map.high - map.low));
      std::ranges::copy(colour, image.pixel(kMapLeft + x, kMapTop + kMapHeight - 1 - y));
    }
  }
}

// Marks to the right of x, or to its left, with their labels.
void draw_ticks(Image& image, const std::vector<Tick>& ticks, double x, double direction) {
  for (const Tick& tick : ticks) {
    const double y = kMapTop + kMapHeight * (1 - tick.at);
    draw_line(image, {x, y}, {x + direction * kTickLength, y}, kInk, 1);
    draw_text(image, {x + direction * (kTickLength + 5), y + kLetters / 2}, tick.label, kLetters, kInk,
              direction > 0 ? Anchor::left : Anchor::right);
  }
}

void draw_x_axis(Image& image, const HeatMap& map) {
  constexpr double kBase = kMapTop + kMapHeight;
  double free_from = 0;  // labels do not touch
  for (const Tick& tick : map.x) {
    const double x = kMapLeft + kMapWidth * tick.at;
    const double half = text_width(tick.label, kLetters) / 2;
    draw_line(image, {x, kBase}, {x, kBase + kTickLength}, kInk, 1);
    if (x - half < free_from) continue;
    draw_text(image, {x, kBase + kTickLength + 6 + kLetters}, tick.label, kLetters, kInk, Anchor::centre);
    free_from = x + half + kLetters;
  }
}

void draw_legend(Image& image, const HeatMap& map) {
  constexpr int64_t kLeft = kMapLeft + kMapWidth + kLegendGap;
  for (int64_t y = 0; y < kMapHeight; ++y) {
    const Colour colour = scale_colour((static_cast<double>(y) + 0.5) / kMapHeight);
    for (int64_t x = 0; x < kLegendWidth; ++x)
      std::ranges::copy(colour, image.pixel(kLeft + x, kMapTop + kMapHeight - 1 - y));
  }
  draw_ticks(image, map.legend, kLeft + kLegendWidth, 1);
}

}  // namespace

Image draw_heat_map(const HeatMap& map) {
  Image image{.width = kMapLeft + kMapWidth + kRight, .height = kMapTop + kMapHeight + kBottom};
  image.rgb.resize(static_cast<size_t>(3 * image.width * image.height));
  fill(image, kPaper);
  draw_table(image, map);
  draw_ticks(image, map.y, kMapLeft, -1);
  draw_x_axis(image, map);
  draw_legend(image, map);
  return image;
}

}  // namespace rlx::vision
