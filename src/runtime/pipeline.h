// The path from a graph to work for the device, one function after the other (see ARCHITECTURE.md).
#pragma once

#include <memory>

#include "base/task.h"
#include "gpu/device.h"
#include "kernels/target.h"
#include "passes/passes.h"
#include "plan/plan.h"
#include "rlx/compile.h"
#include "runtime/device_plan.h"
#include "runtime/weights.h"

namespace rlx {

// A graph as it is compiled for one device; symbols may still be unbound.
struct CompiledGraph {
  std::shared_ptr<gpu::Device> device;
  CompileOptions options;  // with those of the environment
  Target target;
  std::shared_ptr<const Graph> graph;
  LoadSplit split;
};

// The options with those of the environment, which is read once per compilation and never later.
CompileOptions with_environment(CompileOptions options);
// What these options and $RLX_KERNELS tell lowering.
Target make_target(const Caps& caps, const CompileOptions& options);

// source --verify, passes of the whole graph--> graph --passes of the load phase--> split
CompiledGraph compile_graph(std::shared_ptr<gpu::Device> device, const Graph& source,
                            const CompileOptions& options);

// An error that says why the graph cannot be planned, on a device of any size; where symbols have no value
// here, with none of some.
void check_plan(const Graph& source, const SymbolValues& symbols);

// past = 3, tokens = 1
std::string symbols_text(const SymbolValues& symbols);

// main graph --passes for sizes, lower--> lowered graph --make_plan--> plan --> pipelines, buffers and bind
// groups. Memory is planned for `capacities`, up to which the values of the symbols may grow.
struct MadePlan {
  std::unique_ptr<DevicePlan> plan;
  bool grows = false;    // it can be retargeted to other values, up to the capacities
  std::string obstacle;  // why it cannot, if there are capacities
};
Task<MadePlan> make_device_plan(const CompiledGraph& compiled, const Weights& weights,
                                const SymbolValues& values, const SymbolValues& capacities);

}  // namespace rlx
