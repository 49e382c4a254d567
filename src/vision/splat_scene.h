// Scenes of 3D Gaussians, and the files they are kept in.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace rlx::vision {

// As the files of 3D Gaussian splatting have them: logarithms of scales, quaternions with the real part
// first, logits of opacities, and spherical harmonics along the direction from the camera.
struct SplatScene {
  int64_t count = 0;
  int64_t coefficients = 1;            // of the harmonics of a colour: 1, 4, 9 or 16
  std::vector<float> positions = {};   // [count, 3]
  std::vector<float> log_scales = {};  // [count, 3]
  std::vector<float> rotations = {};   // [count, 4]
  std::vector<float> opacities = {};   // [count]
  std::vector<float> harmonics = {};   // [count, coefficients, 3]
  int64_t left_out = 0;                // splats of the file with values that are not numbers
};

// A PLY file with the properties of 3D Gaussian splatting (x, f_dc_0, f_rest_0, opacity, scale_0, rot_0 ...),
// or packed in chunks as SuperSplat writes it (packed_position ...). Errors begin with the file's name.
SplatScene read_splats(const std::string& path);
// The same for a file in memory; `name` is for messages.
SplatScene decode_splats(std::span<const std::byte> bytes, const std::string& name);
// As a binary PLY file, unpacked.
void write_splats(const std::string& path, const SplatScene& scene);

// About that many splats: a knot of a tube over a chequered floor with three glossy balls around it. The same
// each time.
SplatScene test_scene(int64_t splats);

// Where nearly all of a scene is.
struct SplatBounds {
  std::array<double, 3> center;
  double radius;
};
SplatBounds bounds_of(const SplatScene& scene);

}  // namespace rlx::vision
