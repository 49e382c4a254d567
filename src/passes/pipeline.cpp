#include "passes/passes.h"

namespace rlx {

Graph optimize(const Graph& graph, const PassOptions& options) {
  (void)options;
  return graph;
}

}  // namespace rlx
