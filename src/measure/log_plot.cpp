#include "measure/log_plot.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"

namespace rlx::measure {
namespace {

constexpr double kWidth = 900, kHeight = 560;
constexpr double kLeft = 80, kRight = 640, kTop = 50, kBottom = 490;
// Told apart by those who see few colours, too.
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                    "#b8860b", "#56b4e9", "#000000", "#7f3fbf"};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else {
      out += c;
    }
  }
  return out;
}

// Whole decades around some values.
struct Axis {
  int first = 0, last = 1;  // exponents of ten
  double begin, end;        // on the paper

  void cover(const std::vector<double>& values) {
    if (values.empty()) return;
    const auto [low, high] = std::ranges::minmax(values);
    first = static_cast<int>(std::floor(std::log10(low) + 1e-9));
    last = std::max(first + 1, static_cast<int>(std::ceil(std::log10(high) - 1e-9)));
  }
  double at(double value) const {
    return begin + (end - begin) * (std::log10(value) - first) / (last - first);
  }
};

std::string decade(int exponent) {
  if (exponent >= -3 && exponent <= 3) return formatted("{:g}", std::pow(10, exponent));
  return formatted("10<tspan dy=\"-6\" font-size=\"10\">{}</tspan>", exponent);
}

std::string line(double x1, double y1, double x2, double y2, const char* colour) {
  return formatted("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x1, y1,
                   x2, y2, colour);
}

std::string label(double x, double y, const char* anchor, const std::string& text,
                  const std::string& more = "") {
  return formatted("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor, more,
                   text);
}

std::string axes(const LogPlot& plot, const Axis& x, const Axis& y) {
  std::string out;
  for (int e = x.first; e <= x.last; ++e) {
    const double at = x.at(std::pow(10, e));
    out += line(at, kTop, at, kBottom, "#dddddd") + label(at, kBottom + 20, "middle", decade(e));
  }
  for (int e = y.first; e <= y.last; ++e) {
    const double at = y.at(std::pow(10, e));
    out += line(kLeft, at, kRight, at, "#dddddd") + label(kLeft - 8, at + 5, "end", decade(e));
  }
  out += formatted("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#555555\"/>\n",
                   kLeft, kTop, kRight - kLeft, kBottom - kTop);
  const double middle = (kTop + kBottom) / 2;
  return out + label((kLeft + kRight) / 2, kBottom + 48, "middle", escaped(plot.x)) +
         label(24, middle, "middle", escaped(plot.y),
               formatted(" transform=\"rotate(-90 24 {:.1f})\"", middle));
}

}  // namespace

std::string LogPlot::svg() const {
  std::vector<std::vector<Point>> drawn;
  std::vector<double> xs, ys;
  for (const Curve& c : curves) {
    std::vector<Point>& points = drawn.emplace_back();
    for (const Point& p : c.points) {
      if (!(p.x > 0 && p.y > 0)) continue;
      points.push_back(p);
      xs.push_back(p.x);
      ys.push_back(p.y);
    }
  }
  Axis along{.begin = kLeft, .end = kRight};
  Axis up{.begin = kBottom, .end = kTop};
  along.cover(xs);
  up.cover(ys);
  std::string out = formatted(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\" font-size=\"14\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
      kWidth, kHeight);
  out += label(kLeft, 30, "start", escaped(title), " font-size=\"17\"") + axes(*this, along, up);
  size_t colours = 0;
  for (size_t i = 0; i < curves.size(); ++i) {
    if (!curves[i].beside) ++colours;
    const char* colour = kColours[(std::max<size_t>(colours, 1) - 1) % std::size(kColours)];
    const char* dashes = curves[i].beside ? " stroke-dasharray=\"5 4\"" : "";
    std::string path;
    for (const Point& p : drawn[i]) path += formatted("{:.1f},{:.1f} ", along.at(p.x), up.at(p.y));
    if (!path.empty()) path.pop_back();
    out += formatted("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}/>\n", path,
                     colour, dashes);
    for (const Point& p : drawn[i]) {
      if (!curves[i].beside)
        out += formatted("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"/>\n", along.at(p.x),
                         up.at(p.y), colour);
    }
    const double at = kTop + 12 + 22 * static_cast<double>(i);
    out += formatted(
        "<line x1=\"{0}\" y1=\"{2}\" x2=\"{1}\" y2=\"{2}\" stroke=\"{3}\" stroke-width=\"2\"{4}/>\n",
        kRight + 16, kRight + 44, at, colour, dashes);
    out += label(kRight + 52, at + 5, "start", escaped(curves[i].name),
                 curves[i].beside ? " font-size=\"12\"" : "");
  }
  return out + "</svg>\n";
}

}  // namespace rlx::measure
