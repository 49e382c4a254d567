// Speech to text with Moonshine: an encoder for the whole sound, and a decoder that adds one token at a time
// and keeps its caches on the device.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "audio/vocabulary.h"
#include "audio/wav.h"
#include "rlx/context.h"
#include "rlx/device.h"
#include "rlx/executable.h"

namespace rlx::audio {

struct SpeechModels {
  std::string encoder;     // encoder_model.onnx
  std::string decoder;     // decoder_model_merged.onnx
  std::string vocabulary;  // llama-tokenizer.js

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

// One at a time may use it.
class Transcriber {
 public:
  // Loads and compiles the networks. Errors name the file that is wrong.
  Transcriber(const Device& device, const SpeechModels& models);

  // The words of a sound of any length and rate. Each piece of text is passed on as soon as it is known;
  // together they are the text of the transcript.
  using Listener = std::function<void(std::string_view)>;
  // `heard` is told how many seconds of the sound have been written down, before each part and at the end.
  using Heard = std::function<void(double seconds)>;
  Transcript transcribe(const Sound& sound, const Listener& listener = {}, const Heard& heard = {});

  const SpeechTimes& times() const { return times_; }  // of all so far
  int64_t parameters() const { return parameters_; }
  const Executable& encoder() const { return encoder_; }
  const Executable& step() const { return step_; }

 private:
  struct Decoder;
  Transcriber(const Device& device, const SpeechModels& models, Decoder decoder);

  std::string piece(std::span<const float> samples, const Listener& listener);

  Vocabulary vocabulary_;
  int64_t parameters_ = 0;
  Executable encoder_;
  // The decoder, three graphs on one set of weights: the first token, with the caches as results; what puts
  // these into states; and a further token with these states.
  Executable begin_, fill_, step_;
  std::string tokens_, frames_;  // symbols: how many tokens there are in the end, how many encoded frames
  Context caches_;
  SpeechTimes times_;
};

}  // namespace rlx::audio
