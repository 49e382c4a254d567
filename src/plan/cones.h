// The load phase in parts that can run separately, so that a param is needed on the device only until what is
// derived from it exists.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "plan/plan.h"

namespace rlx {

// Params that are needed together, and the dispatches that depend on them.
struct Cone {
  std::set<int32_t> params;        // storages; none for what depends on constants alone
  std::vector<size_t> dispatches;  // of the program, in order
};

// Each dispatch is in one cone, each param in at most one. What depends on constants alone is the first cone,
// if there is any. The inputs of a concat are independent of one another: each has its part of the result.
std::vector<Cone> find_cones(const Program& program, const Graph& graph);

// Where a cone's storages lie that are needed while it runs only: `placements` gets those without a place
// (buffer -1), in buffers from `first_buffer` on. Returns the sizes of these.
std::vector<int64_t> place_cone(const Program& program, const Cone& cone, int32_t first_buffer,
                                const Caps& caps, std::vector<Placement>& placements);

}  // namespace rlx
