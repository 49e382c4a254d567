// Where cameras stand and turn.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "vision/camera.h"

namespace rlx::vision {
namespace {

double distance(const Vector3& a, const Vector3& b) {
  return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
}

TEST(Camera, TurnsAroundItsTarget) {
  const Camera first{.position = {3, 5, 1}, .target = {1, 5, 1}, .up = {0, 1, 0}};
  const Camera quarter = first.turned(std::numbers::pi / 2);
  EXPECT_LT(distance(quarter.position, {1, 5, -1}), 1e-12);  // counter-clockwise, seen from above
  EXPECT_EQ(quarter.target, first.target);
  EXPECT_LT(distance(first.turned(2 * std::numbers::pi).position, first.position), 1e-12);
}

TEST(Camera, AnOverviewHasTheWholeSceneInThePicture) {
  const SplatBounds bounds{.center = {1, 2, 3}, .radius = 4};
  for (const Vector3& up : {Vector3{0, -1, 0}, Vector3{0, 0, 1}, Vector3{0.6, 0.8, 0}}) {
    for (const double aspect : {0.5, 1.0, 2.0}) {
      const Vector3 position = overview(bounds, bounds.center, up, 60, aspect);
      // Half of the narrower side of the picture, at a distance of 1.
      const double half = std::tan(std::numbers::pi / 6) * std::min(1.0, aspect);
      EXPECT_NEAR(bounds.radius / distance(position, bounds.center), std::sin(std::atan(half)), 1e-12);
      const Camera camera{.position = position, .target = bounds.center, .up = up};
      EXPECT_TRUE(camera.stands());
    }
  }
}

TEST(Camera, StandsOnlyWhereUpLeadsAwayFromItsSight) {
  Camera camera{.position = {0, 0, -3}, .up = {0, 0, 1}};
  EXPECT_FALSE(camera.stands());
  camera.up = {0, 1, 0};
  EXPECT_TRUE(camera.stands());
  camera.position = camera.target;
  EXPECT_FALSE(camera.stands());
  EXPECT_FALSE(camera.sight());
  EXPECT_FALSE(direction_of({0, 0, 0}));
}

}  // namespace
}  // namespace rlx::vision
