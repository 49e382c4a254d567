#include <algorithm>

#include "ir/op.h"
#include "ir/states.h"
#include "kernels/dispatch_limit.h"
#include "plan/lower_node.h"
#include "plan/program.h"

namespace rlx {
namespace {

SizedNode sized_node(const SizedGraph& sized, int32_t id) {
  return {sized.graph, sized.largest(), id, sized.run_symbols.contains(sized.graph.node(id).name)};
}

// A word for each name; those of nodes in bodies are known when all is lowered.
void size_overflow(Program& program) {
  if (program.overflow < 0) return;
  program.storages[static_cast<size_t>(program.overflow)].bytes =
      storage_bytes(DType::i32, std::ssize(program.names));
}

}  // namespace

Program lower(const SizedGraph& sized, const Target& target) {
  const Graph& graph = sized.graph;
  Program program;
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    const SizedNode node = sized_node(sized, id);
    program.names.push_back({n.name, std::string(n.op->name())});
    for (int32_t i = 0; i < static_cast<int32_t>(n.outputs.size()); ++i) {
      const auto next = static_cast<int32_t>(program.storages.size());
      Operand o = node.seen(i, program.values, next);
      if (o.storage == next) {
        program.storages.push_back({n.op->leaf(), node.bytes(i), id});
        if (n.op->is(LeafKind::param) || n.op->is(LeafKind::state)) program.leaves[n.name] = next;
      }
      program.values[{id, i}] = std::move(o);
    }
  }
  Target recording = target;
  for (int32_t id : schedule(graph)) {
    const SizedNode node = sized_node(sized, id);
    const NodeOperands operands = node.operands(program.values);
    if (node.is_free(operands)) continue;
    Program::Work work{.node = id, .first = program.dispatches.size(), .count = 0};
    recording.choices = &work.choices;
    Scratch scratch(program.storages, program.overflow);
    std::vector<Dispatch> dispatches;
    NodeLowering lowering(program, sized.run_symbols, recording, scratch, dispatches);
    lowering.lower(node, operands, id);
    work.count = dispatches.size();
    try {
      check_dispatch_count(std::ssize(program.dispatches), std::ssize(dispatches));
    } catch (const Error& e) {
      throw e.within(
          formatted("while lowering node '{}' ({})", graph.node(id).name, graph.node(id).op->name()));
    }
    work.scratch = scratch.taken();
    work.code = lowering.take_code();
    work.loops = lowering.take_loops();
    std::ranges::move(dispatches, std::back_inserter(program.dispatches));
    program.work.push_back(std::move(work));
  }
  size_overflow(program);
  for (const Graph::Output& out : graph.outputs()) program.outputs.push_back({out.name, out.value});
  return program;
}

std::optional<std::string> relower(Program& program, const SizedGraph& sized, Target& target,
                                   const std::vector<int32_t>& nodes, bool grow, Relowered& relowered) {
  relowered.nodes.clear();
  relowered.dispatches.clear();
  const auto resize = [&](int32_t storage, int64_t bytes) {
    int64_t& planned = program.storages[static_cast<size_t>(storage)].bytes;
    if (grow) planned = std::max(planned, bytes);
    return bytes <= planned;
  };
  // All values first: work is in running order, in which a node may come before some with smaller numbers.
  for (int32_t id : nodes) {
    const Node& n = sized.graph.node(id);
    for (int32_t i = 0; i < static_cast<int32_t>(n.outputs.size()); ++i) {
      Operand& value = program.values.at({id, i});
      const int32_t storage = value.storage;
      const bool own = program.storages[static_cast<size_t>(storage)].node == id;
      const SizedNode node = sized_node(sized, id);
      value = node.seen(i, program.values, own ? storage : -1);
      // Where strides cannot express a view of these sizes, it would need memory of its own.
      if (value.storage != storage) return n.name;
      if (own && !resize(storage, node.bytes(i))) return n.name;
    }
  }
  for (size_t w = 0; w < program.work.size(); ++w) {
    Program::Work& work = program.work[w];
    if (!std::ranges::binary_search(nodes, work.node)) continue;
    const SizedNode node = sized_node(sized, work.node);
    work.choices.replay();
    target.choices = &work.choices;
    const size_t first = relowered.dispatches.size();
    Scratch scratch(program.storages, program.overflow, &work.scratch);
    NodeLowering lowering(program, sized.run_symbols, target, scratch, relowered.dispatches);
    lowering.lower(node, node.operands(program.values), work.node);
    relowered.nodes.push_back({w, first, relowered.dispatches.size() - first, lowering.take_code()});
    for (size_t i = 0; i < scratch.taken().size(); ++i) {
      if (!resize(scratch.taken()[i], scratch.bytes()[i]))
        return program.names[static_cast<size_t>(work.node)].name;
    }
    if (scratch.taken().size() > work.scratch.size()) work.scratch = scratch.taken();
  }
  size_overflow(program);
  return std::nullopt;
}

}  // namespace rlx
