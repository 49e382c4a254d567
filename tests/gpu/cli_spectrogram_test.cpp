// `rlx spectrogram` as its users call it: what is in the picture.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numbers>

#include "tests/gpu/cli_harness.h"
#include "vision/heat_map.h"

namespace rlx::testing {
namespace {

using nlohmann::json;

class Spectrogram : public CliTest {
 protected:
  // One channel of 16 bits.
  std::string write_wav(const std::string& name, int rate, const std::vector<double>& samples) {
    const auto word = [](uint32_t v) { return std::string(reinterpret_cast<const char*>(&v), 4); };
    const auto bytes = static_cast<uint32_t>(2 * samples.size());
    std::string text = "RIFF" + word(36 + bytes) + "WAVEfmt " + word(16) + word(0x00010001) +
                       word(static_cast<uint32_t>(rate)) + word(static_cast<uint32_t>(2 * rate)) +
                       word(0x00100002) + "data" + word(bytes);
    for (const double s : samples) {
      const auto number = static_cast<int16_t>(std::lround(32767 * s));
      text.append(reinterpret_cast<const char*>(&number), 2);
    }
    return write(name, text);
  }

  static std::vector<double> tone(double hertz, int rate, int64_t samples, int64_t from = 0) {
    std::vector<double> x(static_cast<size_t>(samples), 0);
    for (int64_t t = from; t < samples; ++t)
      x[static_cast<size_t>(t)] =
          0.5 * std::sin(2 * std::numbers::pi * hertz * static_cast<double>(t) / rate);
    return x;
  }

  json draw(const std::string& file, const std::string& flags = "") {
    const CliResult r = rlx(formatted("spectrogram {} -o {} --json {}", file, path("out.png"), flags));
    EXPECT_EQ(r.code, 0) << r.err;
    image_ = vision::read_image(path("out.png"));
    return json::parse(r.out);
  }

  int brightness(int64_t x, int64_t y) const {
    const uint8_t* p = image_.pixel(x, y);
    return p[0] + p[1] + p[2];
  }
  // The brightest place of a column of the map, from 0 at its bottom to 1.
  double brightest(int64_t x) const {
    int64_t best = vision::kMapTop;
    for (int64_t y = vision::kMapTop; y < vision::kMapTop + vision::kMapHeight; ++y) {
      if (brightness(vision::kMapLeft + x, y) > brightness(vision::kMapLeft + x, best)) best = y;
    }
    return 1 - (static_cast<double>(best - vision::kMapTop) + 0.5) / vision::kMapHeight;
  }

  vision::Image image_;
};

TEST_F(Spectrogram, AToneIsALineAtItsFrequency) {
  const std::string file = write_wav("tone.wav", 8000, tone(1000, 8000, 8000));
  const json told = draw(file, "--frame 256 --hop 64");
  EXPECT_EQ(told.at("frames"), 125);
  EXPECT_EQ(told.at("rows"), 129);
  EXPECT_EQ(told.at("peak").at("hertz"), 1000);
  EXPECT_NEAR(told.at("peak").at("db").get<double>(), 20 * std::log10(0.5), 0.05);
  for (const int64_t x : {20, 400, 800}) EXPECT_NEAR(brightest(x), 0.25, 0.006) << x;
  // On the mel scale 1 kHz is 15 of the 35.2 mel that 4 kHz are.
  const json mel = draw(file, "--mel");
  EXPECT_EQ(mel.at("rows"), 128);
  EXPECT_NEAR(mel.at("peak").at("hertz").get<double>(), 1000, 20);
  for (const int64_t x : {20, 400, 800}) EXPECT_NEAR(brightest(x), 15 / 35.164, 0.015) << x;
}

TEST_F(Spectrogram, ShowsWhenAToneBegins) {
  draw(write_wav("late.wav", 8000, tone(3000, 8000, 8000, 4000)), "--frame 256 --hop 64");
  const auto row = static_cast<int64_t>(vision::kMapTop + vision::kMapHeight * 0.25);
  EXPECT_LT(brightness(vision::kMapLeft + 380, row), 60);
  EXPECT_GT(brightness(vision::kMapLeft + 460, row), 400);
}

// Frames share columns, and columns are computed in several parts.
TEST_F(Spectrogram, DrawsLongRecordings) {
  const json told = draw(write_wav("long.wav", 8000, tone(2000, 8000, 64000, 32000)), "--frame 512 --hop 2");
  EXPECT_EQ(told.at("frames"), 32000);
  EXPECT_LE(told.at("columns"), 840);
  EXPECT_EQ(told.at("peak").at("hertz"), 2000);
  EXPECT_NEAR(brightest(700), 0.5, 0.006);
  const auto row = static_cast<int64_t>(vision::kMapTop + vision::kMapHeight * 0.5);
  EXPECT_LT(brightness(vision::kMapLeft + 300, row), 60);
}

TEST_F(Spectrogram, TakesAnySound) {
  EXPECT_EQ(draw(write_wav("one.wav", 8000, {0.5})).at("columns"), 1);
  const json silent = draw(write_wav("silent.wav", 44100, std::vector<double>(3000, 0)));
  EXPECT_EQ(silent.at("high_db"), 0);
  EXPECT_EQ(silent.at("frame"), 2048);
  EXPECT_EQ(draw(write_wav("slow.wav", 3, tone(1, 3, 50))).at("rate"), 3);
}

TEST_F(Spectrogram, SaysWhatIsWrong) {
  const std::string good = write_wav("tone.wav", 8000, tone(1000, 8000, 800));
  const std::string out = " -o " + path("out.png");
  expect_complaint(rlx("spectrogram " + path("none.wav") + out), 1, "none.wav");
  expect_complaint(rlx("spectrogram " + write("text.wav", "no sound at all") + out), 1,
                   "it is not a WAV file");
  expect_complaint(rlx("spectrogram " + write("cut.wav", slurp(good).substr(0, 300)) + out), 1,
                   "should have 1600 bytes, but the file ends after 256");
  expect_complaint(rlx("spectrogram " + good), 2, "--output");
  expect_complaint(rlx("spectrogram " + good + out + " --frame 1"), 2, "--frame is '1'");
  expect_complaint(rlx("spectrogram " + good + out + " --range 0"), 2, "--range is '0'");
  expect_complaint(rlx("spectrogram " + good + " -o /no/such/folder/out.png"), 2, "/no/such/folder/out.png");
}

}  // namespace
}  // namespace rlx::testing
