// Dispatches over memory with an address: what the runtime turns into pipelines and bind groups.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/binder.h"
#include "plan/arena.h"
#include "plan/program.h"

namespace rlx {

struct PlanOptions {
  // Every intermediate keeps its own memory, so that it can be read after the run (dumps, first NaN,
  // verify).
  bool keep_all = false;
};

struct Plan {
  std::vector<int64_t> buffers;       // bytes of each buffer the plan owns; fixed ones come before them
  int32_t fixed_buffers = 0;          // buffer ids below this are the caller's
  std::vector<Placement> placements;  // by storage
  std::vector<Lifetime> lives;        // by storage, as positions in `dispatches` when the plan is made
  std::vector<BoundDispatch> dispatches;
  std::vector<size_t> first_bound;  // by dispatch of the program, where its own begin; one more at the end

  int64_t arena_bytes = 0;        // memory for intermediates
  int64_t lower_bound_bytes = 0;  // the largest sum of intermediates that are alive at one time
  int64_t input_bytes = 0;
  int64_t table_bytes = 0;
};

// `fixed` has a place for each storage that outlives the plan (params, constants, states), and buffer -1 for
// the others.
Plan make_plan(const Program& program, const std::vector<Placement>& fixed, int32_t fixed_buffers,
               const Caps& caps, const PlanOptions& options = {});

// Dispatches for people: node, kernel, variant, grid, bindings and bytes.
std::string to_text(const std::vector<BoundDispatch>& dispatches,
                    const std::vector<Program::NodeName>& names);

}  // namespace rlx
