// Sounds at other rates.
#pragma once

#include <cstdint>

#include "rlx/sound.h"

namespace rlx::audio {

// The same sound at another rate, without what lies above half of the lower one.
Sound resampled(const Sound& sound, int64_t rate);

}  // namespace rlx::audio
