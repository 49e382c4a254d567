// What `rlx transcribe` and `rlx demo speech` share.
#pragma once

#include <string>

#include "audio/transcriber.h"
#include "cli/progress.h"

namespace rlx::cli {

// Where ./rlx keeps the networks and the demo's recording.
audio::SpeechModels speech_models();
std::string demo_recording();

// Prints the words as they come, and a line end; or that there are none.
audio::Transcript transcribe_aloud(audio::Transcriber& transcriber, const audio::Sound& sound,
                                   Progress& progress);

}  // namespace rlx::cli
