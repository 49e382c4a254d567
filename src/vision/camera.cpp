#include "vision/camera.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace rlx::vision {
namespace {

double dot(const Vector3& a, const Vector3& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }
Vector3 cross(const Vector3& a, const Vector3& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}
Vector3 scaled(const Vector3& a, double s) { return {a[0] * s, a[1] * s, a[2] * s}; }
Vector3 plus(const Vector3& a, const Vector3& b) { return {a[0] + b[0], a[1] + b[1], a[2] + b[2]}; }
Vector3 turned_about(const Vector3& axis, const Vector3& v, double angle) {
  const Vector3 along = scaled(axis, dot(axis, v));
  return plus(plus(along, scaled(plus(v, scaled(along, -1)), std::cos(angle))),
              scaled(cross(axis, v), std::sin(angle)));
}

}  // namespace

std::optional<Vector3> direction_of(const Vector3& v) {
  const double size = std::sqrt(dot(v, v));
  if (!(size > 0)) return std::nullopt;
  return scaled(v, 1 / size);
}

std::optional<Vector3> Camera::sight() const { return direction_of(plus(target, scaled(position, -1))); }

bool Camera::stands() const {
  const std::optional<Vector3> ahead = sight();
  if (!ahead) return false;
  const Vector3 side = cross(*ahead, up);
  return !(dot(side, side) < 1e-8);
}

Camera Camera::turned(double radians) const {
  Camera out = *this;
  const Vector3 arm = plus(position, scaled(target, -1));
  out.position = plus(target, turned_about(up, arm, radians));
  return out;
}

Tensor Camera::tensor() const {
  // The op's y runs down the picture, along the vector it calls up.
  const Vector3 down = scaled(up, -1);
  std::vector<float> v;
  for (const Vector3& part : {position, target, down}) v.insert(v.end(), part.begin(), part.end());
  for (const double x : {fov, near, far}) v.push_back(static_cast<float>(x));
  v.insert(v.end(), background.begin(), background.end());
  return Tensor::of({std::ssize(v)}, v);
}

Vector3 overview(const SplatBounds& bounds, const Vector3& target, const Vector3& up, double fov,
                 double aspect) {
  // Far enough for a sphere around the scene to fit.
  const double half = std::tan(fov * std::numbers::pi / 360) * std::min(1.0, aspect);
  const double distance = bounds.radius / std::sin(std::atan(half));
  const Vector3 side = std::abs(up[2]) < 0.9 ? Vector3{0, 0, -1} : Vector3{0, -1, 0};
  // Not 0: `side` leads away from `up`.
  const Vector3 front = direction_of(plus(side, scaled(up, -dot(side, up)))).value();
  const Vector3 around = turned_about(up, front, 0.5);
  return plus(target, scaled(plus(scaled(around, std::cos(0.42)), scaled(up, std::sin(0.42))), distance));
}

}  // namespace rlx::vision
