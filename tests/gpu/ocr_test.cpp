// PP-OCR's networks against ONNX Runtime (tests/fixtures/make_models.py), and all of it on the demo's
// picture. Both need the networks, which `./rlx demo` downloads.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "rlx/compile.h"
#include "rlx/npy.h"
#include "rlx/onnx.h"
#include "tests/support/devices.h"
#include "tests/support/message.h"
#include "vision/text_reader.h"

namespace rlx::vision {
namespace {

const std::string kPicture = std::string(RLX_SOURCE_DIR) + "/examples/ocr/cafe.png";

class Ocr : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string missing = models_.missing(); !missing.empty())
      GTEST_SKIP() << "there is no " << missing << "; ./rlx demo downloads it";
  }
  TextModels models_ = TextModels::in(TextModels::usual_folder());
};

struct Part {
  int64_t left, top, width, height;
};

// Blue first, each colour as colour * scale + offset.
void append(std::vector<float>& to, const Image& image, const Part& p, const double (&scales)[3],
            const double (&offsets)[3]) {
  for (size_t c = 0; c < 3; ++c) {
    for (int64_t y = p.top; y < p.top + p.height; ++y) {
      for (int64_t x = p.left; x < p.left + p.width; ++x)
        to.push_back(static_cast<float>(image.pixel(x, y)[2 - c] * scales[c] + offsets[c]));
    }
  }
}

Tensor scene(const Image& image, const Part& p) {
  std::vector<float> values;
  append(values, image, p, {1 / (255 * 0.229), 1 / (255 * 0.224), 1 / (255 * 0.225)},
         {-0.485 / 0.229, -0.456 / 0.224, -0.406 / 0.225});
  return Tensor::of({1, 3, p.height, p.width}, values);
}

Tensor strips(const Image& image, const std::vector<Part>& parts) {
  std::vector<float> values;
  for (const Part& p : parts) append(values, image, p, {1 / 127.5, 1 / 127.5, 1 / 127.5}, {-1, -1, -1});
  return Tensor::of({std::ssize(parts), 3, parts[0].height, parts[0].width}, values);
}

// As make_models.py derives it: logits of at most 32, sums of at most 2304 products in some 60 layers,
// rounded to 24 bits on both sides, errors adding up like a random walk; a sigmoid or a softmax passes on at
// most a quarter.
const double kAllowed = 2 * 0.25 * 32 * 0x1p-24 * std::sqrt(2304.0 * 60);

Tensor run_network(const std::string& path, const Tensor& x) {
  std::map<std::string, Dim, std::less<>> sizes;
  sizes["p2o_DynamicDimension_0"] = x.shape()[0];
  const bool fixed_height = path.contains("_rec_");
  if (!fixed_height) sizes["p2o_DynamicDimension_1"] = x.shape()[2];
  sizes[fixed_height ? "p2o_DynamicDimension_1" : "p2o_DynamicDimension_2"] = x.shape()[3];
  const onnx::Model model = onnx::load(path, {.symbols = sizes});
  Executable exe = compile(model.graph, testing::full_device());
  exe.set_params(model.weights);
  return exe.run({{"x", x}}).begin()->second;
}

TEST_F(Ocr, NetworksAgreeWithOnnxRuntime) {
  const Image image = read_image(kPicture);
  const NamedTensors want = read_npz(std::string(RLX_SOURCE_DIR) + "/tests/fixtures/ocr.npz");
  const auto expect_near = [](const Tensor& got, const Tensor& expected) {
    ASSERT_EQ(got.elements(), expected.elements());
    double worst = 0;
    for (int64_t i = 0; i < got.elements(); ++i)
      worst = std::max(worst, std::fabs(got.real(i) - expected.real(i)));
    EXPECT_LE(worst, kAllowed);
  };
  expect_near(run_network(models_.detector, scene(image, {64, 144, 448, 128})), want.at("map"));
  const Tensor pair = strips(image, {{92, 154, 192, 48}, {526, 378, 192, 48}});
  expect_near(run_network(models_.classifier, pair), want.at("directions"));
  const Tensor steps = run_network(models_.recogniser, strips(image, {{90, 270, 224, 48}}));
  const Tensor& classes = want.at("classes");
  ASSERT_EQ(steps.shape()[1], classes.shape()[0]);
  for (int64_t step = 0; step < classes.shape()[0]; ++step) {
    for (int64_t k = 0; k < classes.shape()[1]; ++k) {
      const int64_t at = step * classes.shape()[1] + k;
      EXPECT_NEAR(steps.real(step * steps.shape()[2] + classes.integer(at)),
                  want.at("probabilities").real(at), kAllowed);
    }
  }
}

TEST_F(Ocr, ReadsTheDemosPicture) {
  TextReader reader(testing::full_device(), models_);
  const Image image = read_image(kPicture);
  const std::vector<TextBox> boxes = reader.upright(image, reader.find(image));
  std::vector<std::string> texts;
  for (const Reading& r : reader.read(image, boxes)) {
    texts.push_back(r.text);
    EXPECT_GT(r.confidence, 0.9) << r.text;
  }
  const std::vector<std::string> want = {
      "Harbour Coffee",          "FRESH TODAY", "Espresso",   "2.40", "Flat white",      "3.10",
      "Hot chocolate",           "3.60",        "Lemon cake", "3.80", "RIVER STREET 27", "THIS WAY UP",
      "Open daily 7:30 - 18:00", "欢迎光临"};
  EXPECT_EQ(texts, want);
  // The box of the line that stands on its head begins at its lower right.
  ASSERT_EQ(boxes.size(), want.size());
  EXPECT_LT(boxes[11].along.x, -100);
  EXPECT_GT(boxes[10].along.y, 200);  // RIVER STREET runs down
  // A picture without text has none, whatever its size.
  Image grey{.width = 3, .height = 70, .rgb = std::vector<uint8_t>(3 * 70 * 3, 128)};
  EXPECT_TRUE(reader.find(grey).empty());
  EXPECT_TRUE(reader.read(grey, {}).empty());
}

// Whatever is in the place of a network is named.
TEST_F(Ocr, OtherFilesInThePlaceOfANetworkAreNamed) {
  const auto with = [&](auto change) {
    TextModels changed = models_;
    change(changed);
    return testing::message([&] { TextReader(testing::full_device(), changed); });
  };
  EXPECT_TRUE(
      with([&](TextModels& m) { m.detector = models_.classifier; }).contains("not PP-OCR's text detector"));
  EXPECT_TRUE(with([&](TextModels& m) { m.recogniser = kPicture; }).contains("cafe.png"));
  EXPECT_TRUE(
      with([&](TextModels& m) { m.alphabet = RLX_SOURCE_DIR "/LICENSE"; }).contains("is no character"));
}

}  // namespace
}  // namespace rlx::vision
