// From a graph as it is given to one that can be lowered: options, checks, and the passes that need no sizes.
#pragma once

#include <memory>

#include "kernels/target.h"
#include "passes/passes.h"
#include "rlx/caps.h"
#include "rlx/compile.h"
#include "rlx/graph.h"
#include "runtime/known_choices.h"

namespace rlx {

// A graph after its passes, for devices of one kind, on none yet; symbols may still be open. Made by
// compile_graph.
struct CompiledGraph {
  CompileOptions options;  // with those of the environment
  Target target;
  std::shared_ptr<const Graph> graph;
  LoadSplit split;                                 // of the graph: what is lowered
  std::shared_ptr<const KnownChoices> known = {};  // the target's, on a device
};

// The options with those of the environment, which is read once per compilation and never later.
CompileOptions with_environment(CompileOptions options);
// What these options and $RLX_KERNELS tell lowering.
Target make_target(const Caps& caps, const CompileOptions& options);

CompiledGraph compile_graph(const gpu::Device& device, const Graph& source, const CompileOptions& options);
// The same without a look at the environment.
CompiledGraph compile_for_target(Target target, const Graph& source, const CompileOptions& options);

}  // namespace rlx
