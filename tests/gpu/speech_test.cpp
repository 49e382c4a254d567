// Moonshine on the recording of the demo. Runs where ./rlx has downloaded both (./rlx demo speech does).
#include <gtest/gtest.h>

#include <filesystem>

#include "audio/transcriber.h"
#include "base/flags.h"
#include "tests/support/devices.h"

namespace rlx::testing {
namespace {

class Speech : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string models = cache_folder() + "/models/";
    const std::string networks = models + "usefulsensors-moonshine-js-0.1.2/dist/model/tiny/float/";
    models_ = {.encoder = networks + "encoder_model.onnx",
               .decoder = networks + "decoder_model_merged.onnx",
               .vocabulary = models + "llama-tokenizer-js-1.2.2/llama-tokenizer.js"};
    recording_ = models + "nodejs-whisper-0.3.1/cpp/whisper.cpp/bindings/go/samples/jfk.wav";
    const std::string missing = std::filesystem::exists(recording_) ? models_.missing() : recording_;
    if (!missing.empty()) GTEST_SKIP() << "missing: " << missing << ", which ./rlx models downloads";
  }

  audio::SpeechModels models_;
  std::string recording_;
};

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
  // Two seconds of nothing, and the same again: two utterances, in the right places. The second has a length
  // that the first had, and so nothing is compiled for it.
  audio::Sound twice = sound;
  twice.samples.resize(twice.samples.size() + 32000);
  twice.samples.insert(twice.samples.end(), sound.samples.begin(), sound.samples.end());
  const audio::Transcript both =
      transcriber.transcribe(twice, [&](std::string_view piece) { heard += piece; });
  ASSERT_EQ(both.utterances.size(), 2u);
  EXPECT_EQ(both.text(), std::string(kWords) + " " + kWords);
  EXPECT_EQ(heard, std::string(kWords) + both.text());
  EXPECT_NEAR(both.utterances[1].begin_seconds, sound.seconds() + 2, 0.4);
  // Nobody speaks.
  slow.samples.assign(100, 0.0f);
  EXPECT_TRUE(transcriber.transcribe(slow).utterances.empty());
}

}  // namespace
}  // namespace rlx::testing
