// Whether a run is to be as thorough as possible (./rlx test --full), not only as thorough as necessary.
#pragma once

#include "base/flags.h"

namespace rlx::testing {

inline bool full_run() { return env_flag("RLX_TEST_FULL"); }

}  // namespace rlx::testing
