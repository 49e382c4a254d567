// PP-OCR's networks against ONNX Runtime (tests/fixtures/make_models.py), and all of it on the demo's
// picture. Both need the networks, which `./rlx demo` downloads.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "gpu/device.h"
#include "rlx/compile.h"
#include "rlx/npy.h"
#include "rlx/ocr.h"
#include "rlx/onnx.h"
#include "runtime/device_access.h"
#include "tests/support/compare.h"
#include "tests/support/devices.h"
#include "tests/support/message.h"
#include "tests/support/paths.h"
#include "vision/text_networks.h"

namespace rlx::vision {
namespace {

const std::string kPicture = in_source("examples/ocr/cafe.png");

class Ocr : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string missing = models_.missing(); !missing.empty())
      GTEST_SKIP() << "missing: " << missing << ", which ./rlx models downloads";
  }
  TextModels models_ = TextModels::in(TextModels::usual_folder());

  TextNetworks& reader() {
    static TextNetworks shared(testing::full_device(), models_);
    return shared;
  }
  std::vector<ReadLine> lines_of(const Image& image) {
    return reader().read(image, reader().upright(image, reader().find(image)));
  }
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
  const NamedTensors want = read_npz(in_source("tests/fixtures/ocr.npz"));
  const auto expect_near = [](const Tensor& got, const Tensor& expected) {
    EXPECT_TRUE(testing::within(got.doubles(), expected.doubles(), kAllowed));
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
  const Image image = read_image(kPicture);
  const std::vector<ReadLine> lines = lines_of(image);
  std::vector<std::string> texts;
  for (const ReadLine& line : lines) {
    texts.push_back(line.reading.text);
    EXPECT_GT(line.reading.confidence, 0.9) << line.reading.text;
  }
  const std::vector<std::string> want = {
      "Harbour Coffee",          "FRESH TODAY", "Espresso",   "2.40", "Flat white",      "3.10",
      "Hot chocolate",           "3.60",        "Lemon cake", "3.80", "RIVER STREET 27", "THIS WAY UP",
      "Open daily 7:30 - 18:00", "欢迎光临"};
  EXPECT_EQ(texts, want);
  // The box of the line that stands on its head begins at its lower right.
  ASSERT_EQ(lines.size(), want.size());
  EXPECT_LT(lines[11].box.along.x, -100);
  EXPECT_GT(lines[10].box.along.y, 200);  // RIVER STREET runs down
  // A picture without text has none, whatever its size.
  Image grey{.width = 3, .height = 70, .rgb = std::vector<uint8_t>(3 * 70 * 3, 128)};
  EXPECT_TRUE(reader().find(grey).empty());
  EXPECT_TRUE(reader().read(grey, {}).empty());
}

// Each takes the driver a quarter of a second; docs/cold-start.md.
TEST_F(Ocr, TheDemosPictureTakesFewModules) {
  const Device device = Device::open();
  TextNetworks networks(device, models_);
  const Image image = read_image(kPicture);
  EXPECT_EQ(networks.read(image, networks.upright(image, networks.find(image))).size(), 14u);
  EXPECT_LE(DeviceAccess::get(device)->stats().pipelines_created, 108u);
}

// What was read, without capitals: V and v are one shape.
std::vector<std::string> small_letters(const std::vector<ReadLine>& lines) {
  std::vector<std::string> out;
  for (const ReadLine& line : lines) {
    out.emplace_back();
    for (const char c : line.reading.text) out.back() += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  }
  return out;
}

const std::vector<std::string> kThreeLines = {
    "the quick brown fox jumps over the lazy dog while seventeen",
    "engineers measure the throughput of a software rasteriser.",
    "prices exclude vat at 20% and delivery (up to 3.50 per order)."};

// Letters of 12 pixels in long lines: the classifier turned them when it saw them pressed together.
TEST_F(Ocr, ReadsThreeSmallLines) {
  const Image image = read_image(in_source("tests/fixtures/three_lines.png"));
  EXPECT_EQ(small_letters(lines_of(image)), kThreeLines);
}

// Light on dark, with all its spaces, in the order of a page that is turned; and a line the wrong way round,
// of which the classifier is said to be sure.
TEST_F(Ocr, ReadsATurnedParagraph) {
  const Image image = read_image(in_source("tests/fixtures/turned_text.png"));
  const std::vector<std::string> want = {"alice was beginning to get very tired",
                                         "of sitting by her sister on the bank,",
                                         "and of having nothing to do: once or twice"};
  const std::vector<TextBox> boxes = reader().find(image);
  EXPECT_EQ(small_letters(reader().read(image, reader().upright(image, boxes))), want);
  const std::vector<ReadLine> turned = reader().read(image, {{boxes.at(0).upside_down(), true}});
  EXPECT_EQ(small_letters(turned), std::vector(want.begin(), want.begin() + 1));
  EXPECT_GT(turned.at(0).box.along.x, 0);
}

// Made small enough for one look, a page loses its footnote; this one lies across the border of two tiles.
TEST_F(Ocr, FindsTheFootnoteOfALargePage) {
  const Image note = read_image(in_source("tests/fixtures/three_lines.png"));
  Image page{.width = 2400, .height = 1600, .rgb = std::vector<uint8_t>(2400 * 1600 * 3, 255)};
  for (int64_t y = 0; y < note.height; ++y)
    std::copy_n(note.pixel(0, y), 3 * note.width, page.pixel(640, 1500 + y));
  EXPECT_EQ(small_letters(lines_of(page)), kThreeLines);
}

// Whatever is in the place of a network is named.
TEST_F(Ocr, PicturesComeWithTheirColours) {
  TextReader reader(testing::full_device(), models_);
  EXPECT_SAYS(reader.read({.width = 800, .height = 560}), "800 x 560 pixels was given with 0 bytes");
  EXPECT_SAYS(reader.read({.width = -5, .height = -5, .rgb = std::vector<uint8_t>(75)}), "-5 x -5 pixels");
  EXPECT_SAYS(reader.read({.width = int64_t{1} << 62, .height = 4}), "with 0 bytes");
}

TEST_F(Ocr, OtherFilesInThePlaceOfANetworkAreNamed) {
  const auto with = [&](auto change) {
    TextModels changed = models_;
    change(changed);
    return testing::message([&] { TextNetworks(testing::full_device(), changed); });
  };
  EXPECT_TRUE(
      with([&](TextModels& m) { m.detector = models_.classifier; }).contains("not PP-OCR's text detector"));
  EXPECT_TRUE(with([&](TextModels& m) { m.recogniser = kPicture; }).contains("cafe.png"));
  EXPECT_TRUE(with([&](TextModels& m) { m.alphabet = in_source("LICENSE"); }).contains("is no character"));
}

}  // namespace
}  // namespace rlx::vision
