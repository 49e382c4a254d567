// The order in which nodes can be imported. ONNX asks writers to sort the nodes of a graph, and not all do.
#pragma once

#include <string_view>

#include "import/onnx/proto.h"

namespace rlx::onnx {

// Puts each node of the model's graph, of its sub-graphs and of its functions behind those whose outputs it
// or a sub-graph of it reads. A node moves only if it has to, so that a sorted file stays as it is. Takes
// time in proportion to the size of the model. ErrorKind::invalid_file names the nodes of a cycle.
void sort_nodes(ModelProto& model, std::string_view file);

}  // namespace rlx::onnx
