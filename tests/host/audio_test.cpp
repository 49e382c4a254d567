// Sound files, resampling, and what turns tokens into text.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <numbers>
#include <random>

#include "audio/resample.h"
#include "audio/speech_spans.h"
#include "audio/vocabulary.h"
#include "tests/support/message.h"

namespace rlx::testing {
namespace {

template <class T>
std::string le(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string chunk(const std::string& id, const std::string& data) {
  return id + le(static_cast<uint32_t>(data.size())) + data + (data.size() % 2 ? std::string(1, '\0') : "");
}

std::string format(uint16_t kind, uint16_t channels, uint32_t rate, uint16_t bits) {
  const auto frame = static_cast<uint16_t>(channels * bits / 8);
  return chunk("fmt ", le(kind) + le(channels) + le(rate) + le(rate * frame) + le(frame) + le(bits));
}

std::string riff(const std::string& chunks) {
  return "RIFF" + le(static_cast<uint32_t>(chunks.size() + 4)) + "WAVE" + chunks;
}

audio::Sound parse(const std::string& file) {
  return audio::parse_wav(std::as_bytes(std::span(file.data(), file.size())), "a.wav");
}

TEST(Wav, EveryKindOfSample) {
  using Samples = std::vector<float>;
  const auto samples = [](const std::string& f, const std::string& data) {
    return parse(riff(f + chunk("data", data))).samples;
  };
  EXPECT_EQ(samples(format(1, 1, 8000, 8), std::string("\x00\x80\xc0", 3)), (Samples{-1, 0, 0.5f}));
  EXPECT_EQ(samples(format(1, 1, 8000, 16), le<int16_t>(-32768) + le<int16_t>(16384)), (Samples{-1, 0.5f}));
  EXPECT_EQ(samples(format(1, 1, 8000, 24), std::string("\x00\x00\x80\x00\x00\x40", 6)), (Samples{-1, 0.5f}));
  EXPECT_EQ(samples(format(1, 1, 8000, 32), le<int32_t>(INT32_MIN) + le<int32_t>(1 << 30)),
            (Samples{-1, 0.5f}));
  EXPECT_EQ(samples(format(3, 1, 8000, 32), le(0.25f) + le(-2.0f)), (Samples{0.25f, -2}));
  EXPECT_EQ(samples(format(3, 1, 8000, 64), le(0.25)), (Samples{0.25f}));
  // Channels are averaged; what is no whole frame is left out.
  EXPECT_EQ(samples(format(3, 2, 8000, 32), le(1.0f) + le(0.5f) + le(0.25f) + le(0.75f) + le(9.0f)),
            (Samples{0.75f, 0.5f}));
}

TEST(Wav, OtherChunksAndOpenLengths) {
  const std::string data = le(0.5f);
  const std::string f = format(3, 1, 44100, 32);
  const audio::Sound sound =
      parse(riff(chunk("LIST", "odd") + f + chunk("fact", "1234") + chunk("data", data)));
  EXPECT_EQ(sound.rate, 44100);
  EXPECT_EQ(sound.samples, std::vector<float>{0.5f});
  for (const uint32_t open : {UINT32_MAX, 0x7ffff000U, 0U})
    EXPECT_EQ(parse(riff(f) + "data" + le(open) + data).samples, std::vector<float>{0.5f}) << open;
  const std::string extended =
      chunk("fmt ", le<uint16_t>(0xfffe) + le<uint16_t>(1) + le(16000u) + le(64000u) + le<uint16_t>(4) +
                        le<uint16_t>(32) + le<uint16_t>(22) + le<uint16_t>(32) + le(0u) + le<uint16_t>(3) +
                        std::string(14, 'x'));
  EXPECT_EQ(parse(riff(extended + chunk("data", data))).samples, std::vector<float>{0.5f});
}

TEST(Wav, BrokenFiles) {
  const std::string f = format(1, 1, 16000, 16);
  const std::string good = riff(f + chunk("data", "1234"));
  EXPECT_SAYS(parse(""), "a.wav: the file is empty");
  EXPECT_SAYS(parse("RIFF"), "a.wav: it is not a WAV file");
  EXPECT_SAYS(parse("RIFX" + good.substr(4)), "it is not a WAV file");
  EXPECT_SAYS(parse(riff("")), "it has no samples");
  EXPECT_SAYS(parse(riff(f)), "it has no samples");
  EXPECT_SAYS(parse(riff(f + chunk("data", "1"))), "it has no samples");
  EXPECT_SAYS(parse(riff(chunk("data", "1234"))), "its samples come before their format");
  EXPECT_SAYS(parse(riff(chunk("fmt ", "short"))), "its format has 5 bytes instead of 16");
  EXPECT_SAYS(parse(riff(f + "data" + le(100u) + "1234")),
              "'data' should have 100 bytes, but the file ends after 4");
  EXPECT_SAYS(parse(riff(format(1, 0, 16000, 16) + chunk("data", "12"))), "it has 0 channels");
  EXPECT_SAYS(parse(riff(format(1, 1, 0, 16) + chunk("data", "12"))), "it has 0 samples per second");
  EXPECT_SAYS(parse(riff(format(1, 1, 4000000000u, 16) + chunk("data", "12"))), "it has 4000000000 samples");
  EXPECT_SAYS(parse(riff(format(85, 1, 16000, 0) + chunk("data", "12"))), "format 85 with 0 bits");
  EXPECT_SAYS(parse(riff(format(3, 1, 16000, 32) + chunk("data", le(0.f) + le(NAN)))),
              "sample 1 is not a finite number");
  for (size_t n = 0; n < good.size(); ++n) EXPECT_SAYS(parse(good.substr(0, n)), "a.wav: ");
}

// A sine below half of both rates stays what it is; one above half of the lower rate disappears.
TEST(Resample, KeepsWhatFitsAndNothingElse) {
  const auto sine = [](double hertz, int64_t rate, int64_t count) {
    audio::Sound s{.rate = rate, .samples = {}};
    for (int64_t i = 0; i < count; ++i)
      s.samples.push_back(static_cast<float>(
          std::sin(2 * std::numbers::pi * hertz * static_cast<double>(i) / static_cast<double>(rate))));
    return s;
  };
  for (const auto& [from, to] : {std::pair<int64_t, int64_t>{44100, 16000},
                                 {8000, 16000},
                                 {48000, 16000},
                                 {16000, 16000},
                                 {22050, 16000}}) {
    const audio::Sound out = audio::resampled(sine(1000, from, from), to);
    const audio::Sound want = sine(1000, to, to);
    ASSERT_EQ(out.rate, to);
    ASSERT_EQ(out.samples.size(), want.samples.size()) << from;
    for (size_t i = 200; i + 200 < want.samples.size(); ++i)
      ASSERT_NEAR(out.samples[i], want.samples[i], 2e-4) << from << " at " << i;
  }
  const audio::Sound high = audio::resampled(sine(10000, 48000, 48000), 16000);
  for (size_t i = 200; i + 200 < high.samples.size(); ++i) ASSERT_NEAR(high.samples[i], 0, 2e-4) << i;
}

TEST(Vocabulary, PiecesBecomeText) {
  const audio::Vocabulary v({"<unk>", "<s>", "</s>", "<0x0A>", "\u2581And", "\u2581\u2581", "<0xZZ>", "x"});
  EXPECT_EQ(v.text(3), "\n");
  EXPECT_EQ(v.text(4), " And");
  EXPECT_EQ(v.text(5), "  ");
  EXPECT_EQ(v.text(6), "<0xZZ>");
  for (const int64_t token : {-1, 0, 1, 2, 8, 32767}) EXPECT_EQ(v.text(token), "") << token;
}

TEST(Vocabulary, IsReadFromTheScript) {
  const std::string path = ::testing::TempDir() + "tokenizer.js";
  std::ofstream(path) << "const llama_vocab_base64 = \"PHVuaz4KPHM+Cjwvcz4KYQpiYwo=\";";
  const audio::Vocabulary v = audio::Vocabulary::read(path);
  EXPECT_EQ(v.text(3), "a");
  EXPECT_EQ(v.text(4), "bc");
  std::ofstream(path) << "const other = \"PHVuaz4K\";";
  EXPECT_SAYS(audio::Vocabulary::read(path), "this is not llama-tokenizer.js");
  EXPECT_SAYS(audio::Vocabulary::read(path + "x"), "tokenizer.jsx");
}

constexpr int64_t kRate = 16000;

// Four syllables a second, or with `depth` 0 a hum.
void add_tone(std::vector<float>& to, double begin, double end, double amplitude, double depth = 0.8) {
  for (auto i = static_cast<size_t>(begin * kRate); i < static_cast<size_t>(end * kRate); ++i) {
    const double t = static_cast<double>(i) / kRate;
    const double loudness = 1 - depth + depth * std::abs(std::sin(4 * std::numbers::pi * t));
    to[i] += static_cast<float>(amplitude * loudness * std::sin(900 * t));
  }
}

std::vector<float> noise(double seconds, double amplitude) {
  std::vector<float> out(static_cast<size_t>(seconds * kRate));
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  for (float& v : out) v = static_cast<float>(amplitude * normal(random));
  return out;
}

void expect_span(const audio::SampleSpan& span, double begin, double end) {
  EXPECT_NEAR(static_cast<double>(span.begin) / kRate, begin, 0.05);
  EXPECT_NEAR(static_cast<double>(span.end) / kRate, end, 0.05);
}

TEST(SpeechSpans, AreWhereItIsLoud) {
  for (const double background : {0.0, 1e-4, 0.002}) {
    SCOPED_TRACE(background);
    std::vector<float> samples = noise(12, background);
    add_tone(samples, 1, 2, 0.1);
    add_tone(samples, 2.9, 4, 0.2);  // a pause within a sentence
    add_tone(samples, 6, 8, 0.05);
    const std::vector<audio::SampleSpan> spans = audio::speech_spans(samples, kRate, 30);
    ASSERT_EQ(spans.size(), 2u);
    expect_span(spans[0], 0.7, 4.3);
    expect_span(spans[1], 5.7, 8.3);
  }
}

TEST(SpeechSpans, AreNotTakenOutOfNoise) {
  std::vector<float> samples = noise(12, 0.03);
  add_tone(samples, 1, 4, 0.1);
  add_tone(samples, 6, 11, 0.1);
  EXPECT_EQ(audio::speech_spans(samples, kRate, 30), (std::vector<audio::SampleSpan>{{0, 12 * kRate}}));
}

TEST(SpeechSpans, AreNotThereWithoutSpeech) {
  EXPECT_TRUE(audio::speech_spans({}, kRate, 30).empty());
  for (const size_t size : {size_t{1}, size_t{100}, size_t{160'000}}) {
    EXPECT_TRUE(audio::speech_spans(std::vector<float>(size), kRate, 30).empty()) << size;
  }
  EXPECT_TRUE(audio::speech_spans(noise(20, 1e-5), kRate, 30).empty());
  EXPECT_TRUE(audio::speech_spans(noise(20, 0.1), kRate, 30).empty());
  std::vector<float> hum(20 * kRate);
  add_tone(hum, 0, 20, 0.3, 0);
  EXPECT_TRUE(audio::speech_spans(hum, kRate, 30).empty());
}

TEST(SpeechSpans, AreCutWhereTheyAreQuiet) {
  std::vector<float> samples = noise(60, 1e-4);
  add_tone(samples, 1, 59, 0.2);
  for (size_t i = 17 * kRate / 2; i < size_t{9} * kRate; ++i) samples[i] *= 0.01f;
  const std::vector<audio::SampleSpan> spans = audio::speech_spans(samples, kRate, 10);
  ASSERT_GE(spans.size(), 6u);
  EXPECT_NEAR(static_cast<double>(spans[0].end) / kRate, 8.75, 0.15);
  for (size_t i = 0; i < spans.size(); ++i) {
    EXPECT_GT(spans[i].end, spans[i].begin);
    EXPECT_LE(spans[i].end - spans[i].begin, 10 * kRate);
    if (i > 0) {
      EXPECT_EQ(spans[i].begin, spans[i - 1].end);
    }
  }
  expect_span({spans.front().begin, spans.back().end}, 0, 60);
}

}  // namespace
}  // namespace rlx::testing
