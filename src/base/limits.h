// Device limits that all of the code relies on.
#pragma once

#include <cstdint>

#include "rlx/caps.h"

namespace rlx {

// Every offset that is bound is a multiple of this, the largest alignment that any device requires.
inline constexpr int64_t kBindingAlignment = 256;
// The lowest limit that bindings may be given.
inline constexpr uint64_t kLeastBindingBytes = 4096;

// The caps with the override applied; an error if a limit is too low to work with.
Caps lowered(Caps caps, const CapsOverride& limits);

}  // namespace rlx
