// The path from a graph to work for the device, one function after the other (see ARCHITECTURE.md).
#pragma once

#include <memory>

#include "gpu/device.h"
#include "kernels/target.h"
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
};

// The options with those of the environment, which is read once per compilation and never later.
CompileOptions with_environment(CompileOptions options);
// What these options and $RLX_KERNELS tell lowering.
Target make_target(const Caps& caps, const CompileOptions& options);

// source --verify, bind_symbols, expand_ops, optimize--> graph
CompiledGraph compile_graph(std::shared_ptr<gpu::Device> device, const Graph& source,
                            const CompileOptions& options);

// graph --bind_symbols, materialize_views--> static graph --lower--> program
struct StaticProgram {
  Graph graph;
  Program program;
};
StaticProgram lower_static(const CompiledGraph& compiled, const SymbolValues& symbols);

// program --reserve, make_plan--> plan --> pipelines, buffers and bind groups. Memory is planned for
// `capacities`, which may be larger than the values of the symbols that the program is made for.
std::unique_ptr<DevicePlan> make_device_plan(const CompiledGraph& compiled, const Weights& weights,
                                             StaticProgram now, const SymbolValues& symbols,
                                             const SymbolValues& capacities);

}  // namespace rlx
