// What `rlx transcribe` and `rlx demo speech` share.
#pragma once

#include <string>

#include "audio/transcriber.h"

namespace rlx::cli {

// Where ./rlx keeps the networks and the demo's recording.
audio::SpeechModels speech_models();
std::string demo_recording();

// Prints the words as they come, and a line end.
std::string transcribe_aloud(audio::Transcriber& transcriber, const audio::Sound& sound);

}  // namespace rlx::cli
