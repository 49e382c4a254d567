// Tests must not depend on what was measured on the machine that they run on.
#include <cstdlib>

namespace {

[[maybe_unused]] const int ignores_measured_times = setenv("RLX_NO_TUNE", "1", 0);

}  // namespace
