// PLY files of splats: what they mean, and what is said of broken ones.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include "base/format.h"
#include "import/ply.h"
#include "rlx/error.h"
#include "tests/support/message.h"
#include "vision/splat_scene.h"

namespace rlx::testing {
namespace {

using vision::SplatScene;

SplatScene decode(const std::string& file) {
  return vision::decode_splats(std::as_bytes(std::span(file.data(), file.size())), "a.ply");
}

std::string text_header(int64_t rows, int64_t rest, const std::string& format = "ascii") {
  std::string out = formatted("ply\nformat {} 1.0\ncomment made by hand\nelement vertex {}\n", format, rows);
  for (const char* name : {"x", "y", "z", "f_dc_0", "f_dc_1", "f_dc_2"})
    out += formatted("property float {}\n", name);
  for (int64_t i = 0; i < rest; ++i) out += formatted("property float f_rest_{}\n", i);
  for (const char* name : {"opacity", "scale_0", "scale_1", "scale_2", "rot_0", "rot_1", "rot_2", "rot_3"})
    out += formatted("property float {}\n", name);
  return out + "end_header\n";
}

class PlyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() / formatted("rlx-ply-{}.ply", getpid());
  }
  void TearDown() override { std::filesystem::remove(path_); }
  std::string written(const SplatScene& scene) {
    vision::write_splats(path_.string(), scene);
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::filesystem::path path_;
};

TEST_F(PlyTest, TextIsReadByTheNamesOfItsProperties) {
  const SplatScene s = decode(text_header(2, 9) +
                              "1 2 3 0.1 0.2 0.3 11 12 13 21 22 23 31 32 33 -1.5 -3 -4 -5 1 0 0 0\r\n"
                              "4 5 6 0 0 0 0 0 0 0 0 0 0 0 +1e1 inf 0 0 0 0 1 0 0\n");
  EXPECT_EQ(s.count, 2);
  EXPECT_EQ(s.coefficients, 4);
  EXPECT_EQ(s.positions, (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(s.log_scales, (std::vector<float>{-3, -4, -5, 0, 0, 0}));
  EXPECT_EQ(s.rotations, (std::vector<float>{1, 0, 0, 0, 0, 1, 0, 0}));
  EXPECT_EQ(s.opacities, (std::vector<float>{-1.5F, std::numeric_limits<float>::infinity()}));
  // In the file all of red comes first, here the colours of a coefficient are together.
  EXPECT_EQ(std::vector<float>(s.harmonics.begin(), s.harmonics.begin() + 12),
            (std::vector<float>{0.1F, 0.2F, 0.3F, 11, 21, 31, 12, 22, 32, 13, 23, 33}));
}

TEST_F(PlyTest, WhatIsWrittenIsReadAgain) {
  for (const int64_t coefficients : {1, 4, 9, 16}) {
    SplatScene scene = vision::test_scene(50);
    scene.coefficients = coefficients;
    scene.harmonics.assign(static_cast<size_t>(scene.count * coefficients * 3), 0);
    for (size_t i = 0; i < scene.harmonics.size(); ++i) scene.harmonics[i] = static_cast<float>(i) / 7;
    const SplatScene read = decode(written(scene));
    EXPECT_EQ(read.count, scene.count);
    EXPECT_EQ(read.coefficients, coefficients);
    EXPECT_EQ(read.positions, scene.positions);
    EXPECT_EQ(read.log_scales, scene.log_scales);
    EXPECT_EQ(read.rotations, scene.rotations);
    EXPECT_EQ(read.opacities, scene.opacities);
    EXPECT_EQ(read.harmonics, scene.harmonics);
  }
}

// --- Packed files ---

template <class T>
void append(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

uint32_t of_part(double t, unsigned bits) {
  return static_cast<uint32_t>(std::lround(t * ((1U << bits) - 1)));
}
uint32_t packed_three(double x, double y, double z) {
  return of_part(x, 11) << 21 | of_part(y, 10) << 11 | of_part(z, 11);
}

std::string packed_file(int64_t rows, bool colors, int64_t rest) {
  std::string out = formatted("ply\nformat binary_little_endian 1.0\nelement chunk {}\n", (rows + 255) / 256);
  for (const char* end : {"min_", "max_"})
    for (const char* axis : {"x", "y", "z"}) out += formatted("property float {}{}\n", end, axis);
  for (const char* end : {"min_scale_", "max_scale_"})
    for (const char* axis : {"x", "y", "z"}) out += formatted("property float {}{}\n", end, axis);
  if (colors)
    for (const char* end : {"min_", "max_"})
      for (const char* axis : {"r", "g", "b"}) out += formatted("property float {}{}\n", end, axis);
  out += formatted("element vertex {}\n", rows);
  for (const char* name : {"position", "rotation", "scale", "color"})
    out += formatted("property uint packed_{}\n", name);
  if (rest > 0) out += formatted("element sh {}\n", rows);
  for (int64_t i = 0; i < rest; ++i) out += formatted("property uchar f_rest_{}\n", i);
  out += "end_header\n";
  for (int64_t chunk = 0; chunk < (rows + 255) / 256; ++chunk) {
    const auto base = static_cast<float>(10 * chunk);
    for (const float v : {base, base, base, base + 1, base + 2, base + 4, -6.F, -6.F, -6.F, -2.F, -2.F, -2.F})
      append(out, v);
    if (colors)
      for (const float v : {-0.5F, 0.F, 0.F, 1.5F, 1.F, 1.F}) append(out, v);
  }
  for (int64_t row = 0; row < rows; ++row) {
    const double t = static_cast<double>(row % 256) / 255;
    append(out, packed_three(t, 1, 0.5));
    // The largest is the third (y); the others are 0.5, -0.5 and 0.1, as parts of the square root of a half.
    append(out, 2U << 30 | of_part(0.5 + 0.5 / std::sqrt(2.), 10) << 20 |
                    of_part(0.5 - 0.5 / std::sqrt(2.), 10) << 10 | of_part(0.5 + 0.1 / std::sqrt(2.), 10));
    append(out, packed_three(0, 0.5, 1));
    append(out, of_part(0.25, 8) << 24 | of_part(1, 8) << 16 | of_part(0, 8) << 8 | of_part(t, 8));
  }
  for (int64_t i = 0; i < rows * rest; ++i)
    append(out, static_cast<uint8_t>(i % rest == 0 ? 0 : i % rest == 1 ? 255 : 127));
  return out;
}

TEST_F(PlyTest, PackedSplatsLieBetweenTheEndsOfTheirChunk) {
  const SplatScene s = decode(packed_file(300, true, 9));
  ASSERT_EQ(s.count, 300);
  EXPECT_EQ(s.coefficients, 4);
  const size_t i = 256 + 30;  // in the second chunk
  EXPECT_NEAR(s.positions[3 * i], 10 + 30.0 / 255, 3e-4);
  EXPECT_FLOAT_EQ(s.positions[3 * i + 1], 12);
  EXPECT_NEAR(s.positions[3 * i + 2], 12, 2e-3);
  EXPECT_FLOAT_EQ(s.log_scales[3 * i], -6);
  EXPECT_NEAR(s.log_scales[3 * i + 1], -4, 3e-3);
  EXPECT_FLOAT_EQ(s.log_scales[3 * i + 2], -2);
  const double rotation[] = {0.5, -0.5, 0.7, 0.1};
  for (size_t k = 0; k < 4; ++k) EXPECT_NEAR(s.rotations[4 * i + k], rotation[k], 2e-3) << k;
  const auto rgb = [&](size_t c) {
    return 0.5 + 0.28209479177387814 * static_cast<double>(s.harmonics[12 * i + c]);
  };
  EXPECT_NEAR(rgb(0), -0.5 + 2 * 64 / 255., 1e-5);
  EXPECT_NEAR(rgb(1), 1, 1e-5);
  EXPECT_NEAR(rgb(2), 0, 1e-5);
  EXPECT_NEAR(1 / (1 + std::exp(-static_cast<double>(s.opacities[i]))), 30. / 255, 1e-5);
  EXPECT_FLOAT_EQ(s.harmonics[12 * i + 3], -4);                         // red of the first coefficient
  EXPECT_FLOAT_EQ(s.harmonics[12 * i + 6], 4);                          // red of the second
  EXPECT_FLOAT_EQ(s.harmonics[12 * i + 4], (127.5F / 256 - 0.5F) * 8);  // green of the first
  EXPECT_NEAR(0.5 + 0.28209479177387814 * static_cast<double>(decode(packed_file(5, false, 0)).harmonics[0]),
              64 / 255., 1e-5);
}

// --- Broken files ---

TEST_F(PlyTest, BrokenFilesAreNamedInASentence) {
  EXPECT_SAYS(decode(""), "a.ply: this is no PLY file");
  EXPECT_SAYS(decode("ply\nformat ascii 1.0\n"), "a.ply: the header has no end_header");
  EXPECT_SAYS(decode("ply\nformat binary_big_endian 1.0\nend_header\n"), "big-endian");
  EXPECT_SAYS(decode("ply\nformat latin 1.0\nend_header\n"), "the format \"latin\" is unknown");
  EXPECT_SAYS(decode("ply\nformat ascii 1.0\nelement vertex -4\nend_header\n"), "no valid number of rows");
  EXPECT_SAYS(decode("ply\nformat ascii 1.0\nelement vertex nan\nend_header\n"), "no valid number of rows");
  EXPECT_SAYS(decode("ply\nformat ascii 1.0\nelement vertex 1\nproperty half x\nend_header\n"),
              "unknown type \"half\"");
  EXPECT_SAYS(decode("ply\nformat ascii 1.0\nproperty float x\nend_header\n"),
              "a line that PLY does not know");
  EXPECT_SAYS(decode("ply\nformat ascii 1.0\nend_header\n"), "no element \"vertex\"");
  EXPECT_SAYS(decode("ply\nformat ascii 1.0\nelement vertex 1\nproperty list uchar int v\nend_header\n"),
              "no element \"vertex\" of numbers");
  EXPECT_SAYS(decode("ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nend_header\n7\n"),
              "no property \"y\"");
  EXPECT_SAYS(decode(text_header(1, 8) + "1"), "truncated");
  EXPECT_SAYS(decode(text_header(1, 8) + "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"),
              "8 properties f_rest");
  EXPECT_SAYS(decode(text_header(1, 0) + "0 0 zero 0 0 0 0 0 0 0 0 0 0 0\n"),
              "has \"zero\" where the number \"z\" should be");
  EXPECT_SAYS(decode(text_header(1099511627776, 0) + "0 0"), "truncated");
  EXPECT_SAYS(decode(text_header(1099511627776, 0, "binary_little_endian") + "0123"), "truncated");
  std::string packed = packed_file(300, true, 0);
  packed.replace(packed.find("chunk 2"), 7, "chunk 1");
  EXPECT_SAYS(decode(packed), "300 packed splats need 2 chunks, but there are 1");
  EXPECT_SAYS(vision::read_splats("/nowhere/a.ply"), "/nowhere/a.ply");
}

TEST_F(PlyTest, SplatsThatAreNoNumbersAreLeftOut) {
  const SplatScene s = decode(text_header(3, 0) +
                              "nan 0 0 0 0 0 0 0 0 0 1 0 0 0\n1 2 3 0 0 0 0 0 0 0 1 0 0 0\n"
                              "0 0 0 0 0 0 0 0 inf 0 1 0 0 0\n");
  EXPECT_EQ(s.count, 1);
  EXPECT_EQ(s.left_out, 2);
  EXPECT_EQ(s.positions, (std::vector<float>{1, 2, 3}));
  EXPECT_SAYS(decode(text_header(1, 0) + "nan 0 0 0 0 0 0 0 0 0 1 0 0 0\n"), "each of its 1 splats");
}

// Any bytes either give a scene whose lists have their sizes, or an error.
TEST_F(PlyTest, MutatedFilesAreReadOrRefused) {
  std::mt19937 random(1);
  const std::string files[] = {
      written(vision::test_scene(20)), packed_file(40, true, 9),
      text_header(2, 0) + "1 2 3 0 0 0 0 0 0 0 1 0 0 0\n1 2 3 0 0 0 0 0 0 0 1 0 0 0\n"};
  int refused = 0;
  for (int turn = 0; turn < 6000; ++turn) {
    std::string file = files[turn % 3];
    for (unsigned changes = 1 + random() % 4; changes > 0; --changes) {
      // Mostly in the header, where a byte decides much.
      const size_t at = random() % (random() % 4 == 0 ? file.size() : std::min<size_t>(file.size(), 400));
      if (random() % 5 == 0) {
        file.resize(std::max<size_t>(at, 1));
      } else if (random() % 2 == 0) {
        file[at] = static_cast<char>(random());
      } else {
        file[at] = static_cast<char>('0' + random() % 10);
      }
    }
    try {
      const SplatScene s = decode(file);
      const auto n = static_cast<size_t>(s.count);
      ASSERT_EQ(s.positions.size(), 3 * n);
      ASSERT_EQ(s.harmonics.size(), 3 * n * static_cast<size_t>(s.coefficients));
      ASSERT_TRUE(std::isfinite(vision::bounds_of(s).radius));
    } catch (const Error& e) {
      EXPECT_TRUE(std::string_view(e.what()).starts_with("a.ply: ")) << e.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_LT(refused, 6000);
}

TEST_F(PlyTest, TheTestSceneHasItsNumberOfSplats) {
  for (const int64_t n : {3, 17, 1000}) EXPECT_EQ(vision::test_scene(n).count, n);
  const vision::SplatBounds bounds = vision::bounds_of(vision::test_scene(5000));
  EXPECT_NEAR(bounds.radius, 3.5, 0.5);
  EXPECT_NEAR(bounds.center[0], 0, 0.1);
}

}  // namespace
}  // namespace rlx::testing
