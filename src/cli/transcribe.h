// What `rlx transcribe` and `rlx demo speech` share.
#pragma once

#include <string>

#include "cli/progress.h"
#include "rlx/speech.h"

namespace rlx::cli {

// Where ./rlx keeps the demo's recording.
std::string demo_recording();

// Prints the words as they come, and a line end; or that there are none.
audio::Transcript transcribe_aloud(audio::Transcriber& transcriber, const audio::Sound& sound,
                                   Progress& progress);

}  // namespace rlx::cli
