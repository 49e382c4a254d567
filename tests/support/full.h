// How much a run of the tests tries: as much as possible (./rlx test --full), what is necessary, or samples.
#pragma once

#include "base/flags.h"

namespace rlx::testing {

inline bool full_run() { return env_flag("RLX_TEST_FULL"); }

// On a second device, whose compiler is slow: every kernel, but fewer combinations.
inline bool short_run() { return !full_run() && env_flag("RLX_TEST_SHORT"); }

}  // namespace rlx::testing
