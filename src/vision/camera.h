// Where a camera is, and what it looks at.
#pragma once

#include <array>
#include <optional>

#include "rlx/tensor.h"
#include "vision/splat_scene.h"

namespace rlx::vision {

using Vector3 = std::array<double, 3>;

// The vector with length 1; nothing if it has no length.
std::optional<Vector3> direction_of(const Vector3& v);

struct Camera {
  Vector3 position = {}, target = {};
  Vector3 up = {0, -1, 0};   // of length 1
  Vector3 background = {};   // the colour behind everything, from 0 to 1
  double fov = 50;           // from the lower edge of the picture to the upper one, in degrees
  double near = 0, far = 0;  // what is nearer or farther is not drawn

  // Nothing if the camera is at its target.
  std::optional<Vector3> sight() const;
  // `up` leads away from the line of sight, so that the picture has an upper edge.
  bool stands() const;
  // Farther along its circle around the target, about `up`.
  Camera turned(double radians) const;
  // As gaussian_splat_render takes it (rlx/ops/splatting.h).
  Tensor tensor() const;
};

// From where a camera sees all of a scene in the narrower side of its picture: in front of the target and a
// little above it. `aspect`: width by height.
Vector3 overview(const SplatBounds& bounds, const Vector3& target, const Vector3& up, double fov,
                 double aspect);

}  // namespace rlx::vision
