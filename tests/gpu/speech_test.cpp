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
    if (!models_.missing().empty() || !std::filesystem::exists(recording_))
      GTEST_SKIP() << "the networks or the recording are not there; ./rlx demo speech downloads them";
  }

  audio::SpeechModels models_;
  std::string recording_;
};

TEST_F(Speech, WritesDownWhatIsSaid) {
  audio::Transcriber transcriber(full_device(), models_);
  const audio::Sound sound = audio::read_wav(recording_);
  std::string heard;
  const std::string text = transcriber.transcribe(sound, [&](std::string_view piece) { heard += piece; });
  // What ONNX Runtime's CPU provider gives for the same samples, token by token.
  constexpr const char* kWords =
      "And so my fellow Americans ask not what your country can do for you, ask what you can do for your "
      "country.";
  EXPECT_EQ(text, kWords);
  EXPECT_EQ(heard, text);
  EXPECT_EQ(transcriber.times().tokens, 24);
  // The caches of the first time are gone; another rate and a second channel change no word.
  audio::Sound slow = audio::resampled(sound, 22050);
  EXPECT_EQ(transcriber.transcribe(slow), kWords);
  // Silence has no words that matter, and ends.
  slow.samples.assign(100, 0.0f);
  EXPECT_LT(transcriber.transcribe(slow).size(), 100u);
}

}  // namespace
}  // namespace rlx::testing
