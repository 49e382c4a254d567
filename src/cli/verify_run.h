// What `rlx run --verify` and `rlx verify` share.
#pragma once

#include <optional>
#include <vector>

#include "base/json.h"
#include "cli/run_setup.h"
#include "rlx/diagnostics.h"

namespace rlx::cli {

struct Verification {
  int64_t agree = 0;               // nodes
  int64_t skipped = 0;             // they read a state that has been overwritten since
  std::optional<NodeCheck> bad;    // the first node that is wrong
  std::vector<NodeCheck> rounded;  // nodes whose factors were rounded
  // From the inputs on; none if states have changed with each repeat.
  std::vector<OutputCheck> outputs;
  bool outputs_skipped = false;
};

// Compares each node, and then the outputs from the inputs on, with the reference.
Verification verify_run(Executable& exe, const RunSetup& setup, const NamedTensors& outputs,
                        int64_t repeat = 1);

void show(const Verification& result);
Json to_json(const Verification& result);
// Fails if something is wrong.
void require_right(const Verification& result);

}  // namespace rlx::cli
