// A scene of splats on surfaces, to try things with: no randomness, so that it is the same everywhere.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "vision/splat_scene.h"

namespace rlx::vision {
namespace {

using Vec = std::array<double, 3>;
constexpr double kPi = std::numbers::pi;
constexpr double kGoldenTurn = 2 * kPi * 0.6180339887498949;

Vec operator+(const Vec& a, const Vec& b) { return {a[0] + b[0], a[1] + b[1], a[2] + b[2]}; }
Vec operator*(const Vec& a, double s) { return {a[0] * s, a[1] * s, a[2] * s}; }
double dot(const Vec& a, const Vec& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }
Vec cross(const Vec& a, const Vec& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}
Vec unit(const Vec& a) { return a * (1 / std::sqrt(dot(a, a))); }

// Here y points up; in the files that this is like, it points down.
const Vec kLight = unit({-0.5, 1, 0.6});
constexpr double kFloorRadius = 3.4;
constexpr double kTubeRadius = 0.22;
constexpr double kBallRadius = 0.45;
constexpr double kBallDistance = 2.1;

struct Knot {
  static Vec point(double t) {
    return {0.42 * (std::sin(t) + 2 * std::sin(2 * t)), 1.65 + 0.42 * (std::cos(t) - 2 * std::cos(2 * t)),
            -0.42 * std::sin(3 * t)};
  }
  static Vec along(double t) {
    return unit(
        {std::cos(t) + 4 * std::cos(2 * t), -std::sin(t) + 4 * std::sin(2 * t), -3 * std::cos(3 * t)});
  }
};

Vec ball_center(size_t ball) {
  const double angle = kPi / 2 + 2 * kPi * static_cast<double>(ball) / 3;
  return {kBallDistance * std::cos(angle), kBallRadius, kBallDistance * std::sin(angle)};
}

class TestScene {
 public:
  explicit TestScene(int64_t splats) {
    scene_.coefficients = 4;
    const int64_t n = std::max<int64_t>(splats, 3);
    const int64_t floor = n * 2 / 5, balls = n / 5 / 3;
    knot(n - floor - 3 * balls);
    for (size_t i = 0; i < 3; ++i) ball(i, balls);
    this->floor(floor);
  }
  SplatScene take() { return std::move(scene_); }

 private:
  struct Look {
    Vec rgb;
    double gloss = 0;
    double opacity = 0.97;
    double shadow = 1;
  };

  // A flat splat on a surface. `spread` is the standard deviation along it.
  void add(const Vec& at, const Vec& normal, double spread, const Look& look) {
    const double lit = std::max(0.0, dot(normal, kLight)) * look.shadow;
    const Vec rgb = look.rgb * (0.38 + 0.1 * normal[1] + 0.62 * lit);
    // A highlight around the reflected light, as far as harmonics of band 1 can show it.
    const Vec bright = turned(normal * (2 * dot(normal, kLight)) + kLight * -1.0);
    const double gloss = look.gloss / 0.4886025119029199 * std::max(0.0, dot(normal, kLight));
    ++scene_.count;
    put(scene_.positions, turned(at));
    put(scene_.log_scales, {std::log(spread), std::log(spread), std::log(spread / 8)});
    const Vec n = turned(normal);
    std::array<double, 4> q = {1 + n[2], -n[1], n[0], 0};  // from z to the normal
    if (n[2] < -0.999999) q = {0, 1, 0, 0};
    for (const double v : q) scene_.rotations.push_back(static_cast<float>(v));
    scene_.opacities.push_back(static_cast<float>(std::log(look.opacity / (1 - look.opacity))));
    put(scene_.harmonics, (rgb + Vec{-0.5, -0.5, -0.5}) * (1 / 0.28209479177387814));
    for (const double part : {bright[1], -bright[2], bright[0]})
      put(scene_.harmonics, Vec{1, 1, 1} * (gloss * part));
  }

  static Vec turned(const Vec& v) { return {v[0], -v[1], -v[2]}; }
  static void put(std::vector<float>& into, const Vec& v) {
    for (const double x : v) into.push_back(static_cast<float>(x));
  }

  // Of `count` splats that share an area.
  static double spread_of(double area, int64_t count) {
    return 0.62 * std::sqrt(area / static_cast<double>(count));
  }

  void knot(int64_t count) {
    const double spread = spread_of(2 * kPi * kTubeRadius * 11.2, count);
    for (int64_t i = 0; i < count; ++i) {
      const double t = 2 * kPi * (static_cast<double>(i) + 0.5) / static_cast<double>(count);
      const double angle = kGoldenTurn * static_cast<double>(i);
      const Vec side = unit(cross(Knot::along(t), {0, 0, 1}));
      const Vec normal = side * std::cos(angle) + cross(Knot::along(t), side) * std::sin(angle);
      const Vec rgb = {0.55 + 0.45 * std::cos(t), 0.5 + 0.4 * std::cos(t - 2.1),
                       0.55 + 0.45 * std::cos(t - 4.2)};
      add(Knot::point(t) + normal * kTubeRadius, normal, spread, {.rgb = rgb, .gloss = 0.14});
    }
  }

  void ball(size_t which, int64_t count) {
    constexpr Vec kColors[] = {{0.95, 0.72, 0.25}, {0.2, 0.7, 0.68}, {0.92, 0.42, 0.38}};
    const double spread = spread_of(4 * kPi * kBallRadius * kBallRadius, std::max<int64_t>(count, 1));
    for (int64_t i = 0; i < count; ++i) {
      const double y = 1 - 2 * (static_cast<double>(i) + 0.5) / static_cast<double>(count);
      const double r = std::sqrt(1 - y * y), angle = kGoldenTurn * static_cast<double>(i);
      const Vec normal = {r * std::cos(angle), y, r * std::sin(angle)};
      add(ball_center(which) + normal * kBallRadius, normal, spread, {.rgb = kColors[which], .gloss = 0.3});
    }
  }

  void floor(int64_t count) {
    const double spread = spread_of(kPi * kFloorRadius * kFloorRadius, std::max<int64_t>(count, 1));
    for (int64_t i = 0; i < count; ++i) {
      const double part = std::sqrt((static_cast<double>(i) + 0.5) / static_cast<double>(count));
      const double angle = kGoldenTurn * static_cast<double>(i);
      const Vec at = {kFloorRadius * part * std::cos(angle), 0, kFloorRadius * part * std::sin(angle)};
      const bool dark =
          (static_cast<int64_t>(std::floor(at[0] / 0.5)) + static_cast<int64_t>(std::floor(at[2] / 0.5))) %
              2 !=
          0;
      const Vec rgb = dark ? Vec{0.22, 0.28, 0.38} : Vec{0.86, 0.84, 0.8};
      const double edge = std::clamp((1 - part) / 0.25, 0.02, 1.0);  // it fades out
      add(at, {0, 1, 0}, spread, {.rgb = rgb, .opacity = 0.97 * edge, .shadow = shadow_at(at)});
    }
  }

  // How much light comes through to a place on the floor: soft shadows of the tube and of the balls.
  static double shadow_at(const Vec& at) {
    const auto distance = [&](const Vec& p) {
      const double x = at[0] - (p[0] - kLight[0] / kLight[1] * p[1]);
      const double z = at[2] - (p[2] - kLight[2] / kLight[1] * p[1]);
      return std::sqrt(x * x + z * z);
    };
    double nearest = 10;
    for (int i = 0; i < 160; ++i) nearest = std::min(nearest, distance(Knot::point(2 * kPi * i / 160)));
    const auto soft = [](double gap, double width) { return 1 / (1 + std::exp(-gap / width)); };
    double light = soft(nearest - kTubeRadius, 0.07);
    for (size_t i = 0; i < 3; ++i) light *= soft(distance(ball_center(i)) - kBallRadius, 0.05);
    return light;
  }

  SplatScene scene_;
};

}  // namespace

SplatScene test_scene(int64_t splats) { return TestScene(splats).take(); }

}  // namespace rlx::vision
