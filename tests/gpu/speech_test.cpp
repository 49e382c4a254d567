// Moonshine on the recording of the demo. Runs where ./rlx has downloaded both (./rlx demo speech does).
#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <sstream>

#include "audio/resample.h"
#include "base/flags.h"
#include "rlx/speech.h"
#include "tests/support/devices.h"
#include "tests/support/message.h"

namespace rlx::testing {
namespace {

class Speech : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string models = cache_folder() + "/models/";
    models_ = audio::SpeechModels::usual();
    recording_ = models + "nodejs-whisper-0.3.1/cpp/whisper.cpp/bindings/go/samples/jfk.wav";
    const std::string missing = std::filesystem::exists(recording_) ? models_.missing() : recording_;
    if (!missing.empty()) GTEST_SKIP() << "missing: " << missing << ", which ./rlx models downloads";
  }

  audio::SpeechModels models_;
  std::string recording_;
};

// In how many places two sentences of as many words differ; all of them if one is longer.
int64_t different_words(const std::string& a, const std::string& b) {
  const auto words = [](const std::string& text) {
    std::istringstream in(text);
    return std::vector<std::string>(std::istream_iterator<std::string>(in), {});
  };
  const std::vector<std::string> left = words(a);
  const std::vector<std::string> right = words(b);
  if (left.size() != right.size()) return std::ssize(left);
  int64_t out = 0;
  for (size_t i = 0; i < left.size(); ++i) out += left[i] != right[i];
  return out;
}

TEST_F(Speech, WritesDownWhatIsSaid) {
  audio::Transcriber transcriber(full_device(), models_);
  const audio::Sound sound = audio::read_wav(recording_);
  std::string heard;
  const audio::Transcript said =
      transcriber.transcribe(sound, [&](std::string_view piece) { heard += piece; });
  // What ONNX Runtime's CPU provider gives for the same samples, token by token.
  constexpr const char* kWords =
      "And so my fellow Americans ask not what your country can do for you, ask what you can do for your "
      "country.";
  EXPECT_EQ(said.text(), kWords);
  EXPECT_EQ(heard, kWords);
  ASSERT_EQ(said.utterances.size(), 1u);
  EXPECT_LT(said.utterances[0].begin_seconds, 0.4);
  EXPECT_GT(said.utterances[0].end_seconds, 10.0);
  EXPECT_LE(said.utterances[0].end_seconds, sound.seconds() + 1e-4);
  EXPECT_EQ(transcriber.times().tokens, 24);
  // The caches of the first time are gone; another rate and a second channel change no word.
  audio::Sound slow = audio::resampled(sound, 22050);
  EXPECT_EQ(transcriber.transcribe(slow).text(), kWords);
  // Two of them between seconds of nothing: utterances of the same samples, in the right places. The silence
  // around them may change words: "for you as what you can do".
  audio::Sound twice = sound;
  const auto silence = std::vector<float>(32000);
  twice.samples.insert(twice.samples.begin(), silence.begin(), silence.end());
  const std::vector<float> once = twice.samples;
  twice.samples.insert(twice.samples.end(), once.begin(), once.end());
  twice.samples.insert(twice.samples.end(), silence.begin(), silence.end());
  heard.clear();
  const audio::Transcript both =
      transcriber.transcribe(twice, [&](std::string_view piece) { heard += piece; });
  ASSERT_EQ(both.utterances.size(), 2u);
  EXPECT_LE(different_words(both.utterances[0].text, kWords), 2);
  EXPECT_EQ(both.utterances[1].text, both.utterances[0].text);
  EXPECT_EQ(heard, both.text());
  EXPECT_NEAR(both.utterances[0].begin_seconds, 2, 0.4);
  EXPECT_NEAR(both.utterances[1].begin_seconds, sound.seconds() + 4, 0.4);
  // Nobody speaks.
  slow.samples.assign(100, 0.0f);
  EXPECT_TRUE(transcriber.transcribe(slow).utterances.empty());

  EXPECT_SAYS(transcriber.transcribe({0, {0.5F}}),
              "the sound has 0 samples per second; it must have at least 1");
}

}  // namespace
}  // namespace rlx::testing
