// `rlx bench --peer`: beside other runtimes, or another build of this one.
#pragma once

#include "cli/bench_options.h"

namespace rlx::cli {

void check_peer(const BenchOptions& o);  // a Misuse if there is none of that name
void run_beside(const BenchOptions& o);

}  // namespace rlx::cli
