#include <algorithm>

#include "ops/copy.h"
#include "plan/program.h"

namespace rlx {
namespace {

// Storages of each node, in the order in which the node has them: results, then scratch.
std::map<std::string, std::vector<size_t>> storages_by_node(const Program& program, const Graph& graph) {
  std::map<std::string, std::vector<size_t>> found;
  for (size_t s = 0; s < program.storages.size(); ++s) {
    found[graph.node(program.storages[s].node).name].push_back(s);
  }
  return found;
}

// Two operands may have the same layout at some lengths only (a row that is repeated once).
void keep_common_in_place(std::vector<Dispatch>& dispatches, const std::vector<Dispatch>& largest) {
  for (size_t i = 0; i < dispatches.size(); ++i) {
    const bool same =
        dispatches.size() == largest.size() && dispatches[i].operands.size() == largest[i].operands.size();
    std::erase_if(dispatches[i].in_place, [&](const Dispatch::InPlace& pair) {
      return !same || !std::ranges::contains(largest[i].in_place, pair);
    });
  }
}

}  // namespace

void reserve(Program& program, const Graph& graph, const Program& largest, const Graph& largest_graph) {
  keep_common_in_place(program.load, largest.load);
  keep_common_in_place(program.main, largest.main);
  const auto theirs = storages_by_node(largest, largest_graph);
  const auto grow = [&](size_t storage, int64_t bytes) {
    program.storages[storage].bytes = std::max(program.storages[storage].bytes, bytes);
  };
  for (const auto& [name, ours] : storages_by_node(program, graph)) {
    const auto it = theirs.find(name);
    const Node& node = graph.node(graph.find(name));
    if (it != theirs.end() && it->second.size() == ours.size()) {
      for (size_t i = 0; i < ours.size(); ++i) grow(ours[i], largest.storages[it->second[i]].bytes);
    } else if (op_cast<Contiguous>(*node.op)) {
      // At full capacity the slice is the whole tensor and needs no copy; otherwise the copy has the slice's
      // size.
      const ValueId slice{largest_graph.find(graph.producer(node.inputs[0]).name), node.inputs[0].output};
      if (slice.node < 0) continue;
      const TensorType& type = largest_graph.type(slice);
      grow(ours[0], storage_bytes(value_dtype(type.dtype), type.shape.elements().value()));
    }
  }
}

}  // namespace rlx
