// Whether a run is to be as thorough as it can be (./rlx test --full), and not only as thorough as it has to
// be.
#pragma once

#include "base/flags.h"

namespace rlx::testing {

inline bool full_run() { return env_flag("RLX_TEST_FULL"); }

}  // namespace rlx::testing
