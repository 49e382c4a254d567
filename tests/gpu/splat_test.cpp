// Gaussian splatting against NumPy (tests/fixtures/make_splats.py), and what must hold of any picture.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "base/format.h"
#include "ops/machinery/op_table.h"
#include "rlx/compile.h"
#include "rlx/dtype.h"
#include "rlx/executable.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/reductions.h"
#include "rlx/ops/splatting.h"
#include "rlx/safetensors.h"
#include "rlx/shape.h"
#include "rlx/tensor.h"
#include "tests/support/compare.h"
#include "tests/support/devices.h"
#include "tests/support/message.h"
#include "tests/support/paths.h"
#include "tests/support/sample.h"

namespace rlx::testing {
namespace {

using Numbers = std::vector<double>;

struct Scene {
  Numbers positions, log_scales, rotations, opacities, colors;  // RGB
  Numbers camera = {0, 0, -4, 0, 0, 0, 0, 1, 0, 40, 0.01, 100, 0, 0, 0};

  void add(const Numbers& at, double log_scale, double opacity, const Numbers& rgb) {
    positions.insert(positions.end(), at.begin(), at.end());
    log_scales.insert(log_scales.end(), 3, log_scale);
    rotations.insert(rotations.end(), {1, 0, 0, 0});
    opacities.push_back(opacity);
    colors.insert(colors.end(), rgb.begin(), rgb.end());
  }
  int64_t size() const { return std::ssize(opacities); }
};

struct Picture {
  int64_t width;
  Tensor image, depth, alpha;
  double at(int64_t x, int64_t y, int64_t channel) const { return image.real((y * width + x) * 4 + channel); }
};

Picture render(const Scene& scene, const SplatOptions& options) {
  Graph graph;
  const int64_t n = scene.size();
  NamedTensors inputs;
  const auto input = [&](const std::string& name, const Numbers& values, std::vector<int64_t> dims) {
    inputs.emplace(name, Tensor::from_doubles(DType::f32, dims, values));
    return graph.input(name, DType::f32, Shape(dims));
  };
  const RenderedSplats out = gaussian_splat_render(
      input("positions", scene.positions, {n, 3}), input("log_scales", scene.log_scales, {n, 3}),
      input("rotations", scene.rotations, {n, 4}), input("opacities", scene.opacities, {n}),
      input("colors", scene.colors, {n, 3}), input("camera", scene.camera, {std::ssize(scene.camera)}),
      options);
  graph.output("image", out.picture);
  graph.output("depth", out.distance);
  graph.output("alpha", out.alpha);
  const NamedTensors got = compile(graph, full_device()).run(inputs);
  return {options.width, got.at("image"), got.at("depth"), got.at("alpha")};
}

SplatOptions plain(int64_t width, int64_t height) {
  SplatOptions o;
  o.width = width;
  o.height = height;
  o.radius_scale = 1;
  o.gamma = 1;
  o.transmittance_threshold = 1e-4;
  return o;
}

double sum(const Tensor& t) {
  double all = 0;
  for (int64_t i = 0; i < t.elements(); ++i) all += t.real(i);
  return all;
}

TEST(Splats, AreWhatNumPyComputes) {
  const auto file = SafetensorsFile::open(in_source("tests/fixtures/splats.safetensors"));
  int cases = 0;
  for (const auto& [name, call] : file.metadata()) {
    if (name == "made_by") continue;
    SCOPED_TRACE(name + ": " + call);
    std::string text = "graph g {\n";
    std::string with_names = call;
    NamedTensors inputs;
    for (int i = 0; i < 6; ++i) {
      const auto* entry = file.find(formatted("{}.{}", name, i));
      with_names.replace(with_names.find(formatted("%{}", i)), 2, formatted("%in{}", i));
      text += formatted("  %in{} = input : f32{}\n", i, Shape(entry->shape).text());
      inputs.emplace(formatted("in{}", i), file.tensor(entry->name));
    }
    text +=
        "  %y = " + with_names + "\n  output image = %y\n  output depth = %y:1\n  output alpha = %y:2\n}\n";
    const Graph graph = parse_graph(text);
    const auto reference = run_reference(graph, inputs);
    const NamedTensors got = compile(graph, full_device()).run(inputs);
    for (const std::string output : {"image", "depth", "alpha"}) {
      const RefTensor want = RefTensor::from(file.tensor(name + "." + output));
      // Single precision ends where the edge of a splat is steep.
      EXPECT_TRUE(close(reference.at(output).to_tensor(), want, {.ulps = 100, .scale = 1}))
          << output << " of the reference";
      EXPECT_TRUE(close(got.at(output), want, {.ulps = 400, .scale = 1})) << output;
    }
    ++cases;
  }
  EXPECT_EQ(cases, 4);
}

TEST(Splats, GiveTheSamePictureInAllTilesAndBins) {
  Scene scene;
  for (int i = 0; i < 90; ++i) {
    const double t = i * 2.4;
    scene.add({std::sin(t) * i / 90, std::cos(t) * i / 90, std::sin(i * 0.7)}, -3 + std::sin(i), 0.6,
              {0.5 + 0.5 * std::sin(t), 0.3, 0.9});
  }
  SplatOptions o = plain(70, 45);
  const Picture want = render(scene, o);
  EXPECT_GT(sum(want.alpha), 100);
  for (const auto& [tile, bins] : {std::pair{4, 3}, {8, 1}, {16, 64}}) {
    o.tile_size = tile;
    o.bins = bins;
    const Picture got = render(scene, o);
    EXPECT_TRUE(close(got.image, RefTensor::from(want.image), {.ulps = 0})) << tile << " " << bins;
    EXPECT_TRUE(close(got.depth, RefTensor::from(want.depth), {.ulps = 0})) << tile << " " << bins;
  }
}

TEST(Splats, AreMirroredWithTheScene) {
  Scene scene, mirrored;
  for (int i = 0; i < 20; ++i) {
    const double x = std::sin(i * 1.3), y = std::cos(i * 2.1), z = 0.1 * i;
    const Numbers rgb = {0.1 * (i % 7), 0.3, 0.1 * (i % 4)};
    scene.add({x, y, z}, -2.5, 0.7, rgb);
    mirrored.add({-x, y, z}, -2.5, 0.7, rgb);
  }
  const Picture a = render(scene, plain(32, 24));
  const Picture b = render(mirrored, plain(32, 24));
  for (int64_t y = 0; y < 24; ++y) {
    for (int64_t x = 0; x < 32; ++x) {
      for (int64_t c = 0; c < 4; ++c) ASSERT_NEAR(a.at(x, y, c), b.at(31 - x, y, c), 1e-5) << x << " " << y;
    }
  }
}

// The integral of a Gaussian is 2 pi sigma^2: that of one standard deviation of half a pixel, and with the
// filter, of one far smaller than a pixel.
TEST(Splats, KeepTheirWeightWhenFiltered) {
  const SplatOptions sharp = plain(33, 33);
  const double focal = 16.5 / std::tan(20 * std::numbers::pi / 180);
  const auto weight = [&](double sigma_pixels, SplatOptions o) {
    Scene scene;
    scene.add({0, 0, 0}, std::log(sigma_pixels * 4 / focal), 1, {1, 1, 1});
    o.alpha_cutoff = 1e-6;
    return sum(render(scene, o).alpha);
  };
  EXPECT_NEAR(weight(2, sharp), 2 * std::numbers::pi * 4, 0.3);
  SplatOptions filtered = sharp;
  filtered.blur = 0.3;
  EXPECT_NEAR(weight(2, filtered), 2 * std::numbers::pi * 4.3, 0.3);
  filtered.antialiased = true;
  EXPECT_NEAR(weight(2, filtered), 2 * std::numbers::pi * 4, 0.3);
  EXPECT_NEAR(weight(0.1, filtered), 2 * std::numbers::pi * 0.01, 0.005);
}

TEST(Splats, ThatAreNoNumbersAreLeftOut) {
  Scene scene;
  scene.add({0, 0, 0}, -1, 0.5, {1, 0, 0});
  const Picture want = render(scene, plain(16, 16));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  scene.add({nan, 0, -1}, -1, 0.5, {0, 1, 0});
  scene.add({0, 0, -1}, nan, 0.5, {0, 1, 0});
  scene.add({0, 0, -1}, infinity, 0.5, {0, 1, 0});
  scene.add({0, 0, -1}, -1, nan, {0, 1, 0});
  scene.add({0, 0, -1}, -1, 0.5, {0, nan, 0});
  scene.add({0, infinity, -1}, -1, 0.5, {0, 1, 0});
  scene.add({0, 0, -9}, -1, 0.5, {0, 1, 0});  // behind the camera
  scene.add({0, 0, -1}, -1, 0.5, {0, 1, 0});
  std::fill(scene.rotations.end() - 4, scene.rotations.end(), 0.0);
  EXPECT_TRUE(close(render(scene, plain(16, 16)).image, RefTensor::from(want.image), {.ulps = 0}));
}

TEST(Splats, OfAnEmptySceneAreTheBackground) {
  Scene scene;
  std::copy_n(Numbers{0.5, 0.25, 1}.begin(), 3, scene.camera.begin() + 12);
  SplatOptions o = plain(5, 3);
  o.gamma = 2;
  const Picture got = render(scene, o);
  EXPECT_FLOAT_EQ(static_cast<float>(got.at(4, 2, 0)), 0.25F);
  EXPECT_FLOAT_EQ(static_cast<float>(got.at(0, 0, 1)), 0.0625F);
  EXPECT_EQ(got.at(2, 1, 3), 0);
  EXPECT_EQ(sum(got.depth), 0);
}

TEST(Splats, AreAsManyAsEachRunHas) {
  Graph graph;
  const auto input = [&](const std::string& name, const Shape& shape) {
    return graph.input(name, DType::f32, shape);
  };
  const RenderedSplats out = gaussian_splat_render(
      input("positions", {"n", 3}), input("log_scales", {"n", 3}), input("rotations", {"n", 4}),
      input("opacities", {"n"}), input("colors", {"n", 3}), input("camera", {15}), plain(20, 20));
  graph.output("alpha", out.alpha);
  Executable exe = compile(graph, full_device());
  double before = 0;
  for (const int64_t n : {1, 7, 3000}) {
    Scene scene;
    for (int64_t i = 0; i < n; ++i) {
      const auto t = static_cast<double>(i);
      scene.add({std::sin(t), std::cos(1.7 * t), std::sin(2.3 * t)}, -3, 0.3, {1, 1, 1});
    }
    const NamedTensors got =
        exe.run({{"positions", Tensor::from_doubles(DType::f32, {n, 3}, scene.positions)},
                 {"log_scales", Tensor::from_doubles(DType::f32, {n, 3}, scene.log_scales)},
                 {"rotations", Tensor::from_doubles(DType::f32, {n, 4}, scene.rotations)},
                 {"opacities", Tensor::from_doubles(DType::f32, {n}, scene.opacities)},
                 {"colors", Tensor::from_doubles(DType::f32, {n, 3}, scene.colors)},
                 {"camera", Tensor::from_doubles(DType::f32, {15}, scene.camera)}});
    EXPECT_GT(sum(got.at("alpha")), before + 0.1);
    before = sum(got.at("alpha"));
  }
}

// The sweep compares what there is to see.
TEST(Splats, AreSeenInTheSamples) {
  for (const std::string name :
       {"gaussian_splat_prepare", "gaussian_splat_rasterize", "gaussian_splat_render"}) {
    const OpInfo& info = op_table().at(name);
    for (const std::string& text : info.samples) {
      if (text.contains("[0,") || text.contains("[1,")) continue;
      const Sample s = make_sample(info, text, DType::f32, Reach::direct,
                                   static_cast<uint32_t>(std::hash<std::string>()(text)));
      const auto values = reference_values(s.graph, s.inputs);
      const std::vector<RefTensor>& outputs = values[static_cast<size_t>(s.graph.find("y"))];
      const Tensor shown = outputs[name == "gaussian_splat_prepare" ? 2 : 1].to_tensor();
      EXPECT_NE(sum(shown), 0) << text;
    }
  }
}

TEST(Splats, NameWhatDoesNotFit) {
  Scene scene;
  scene.add({0, 0, 0}, -1, 0.5, {1, 0, 0});
  SplatOptions o = plain(16, 16);
  o.tile_size = 32;
  EXPECT_SAYS(render(scene, o), "gaussian_splat_prepare: tile_size is 32; it can be 4, 8 or 16");
  o = plain(16, 16);
  scene.camera.pop_back();
  EXPECT_SAYS(render(scene, o), "the camera is [14]");
}

}  // namespace
}  // namespace rlx::testing
