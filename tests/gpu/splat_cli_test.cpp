// `rlx splat` as its users call it.
#include <algorithm>

#include "tests/gpu/cli_harness.h"
#include "vision/image.h"

namespace rlx::testing {
namespace {

using SplatCli = CliTest;

int64_t bright_pixels(const vision::Image& image) {
  int64_t count = 0;
  for (size_t i = 0; i < image.rgb.size(); i += 3)
    count += image.rgb[i] + image.rgb[i + 1] + image.rgb[i + 2] > 60 ? 1 : 0;
  return count;
}

TEST_F(SplatCli, DrawsTheTestSceneAndItsFileAlike) {
  const CliResult made =
      rlx(formatted("splat --test-scene 3000 --size 80x64 -o '{}' --ply '{}' --depth '{}' --json",
                    path("a.png"), path("a.ply"), path("depth.png")));
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(made.err, "");
  EXPECT_TRUE(made.out.contains("\"splats\": 3000")) << made.out;
  EXPECT_TRUE(made.out.contains("\"nearest\"")) << made.out;
  const vision::Image image = vision::read_image(path("a.png"));
  EXPECT_EQ(image.width, 80);
  EXPECT_EQ(image.height, 64);
  // The floor fills the lower half, and above the knot there is nothing.
  EXPECT_GT(bright_pixels(image), 1200);
  EXPECT_LT(bright_pixels(image), 4000);
  for (int64_t x = 0; x < 80; ++x) EXPECT_LT(image.pixel(x, 2)[0], 20);
  const vision::Image depth = vision::read_image(path("depth.png"));
  EXPECT_GT(depth.pixel(40, 58)[0], depth.pixel(40, 34)[0]);  // the floor in front is nearer
  const CliResult read = rlx(formatted("splat '{}' --size 80x64 -o '{}'", path("a.ply"), path("b.png")));
  ASSERT_EQ(read.code, 0) << read.err;
  EXPECT_TRUE(read.out.starts_with("3000 splats with 4 coefficients per colour\n")) << read.out;
  EXPECT_EQ(vision::read_image(path("b.png")).rgb, image.rgb);
}

TEST_F(SplatCli, GoesAroundTheScene) {
  const CliResult r =
      rlx(formatted("splat --test-scene 3000 --size 80x64 --path orbit --frames 3 --background 0,0,1 -o '{}'",
                    path("f-%02d.png")));
  ASSERT_EQ(r.code, 0) << r.err;
  const vision::Image first = vision::read_image(path("f-00.png"));
  EXPECT_NE(first.rgb, vision::read_image(path("f-01.png")).rgb);
  EXPECT_NE(first.rgb, vision::read_image(path("f-02.png")).rgb);
  EXPECT_FALSE(std::filesystem::exists(path("f-03.png")));
  EXPECT_EQ(first.pixel(0, 0)[2], 255);
}

TEST_F(SplatCli, SaysWhatIsWrong) {
  const std::string out = path("a.png");
  expect_complaint(rlx("splat -o " + out), 2, "either a PLY file or --test-scene");
  expect_complaint(rlx("splat --test-scene 100"), 2, "needs -o FILE.png");
  expect_complaint(rlx("splat --test-scene 100 --size 0x5 -o " + out), 2, "--size needs width x height");
  expect_complaint(rlx("splat --test-scene 100 --camera 1,2 -o " + out), 2, "--camera needs three numbers");
  expect_complaint(rlx("splat --test-scene 100 --camera 1,2,x -o " + out), 2, "--camera needs a number");
  expect_complaint(rlx("splat --test-scene 100 --up 0,0,0 -o " + out), 2, "--up has no direction");
  expect_complaint(rlx("splat --test-scene 100 --camera 0,0,-3 --target 0,0,-3 -o " + out), 2,
                   "the way from --camera to --target has no direction");
  expect_complaint(rlx("splat --test-scene 100 --camera 0,0,-3 --target 0,0,0 --up 0,0,1 -o " + out), 2,
                   "--up points along the way from --camera to --target");
  expect_complaint(rlx("splat --test-scene 100 --fov 180 -o " + out), 2, "--fov needs an angle");
  expect_complaint(rlx("splat --test-scene 100 --path spiral -o " + out), 2, "--path can be orbit");
  expect_complaint(rlx("splat --test-scene 100 --path orbit --frames 2 -o " + out), 2,
                   "one place for the number");
  expect_complaint(rlx("splat " + write("no.ply", "not a scene") + " -o " + out), 1,
                   "no.ply: this is no PLY file");
  expect_complaint(rlx("splat /nowhere.ply -o " + out), 1, "/nowhere.ply");
  EXPECT_FALSE(std::filesystem::exists(out));
}

}  // namespace
}  // namespace rlx::testing
