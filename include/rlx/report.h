// What an executable reports about its plans and runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rlx/export.h"

RLX_EXPORT_BEGIN
namespace rlx {

struct MemoryReport {
  int64_t weight_bytes = 0;   // params and constants
  int64_t derived_bytes = 0;  // what the load phase makes of weights, and tables of ops
  int64_t state_bytes = 0;
  int64_t input_bytes = 0;
  int64_t intermediate_bytes = 0;
  int64_t lower_bound_bytes = 0;  // the least that the schedule needs for intermediates
};

// One dispatch of a plan.
struct StepReport {
  std::string node;
  std::string op;
  std::string kernel;
  // Which of the op's kernels it is, as `CompileOptions::kernels` takes it ("transposed rows ROWS=16"); "" if
  // there is only one.
  std::string variant;
  // Why that one: "estimate", "measurement" (rlx/tuning.h), "force" (CompileOptions::kernels) or "replay"
  // (CompileOptions::choices); "" if there is only one. And what the op's kernel is expected to take, with
  // all its dispatches: by the estimate, or as it was measured; 0 if that is not known.
  std::string reason = {};
  double expected_ns = 0;
  // Whether this dispatch alone is estimated to keep the device for longer than a submit may
  // (CompileOptions::submit_ms): a watchdog may end it.
  bool too_long = false;
  uint32_t grid[3] = {0, 0, 0};
  int64_t bindings = 0;
  int64_t bytes = 0;  // of the memory that is bound
  // Floating-point operations of the node, which may have other dispatches too; 0 where they are not known or
  // say little about the time: only products and attention have them.
  double node_flops = 0;
};

// A piece of memory of a plan, and when it holds something.
struct StorageReport {
  std::string node;  // that makes it, or the input
  std::string kind;  // "intermediate", "input" or "table" (constants that a kernel needs besides its inputs)
  int64_t buffer = 0;  // pieces with the same one lie in the same buffer
  int64_t offset = 0;  // in bytes
  int64_t bytes = 0;
  // Of PlanReport::run: the first dispatch that uses it and the last; outputs are kept until one beyond the
  // end.
  int64_t first = 0, last = 0;
};

struct PlanReport {
  std::vector<StepReport> load;  // when params are set
  std::vector<StepReport> run;   // in every run, or as `control` says
  // A sentence for each branch, loop and size that only the run knows, with the dispatches of `run` that it
  // decides about.
  std::vector<std::string> control;
  int64_t submits = 0;  // that `run` is cut into, by CompileOptions::submit_ms, if all of it runs once
  MemoryReport memory;
  std::vector<StorageReport> storages;  // weights and states are not among them
  // Why the plan was made although there was one for the same capacities of the symbols; "" if there was
  // none.
  std::string reason;
};

// One dispatch of a run that was timed.
struct DispatchReport {
  std::string node;
  std::string kernel;
  std::string variant;
  uint64_t begin_ns = 0;  // from the first dispatch
  uint64_t end_ns = 0;
  int64_t step = 0;  // which of PlanReport::run it is; in a loop one of them is made several times
};

}  // namespace rlx
RLX_EXPORT_END
