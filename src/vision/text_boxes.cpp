#include "vision/text_boxes.h"

#include <algorithm>
#include <limits>
#include <numbers>
#include <numeric>

namespace rlx::vision {
namespace {

// --- Connected regions ---

// Neighbours in a row that are text: those from `begin` to before `end`.
struct Stretch {
  int64_t y;
  int64_t begin;
  int64_t end;
};

class Sets {
 public:
  explicit Sets(size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), size_t{0}); }
  size_t find(size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void join(size_t a, size_t b) { parent_[find(a)] = find(b); }

 private:
  std::vector<size_t> parent_;
};

std::vector<Stretch> stretches_of(std::span<const float> map, int64_t width, int64_t height,
                                  float threshold) {
  std::vector<Stretch> out;
  for (int64_t y = 0; y < height; ++y) {
    const float* row = map.data() + y * width;
    for (int64_t x = 0; x < width; ++x) {
      if (!(row[x] > threshold)) continue;
      const int64_t begin = x;
      while (x < width && row[x] > threshold) ++x;
      out.push_back({y, begin, x});
    }
  }
  return out;
}

// Pixels that touch, also at a corner, belong together.
std::vector<std::vector<Stretch>> regions_of(const std::vector<Stretch>& all) {
  Sets sets(all.size());
  size_t above = 0;  // the first stretch that may touch the current one from the row before
  for (size_t i = 0; i < all.size(); ++i) {
    const Stretch& s = all[i];
    while (above < i && (all[above].y < s.y - 1 || (all[above].y == s.y - 1 && all[above].end < s.begin)))
      ++above;
    for (size_t k = above; k < i && all[k].y == s.y - 1 && all[k].begin <= s.end; ++k) sets.join(i, k);
  }
  std::vector<std::vector<Stretch>> out;
  std::vector<size_t> number(all.size(), all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    size_t& n = number[sets.find(i)];
    if (n == all.size()) {
      n = out.size();
      out.emplace_back();
    }
    out[n].push_back(all[i]);
  }
  return out;
}

// --- Rectangles ---

// Counterclockwise, without points on its sides.
std::vector<Point> convex_hull(std::vector<Point> points) {
  std::ranges::sort(points, [](Point a, Point b) { return a.x != b.x ? a.x < b.x : a.y < b.y; });
  std::vector<Point> hull;
  const auto half = [&](auto begin, auto end) {
    const size_t base = hull.size();
    for (auto p = begin; p != end; ++p) {
      while (hull.size() >= base + 2 && cross(hull.back() - hull[hull.size() - 2], *p - hull.back()) <= 0)
        hull.pop_back();
      hull.push_back(*p);
    }
    hull.pop_back();  // it begins the other half
  };
  if (points.size() < 3) return points;
  half(points.begin(), points.end());
  half(points.rbegin(), points.rend());
  return hull;
}

Point perpendicular(Point axis) { return {-axis.y, axis.x}; }

Rectangle around(const std::vector<Point>& points, Point axis) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double low[2] = {kInfinity, kInfinity};
  double high[2] = {-kInfinity, -kInfinity};
  const Point axes[2] = {axis, perpendicular(axis)};
  for (const Point p : points) {
    for (int i = 0; i < 2; ++i) {
      low[i] = std::min(low[i], dot(p, axes[i]));
      high[i] = std::max(high[i], dot(p, axes[i]));
    }
  }
  return {axes[0] * ((low[0] + high[0]) / 2) + axes[1] * ((low[1] + high[1]) / 2), axis, high[0] - low[0],
          high[1] - low[1]};
}

// The mean of the map over the pixels whose centres lie in the rectangle.
double score_of(const Rectangle& r, std::span<const float> map, int64_t width, int64_t height) {
  constexpr double kEdge = 1e-6;  // centres on the edge belong to it
  const double half_x = (std::fabs(r.axis.x) * r.along + std::fabs(r.axis.y) * r.across) / 2;
  const double half_y = (std::fabs(r.axis.y) * r.along + std::fabs(r.axis.x) * r.across) / 2;
  const auto first = [](double at) {
    return std::max<int64_t>(0, static_cast<int64_t>(std::floor(at - 0.5)));
  };
  const auto last = [](double at, int64_t size) {
    return std::min<int64_t>(size - 1, static_cast<int64_t>(std::ceil(at)));
  };
  double sum = 0;
  int64_t count = 0;
  for (int64_t y = first(r.center.y - half_y); y <= last(r.center.y + half_y, height); ++y) {
    for (int64_t x = first(r.center.x - half_x); x <= last(r.center.x + half_x, width); ++x) {
      const Point from_center = Point{static_cast<double>(x) + 0.5, static_cast<double>(y) + 0.5} - r.center;
      if (std::fabs(dot(from_center, r.axis)) > r.along / 2 + kEdge ||
          std::fabs(dot(from_center, perpendicular(r.axis))) > r.across / 2 + kEdge)
        continue;
      sum += static_cast<double>(map[static_cast<size_t>(y * width + x)]);
      ++count;
    }
  }
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

TextBox as_text(const Rectangle& r, double score) {
  constexpr double kUpright = 1.5;  // so much higher than wide, it is a line that runs down
  const Point right = r.axis * r.along;
  const Point down = perpendicular(r.axis) * r.across;
  const Point corner = r.center - (right + down) * 0.5;
  if (r.across < kUpright * r.along) return {corner, right, down, score};
  return {corner + right, down, right * -1, score};
}

// --- Lines beside each other ---

bool is_within(Point p, const TextBox& box) {
  const double area = cross(box.along, box.down);
  if (area == 0) return false;
  const double along = cross(p - box.origin, box.down) / area;
  const double down = cross(box.along, p - box.origin) / area;
  return along >= 0 && along <= 1 && down >= 0 && down <= 1;
}

// How much of a box lies in others, by places that are spread over it.
double covered_part(const TextBox& box, std::span<const TextBox> others) {
  constexpr int kAcross = 32;
  constexpr int kDown = 8;
  int count = 0;
  for (int j = 0; j < kDown; ++j) {
    for (int i = 0; i < kAcross; ++i) {
      const Point p = box.origin + box.along * ((i + 0.5) / kAcross) + box.down * ((j + 0.5) / kDown);
      if (std::ranges::any_of(others, [&](const TextBox& b) { return is_within(p, b); })) ++count;
    }
  }
  return static_cast<double>(count) / (kAcross * kDown);
}

// Where most of the text runs to: of right, down, left and up the one that has the longest lines, and of the
// angles of these the one in the middle.
Point reading_direction(std::span<const TextBox> boxes) {
  constexpr double kQuarter = std::numbers::pi / 2;
  struct Run {
    double angle;
    double length;
  };
  std::array<std::vector<Run>, 4> runs;
  std::array<double, 4> lengths = {};
  for (const TextBox& b : boxes) {
    const double angle = std::atan2(b.along.y, b.along.x);
    const double quarter = std::round(angle / kQuarter);
    const auto side = static_cast<size_t>(static_cast<int>(quarter) + 4) % 4;
    runs[side].push_back({angle - quarter * kQuarter, length(b.along)});
    lengths[side] += length(b.along);
  }
  const auto side = static_cast<size_t>(std::ranges::max_element(lengths) - lengths.begin());
  std::vector<Run>& those = runs[side];
  if (those.empty()) return {1, 0};
  std::ranges::sort(those, {}, &Run::angle);
  double before = 0;
  size_t middle = 0;
  while (middle + 1 < those.size() && before + those[middle].length < lengths[side] / 2)
    before += those[middle++].length;
  const double angle = those[middle].angle + static_cast<double>(side) * kQuarter;
  return {std::cos(angle), std::sin(angle)};
}

}  // namespace

Rectangle smallest_rectangle(std::vector<Point> points) {
  const std::vector<Point> hull = convex_hull(std::move(points));
  Rectangle best = around(hull, {1, 0});
  for (size_t i = 0; hull.size() >= 2 && i < hull.size(); ++i) {
    const Point side = hull[(i + 1) % hull.size()] - hull[i];
    if (length(side) == 0) continue;
    Point axis = side * (1 / length(side));
    if (std::fabs(axis.x) < std::fabs(axis.y)) axis = perpendicular(axis);
    if (axis.x < 0) axis = axis * -1;
    const Rectangle r = around(hull, axis);
    if (r.along * r.across < best.along * best.across) best = r;
  }
  return best;
}

std::vector<TextBox> text_boxes(std::span<const float> map, int64_t width, int64_t height,
                                const BoxOptions& options) {
  std::vector<std::vector<Stretch>> regions = regions_of(stretches_of(map, width, height, options.threshold));
  std::vector<TextBox> out;
  for (const std::vector<Stretch>& region : regions) {
    std::vector<Point> ends;
    for (const Stretch& s : region) {
      const double y = static_cast<double>(s.y) + 0.5;
      ends.push_back({static_cast<double>(s.begin) + 0.5, y});
      if (s.end > s.begin + 1) ends.push_back({static_cast<double>(s.end) - 0.5, y});
    }
    Rectangle r = smallest_rectangle(std::move(ends));
    if (std::min(r.along, r.across) < options.least_side) continue;
    const double score = score_of(r, map, width, height);
    if (score < options.least_score) continue;
    const double margin = r.along * r.across * options.unclip / (2 * (r.along + r.across));
    r.along += 2 * margin;
    r.across += 2 * margin;
    out.push_back(as_text(r, score));
    if (std::ssize(out) >= options.most_boxes) break;
  }
  return out;
}

std::vector<TextBox> with_large_lines(std::vector<TextBox> boxes, const std::vector<TextBox>& large) {
  // Lines of a paragraph cover most of a box around all of them; of letters that are too large for a tile
  // only bits are found.
  constexpr double kSeen = 0.3;
  std::vector<TextBox> added;
  for (const TextBox& line : large) {
    if (covered_part(line, boxes) >= kSeen) continue;
    std::erase_if(boxes, [&](const TextBox& b) { return is_within(b.center(), line); });
    added.push_back(line);
  }
  boxes.insert(boxes.end(), added.begin(), added.end());
  return boxes;
}

std::vector<size_t> reading_order(std::span<const TextBox> boxes) {
  const Point right = reading_direction(boxes);
  const Point down = perpendicular(right);
  const auto across = [&](size_t i) { return dot(boxes[i].center(), right); };
  const auto below = [&](size_t i) { return dot(boxes[i].center(), down); };
  const auto height = [&](size_t i) {
    return std::fabs(dot(boxes[i].along, down)) + std::fabs(dot(boxes[i].down, down));
  };
  std::vector<size_t> order(boxes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, below);
  for (auto row = order.begin(); row != order.end();) {
    // A speck between large letters is no part of their row, nor its end.
    const auto distance = [&, first = *row](size_t i) { return below(i) - below(first); };
    const double reach = height(*row) / 2;
    const auto end = std::find_if(row + 1, order.end(), [&](size_t i) { return distance(i) >= reach; });
    const auto rest =
        std::stable_partition(row + 1, end, [&](size_t i) { return distance(i) < height(i) / 2; });
    std::ranges::stable_sort(row, rest, {}, across);
    row = rest;
  }
  return order;
}

void sort_for_reading(std::vector<TextBox>& boxes) {
  std::vector<TextBox> sorted;
  for (const size_t i : reading_order(boxes)) sorted.push_back(boxes[i]);
  boxes = std::move(sorted);
}

}  // namespace rlx::vision
