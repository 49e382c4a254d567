// Gaussian splatting in double, pixel by pixel.
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <optional>

#include "ops/splatting/splat.h"

namespace rlx {
namespace {

using Vec = std::array<double, 3>;
using Place = std::array<double, 2>;

double dot(const Vec& a, const Vec& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }
double length(const Vec& a) { return std::sqrt(dot(a, a)); }
Vec minus(const Vec& a, const Vec& b) { return {a[0] - b[0], a[1] - b[1], a[2] - b[2]}; }
Vec times(const Vec& a, double s) { return {a[0] * s, a[1] * s, a[2] * s}; }
Vec cross(const Vec& a, const Vec& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}
Vec unit(const Vec& a) {
  const double size = length(a);
  return size < 1e-8 ? Vec{0, 0, 1} : times(a, 1 / size);
}
Vec vec_at(const std::vector<double>& v, size_t i) { return {v[i], v[i + 1], v[i + 2]}; }

struct Camera {
  Vec position, forward, right, up, background;
  double focal, near, far;
  Place middle;
  std::vector<double> lens;

  Camera(const std::vector<double>& c, const SplatOptions& o)
      : position(vec_at(c, 0)),
        forward(unit(minus(vec_at(c, 3), position))),
        right(unit(cross(vec_at(c, 6), forward))),
        up(unit(cross(forward, right))),
        background(vec_at(c, 12)),
        focal(0.5 * static_cast<double>(o.height) / std::tan(c[9] * std::numbers::pi / 360)),
        near(std::max(c[10], 1e-4)),
        far(c[11] > c[10] ? c[11] : std::numeric_limits<double>::infinity()),
        middle{static_cast<double>(o.width) / 2, static_cast<double>(o.height) / 2},
        lens(c.begin() + kCameraLength, c.end()) {}

  // Where the ray through the middle of a pixel meets the plane at depth 1.
  Place ray(int64_t x, int64_t y) const {
    const Place seen = {(static_cast<double>(x) + 0.5 - middle[0]) / focal,
                        (static_cast<double>(y) + 0.5 - middle[1]) / focal};
    return lens.empty() ? seen : undistorted(seen);
  }

 private:
  // What a place becomes through the lens, and how it changes with the place: xx, xy, yy.
  struct Seen {
    Place at;
    Vec slope;
  };
  Seen through_lens(const Place& p) const {
    const auto [x, y] = p;
    const double k1 = lens[0], k2 = lens[1], p1 = lens[2], p2 = lens[3], k3 = lens[4], k4 = lens[5],
                 k5 = lens[6], k6 = lens[7];
    const double r = x * x + y * y;
    const double bottom = 1 + k4 * r + k5 * r * r + k6 * r * r * r;
    const double g = (1 + k1 * r + k2 * r * r + k3 * r * r * r) / bottom;
    const double slope = (k1 + 2 * k2 * r + 3 * k3 * r * r - g * (k4 + 2 * k5 * r + 3 * k6 * r * r)) / bottom;
    return {
        .at = {x * g + 2 * p1 * x * y + p2 * (r + 2 * x * x), y * g + p1 * (r + 2 * y * y) + 2 * p2 * x * y},
        .slope = {g + 2 * x * x * slope + 2 * p1 * y + 6 * p2 * x,
                  2 * x * y * slope + 2 * p1 * x + 2 * p2 * y,
                  g + 2 * y * y * slope + 6 * p1 * y + 2 * p2 * x}};
  }
  Place undistorted(const Place& seen) const {
    Place p = seen;
    for (int step = 0; step < 8; ++step) {
      const Seen s = through_lens(p);
      const Place error = {s.at[0] - seen[0], s.at[1] - seen[1]};
      const double determinant = s.slope[0] * s.slope[2] - s.slope[1] * s.slope[1];
      p[0] -= (s.slope[2] * error[0] - s.slope[1] * error[1]) / determinant;
      p[1] -= (s.slope[0] * error[1] - s.slope[1] * error[0]) / determinant;
    }
    return p;
  }
};

struct Box {
  Place low, high;
  bool meets(const Box& b) const {
    return low[0] <= b.high[0] && low[1] <= b.high[1] && b.low[0] <= high[0] && b.low[1] <= high[1];
  }
};
constexpr Box kNoBox = {{1e30, 1e30}, {-1e30, -1e30}};
constexpr Box kEverything = {{-1e30, -1e30}, {1e30, 1e30}};

// Around the rays of the pixels of a square.
Box bounds_of(const Camera& camera, const SplatOptions& o, int64_t x, int64_t y, int64_t side) {
  Box box = kNoBox;
  for (int64_t j = y; j < std::min(y + side, o.height); ++j) {
    for (int64_t i = x; i < std::min(x + side, o.width); ++i) {
      const Place ray = camera.ray(i, j);
      if (std::isnan(ray[0] + ray[1])) continue;
      for (size_t axis = 0; axis < 2; ++axis) {
        box.low[axis] = std::min(box.low[axis], ray[axis]);
        box.high[axis] = std::max(box.high[axis], ray[axis]);
      }
    }
  }
  return box;
}

using Record = std::array<double, splat_record::kLength>;

class Projection {
 public:
  Projection(RefContext& r, const SplatOptions& o) : r_(r), o_(o), camera_(r.in(5).real, o) {}

  const Camera& camera() const { return camera_; }

  // Nothing for a splat that cannot be seen.
  std::optional<Record> splat(size_t i) const {
    using namespace splat_record;
    const Vec d = minus(vec_at(r_.in(0).real, 3 * i), camera_.position);
    const double z = dot(d, camera_.forward);
    if (!(z > camera_.near && z < camera_.far)) return std::nullopt;
    const Vec s = scales(i);
    const std::array<Vec, 3> axes = rotation(i);
    const auto local = [&](const Vec& v) {
      return Vec{dot(v, axes[0]) / s[0], dot(v, axes[1]) / s[1], dot(v, axes[2]) / s[2]};
    };
    const Vec a = times(local(camera_.right), z);
    const Vec b = times(local(camera_.up), z);
    const Vec w = local(d);
    const Vec n = times(w, 1 / length(w));
    const Vec p = cross(a, n);
    const Vec q = cross(b, n);
    // The inverse covariance in the plane at depth 1.
    Vec m = {dot(p, p), dot(p, q), dot(q, q)};
    double determinant = std::pow(z * z * z / (s[0] * s[1] * s[2] * length(w)), 2);
    double opacity = r_.in(3).real[i];
    if (o_.opacity == SplatOpacity::logit) opacity = 1 / (1 + std::exp(-opacity));
    if (!std::isnan(opacity)) opacity = std::clamp(opacity, 0.0, 1.0);
    if (o_.blur > 0) opacity *= widen(m, determinant);
    if (!(opacity >= o_.alpha_cutoff)) return std::nullopt;
    Record out = {};
    const double first = std::sqrt(m[0]);
    put(out, kCenter, {dot(d, camera_.right) / z, dot(d, camera_.up) / z});
    put(out, kFactor, {first, m[1] / first, std::sqrt(determinant) / first});
    const double far = dot(w, w);
    put(out, kLinear, {dot(a, w) / far, dot(b, w) / far});
    put(out, kSquare, {dot(a, a) / far, dot(a, b) / far, dot(b, b) / far});
    const double most = std::max(0.0, 2 * std::log(opacity / o_.alpha_cutoff));
    put(out, kOpacity, {opacity, most});
    const Vec rgb = color(i, d);
    put(out, kColor, {rgb[0], rgb[1], rgb[2], length(d)});
    for (const double v : out) {
      if (!std::isfinite(v)) return std::nullopt;
    }
    const Box box = box_around(out, m);
    put(out, kBox, {box.low[0], box.low[1], box.high[0], box.high[1]});
    return out;
  }

 private:
  static void put(Record& out, int64_t at, std::initializer_list<double> values) {
    std::ranges::copy(values, out.begin() + at);
  }

  Vec scales(size_t i) const {
    Vec s = {};
    for (size_t axis = 0; axis < 3; ++axis)
      s[axis] = std::max(3 * std::exp(r_.in(1).real[3 * i + axis]) * o_.radius_scale, 1e-6) / 3;
    return s;
  }

  std::array<Vec, 3> rotation(size_t i) const {
    const std::vector<double>& v = r_.in(2).real;
    const bool real_first = o_.quaternion == SplatQuaternion::wxyz;
    double w = v[4 * i + (real_first ? 0 : 3)];
    Vec q = vec_at(v, 4 * i + (real_first ? 1 : 0));
    const double size = std::sqrt(w * w + dot(q, q));
    w /= size;
    q = times(q, 1 / size);
    std::array<Vec, 3> axes;
    for (size_t axis = 0; axis < 3; ++axis) {
      Vec e = {};
      e[axis] = 1;
      const Vec t = cross(q, e);
      const Vec tt = cross(q, t);
      for (size_t k = 0; k < 3; ++k) axes[axis][k] = e[k] + 2 * (w * t[k] + tt[k]);
    }
    return axes;
  }

  // Adds the filter to the covariance; what the opacity is to be multiplied by.
  double widen(Vec& m, double& determinant) const {
    const double variance = o_.blur / (camera_.focal * camera_.focal);
    const Vec covariance = {m[2] / determinant + variance, -m[1] / determinant,
                            m[0] / determinant + variance};
    const double wide = 1 / determinant + variance * (m[0] + m[2]) / determinant + variance * variance;
    m = {covariance[2] / wide, -covariance[1] / wide, covariance[0] / wide};
    const double less = std::sqrt(1 / (determinant * wide));
    determinant = 1 / wide;
    return o_.antialiased ? less : 1;
  }

  static Box box_around(const Record& s, const Vec& m) {
    using namespace splat_record;
    const double most = s[kMost];
    Vec k = {}, sizes = {};
    for (size_t i = 0; i < 3; ++i) {
      k[i] = m[i] - most * s[kSquare + i];
      sizes[i] = std::abs(m[i]) + most * std::abs(s[kSquare + i]);
    }
    const double slack = 2e-6 * (sizes[0] * sizes[2] + sizes[1] * sizes[1]);
    const double determinant = k[0] * k[2] - k[1] * k[1];
    if (!(k[0] > 0 && k[2] > 0 && determinant > 4 * slack)) return kEverything;
    const Place d = {-most * s[kLinear], -most * s[kLinear + 1]};
    const Place middle = {(k[1] * d[1] - k[2] * d[0]) / determinant,
                          (k[1] * d[0] - k[0] * d[1]) / determinant};
    const double size = most - d[0] * middle[0] - d[1] * middle[1];
    const double error = slack / determinant;
    Box box;
    for (size_t axis = 0; axis < 2; ++axis) {
      const double center = s[kCenter + axis];
      const double half = std::sqrt(std::max(0.0, k[2 - 2 * axis] * size / determinant)) * (1.0001 + error) +
                          2 * error * std::abs(middle[axis]) + 1e-6 * std::abs(center);
      box.low[axis] = center + middle[axis] - half;
      box.high[axis] = center + middle[axis] + half;
    }
    return box;
  }

  Vec color(size_t i, const Vec& from_camera) const {
    const RefTensor& colors = r_.in(4);
    if (colors.dims.size() == 2) return vec_at(colors.real, 3 * i);
    const double far = length(from_camera);
    const double sign = o_.direction == SplatDirection::from_camera ? 1 : -1;
    const Vec d = far < 1e-8 ? Vec{} : times(from_camera, sign / far);
    const std::array<double, 16> basis = harmonics(d);
    const auto count = static_cast<size_t>(colors.dims[1]);
    Vec rgb = {0.5, 0.5, 0.5};
    for (size_t k = 0; k < count; ++k) {
      for (size_t c = 0; c < 3; ++c) rgb[c] += basis[k] * colors.real[3 * (count * i + k) + c];
    }
    if (o_.clamp_colors) {
      for (double& c : rgb) c = std::isnan(c) ? c : std::max(c, 0.0);
    }
    return rgb;
  }

  // Real spherical harmonics of bands 0 to 3, with the Condon-Shortley phase.
  static std::array<double, 16> harmonics(const Vec& d) {
    const auto [x, y, z] = d;
    constexpr double pi = std::numbers::pi;
    const double c1 = std::sqrt(3 / (4 * pi));
    const double c2 = std::sqrt(15 / (4 * pi));
    const double xx = x * x, yy = y * y, zz = z * z;
    return {std::sqrt(1 / (4 * pi)),
            -c1 * y,
            c1 * z,
            -c1 * x,
            c2 * x * y,
            -c2 * y * z,
            std::sqrt(5 / (16 * pi)) * (2 * zz - xx - yy),
            -c2 * x * z,
            c2 / 2 * (xx - yy),
            -std::sqrt(35 / (32 * pi)) * y * (3 * xx - yy),
            std::sqrt(105 / (4 * pi)) * x * y * z,
            -std::sqrt(21 / (32 * pi)) * y * (4 * zz - xx - yy),
            std::sqrt(7 / (16 * pi)) * z * (2 * zz - 3 * xx - 3 * yy),
            -std::sqrt(21 / (32 * pi)) * x * (4 * zz - xx - yy),
            std::sqrt(105 / (16 * pi)) * z * (xx - yy),
            -std::sqrt(35 / (32 * pi)) * x * (xx - 3 * yy)};
  }

  RefContext& r_;
  const SplatOptions& o_;
  Camera camera_;
};

Box box_of(const double* record) {
  const double* b = record + splat_record::kBox;
  return {{b[0], b[1]}, {b[2], b[3]}};
}

struct Pixel {
  double light = 1, alpha = 0;
  std::array<double, 4> seen = {};  // colour and distance

  void blend(const double* s, const Place& ray) {
    using namespace splat_record;
    const double x = ray[0] - s[kCenter];
    const double y = ray[1] - s[kCenter + 1];
    const double u = s[kFactor] * x + s[kFactor + 1] * y;
    const double v = s[kFactor + 2] * y;
    const double slope = s[kLinear] * x + s[kLinear + 1] * y;
    const double below =
        1 + 2 * slope + s[kSquare] * x * x + 2 * s[kSquare + 1] * x * y + s[kSquare + 2] * y * y;
    if (!(u * u + v * v <= s[kMost] * below && slope > -1 && below > 0 && s[kOpacity] > 0)) return;
    const double a = s[kOpacity] * std::exp(-0.5 * (u * u + v * v) / below);
    for (size_t k = 0; k < 4; ++k) seen[k] += light * a * s[kColor + static_cast<int64_t>(k)];
    alpha += light * a;
    light *= 1 - a;
  }
};

}  // namespace

void reference_splat_prepare(RefContext& r, const SplatOptions& o) {
  const Projection projection(r, o);
  const auto n = static_cast<size_t>(r.in(0).dims[0]);
  std::vector<Record> records(n);
  std::vector<double> keys(n, std::numeric_limits<double>::infinity());
  for (size_t i = 0; i < n; ++i) {
    if (const std::optional<Record> seen = projection.splat(i)) {
      records[i] = *seen;
      keys[i] = (*seen)[splat_record::kDistance];
    } else {
      std::ranges::copy(std::array{1e30, 1e30, -1e30, -1e30}, records[i].begin() + splat_record::kBox);
    }
  }
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](size_t i) { return keys[i]; });
  auto out = r.out(0).real.begin();
  for (const size_t i : order) out = std::ranges::copy(records[i], out).out;
  const SplatGrid grid = splat_grid(o);
  const int64_t side = grid.edge * o.tile_size;
  for (int64_t bin = 0; bin < grid.count(); ++bin) {
    const Box view =
        bounds_of(projection.camera(), o, bin % grid.across * side, bin / grid.across * side, side);
    int64_t& count = r.out(2).ints[static_cast<size_t>(bin)];
    for (size_t i = 0; i < n; ++i) {
      if (box_of(records[order[i]].data()).meets(view))
        r.out(1).ints[static_cast<size_t>(bin) * n + static_cast<size_t>(count++)] = static_cast<int64_t>(i);
    }
  }
}

void reference_splat_rasterize(RefContext& r, const SplatOptions& o) {
  const std::vector<double>& splats = r.in(0).real;
  const int64_t n = r.in(0).dims[0];
  const Camera camera(r.in(3).real, o);
  const SplatGrid grid = splat_grid(o);
  const int64_t tile = o.tile_size;
  const auto draw = [&](int64_t x, int64_t y, const std::vector<const double*>& shown) {
    Pixel pixel;
    const Place ray = camera.ray(x, y);
    for (const double* s : shown) {
      if (pixel.light < o.transmittance_threshold) break;
      pixel.blend(s, ray);
    }
    const auto at = static_cast<size_t>(y * o.width + x);
    for (size_t c = 0; c < 3; ++c)
      r.out(0).real[4 * at + c] =
          std::pow(std::max(0.0, pixel.seen[c] + pixel.light * camera.background[c]), o.gamma);
    r.out(0).real[4 * at + 3] = pixel.alpha;
    r.out(1).real[at] = pixel.alpha > 0 ? pixel.seen[3] / pixel.alpha : 0;
  };
  for (int64_t top = 0; top < o.height; top += tile) {
    for (int64_t left = 0; left < o.width; left += tile) {
      const Box view = bounds_of(camera, o, left, top, tile);
      const int64_t bin = top / tile / grid.edge * grid.across + left / tile / grid.edge;
      const int64_t count = std::clamp<int64_t>(r.in(2).ints[static_cast<size_t>(bin)], 0, n);
      std::vector<const double*> shown;
      for (int64_t k = 0; k < count; ++k) {
        const int64_t i = std::clamp<int64_t>(r.in(1).ints[static_cast<size_t>(bin * n + k)], 0, n - 1);
        const double* s = splats.data() + i * splat_record::kLength;
        if (box_of(s).meets(view)) shown.push_back(s);
      }
      for (int64_t y = top; y < std::min(top + tile, o.height); ++y) {
        for (int64_t x = left; x < std::min(left + tile, o.width); ++x) draw(x, y, shown);
      }
    }
  }
}

}  // namespace rlx
