// Writing down what is said in recordings, with Moonshine: English. Link rlx::media.
//
//   rlx::audio::Transcriber transcriber(rlx::Device::open(), rlx::audio::SpeechModels::in("models"));
//   std::cout << transcriber.transcribe(rlx::audio::read_wav("recording.wav")).text() << "\n";
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rlx/device.h"
#include "rlx/executable.h"
#include "rlx/export.h"
#include "rlx/sound.h"

RLX_EXPORT_BEGIN
namespace rlx::audio {

// The files of the networks: npm's package @usefulsensors/moonshine-js has the first two, in
// dist/model/tiny/float, and llama-tokenizer-js the third.
struct SpeechModels {
  std::string encoder;     // encoder_model.onnx
  std::string decoder;     // decoder_model_merged.onnx
  std::string vocabulary;  // llama-tokenizer.js

  // By these names in a folder.
  static SpeechModels in(const std::string& folder);
  // Where ./rlx keeps them, in its cache.
  static SpeechModels usual();
  // The first of them that does not exist, or "".
  std::string missing() const;
};

// What a transcription took.
struct SpeechTimes {
  double encode_ms = 0;
  double decode_ms = 0;
  int64_t tokens = 0;
};

// What is said without a longer pause, and when.
struct Utterance {
  double begin_seconds = 0;
  double end_seconds = 0;
  std::string text;
};

struct Transcript {
  std::vector<Utterance> utterances;  // none where nobody speaks

  std::string text() const;  // all of it
};

// Sounds may be transcribed one at a time.
class Transcriber {
 public:
  // Loads and compiles the networks. Errors name the file that is wrong.
  Transcriber(const Device& device, const SpeechModels& models);
  ~Transcriber();
  Transcriber(const Transcriber&) = delete;
  Transcriber& operator=(const Transcriber&) = delete;

  // Each piece of text is passed on as soon as it is known; together they are the text of the transcript.
  using Listener = std::function<void(std::string_view)>;
  // Told how many seconds of the sound have been written down, before each part and at the end.
  using Heard = std::function<void(double seconds)>;
  // The words of a sound of any length and rate. The functions must not throw.
  Transcript transcribe(const Sound& sound, const Listener& listener = {}, const Heard& heard = {});

  const SpeechTimes& times() const;  // of all so far
  int64_t parameters() const;        // weights of all networks
  // The networks, for what can be asked about them: the whole sound at once, and one token after the other.
  const Executable& encoder() const;
  const Executable& step() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rlx::audio
RLX_EXPORT_END
