#include <algorithm>

#include "base/format.h"
#include "ir/op.h"
#include "ir/states.h"
#include "ops/product_op.h"
#include "plan/lower_node.h"
#include "plan/program.h"

namespace rlx {
namespace {

int64_t value_bytes(const TensorType& type) {
  return storage_bytes(type.dtype, type.shape.elements().value());
}

// Output i of a node as its users see it. A tensor whose size only the run knows lies in its memory as it
// does at its capacity.
Operand seen_operand(const Program& program, const SizedGraph& sized, ValueId v, int32_t own) {
  Operand o = value_operand(sized.graph.producer(v), sized.graph.type(v), program.values, own);
  if (sized.run_symbols.contains(v.node)) {
    const std::vector<int64_t> dims = std::move(o.view.dims);
    o.view = View::contiguous(sized.at_capacity.type(v).shape.values());
    o.view.dims = dims;
  }
  return o;
}

NodeOperands operands_of(const Program& program, const SizedGraph& sized, int32_t id) {
  const Node& n = sized.graph.node(id);
  NodeOperands out;
  for (ValueId v : n.inputs) out.inputs.push_back(v.is_absent() ? Operand{} : program.values.at(v));
  for (int32_t i = 0; i < static_cast<int32_t>(n.outputs.size()); ++i) {
    Operand o = program.values.at({id, i});
    if (sized.run_symbols.contains(id))
      o.view = View::contiguous(sized.at_capacity.type({id, i}).shape.values());
    out.outputs.push_back(std::move(o));
  }
  return out;
}

// The graph that a node is lowered from.
const Graph& source_of(const SizedGraph& sized, int32_t id) {
  return sized.run_symbols.contains(id) ? sized.at_capacity : sized.graph;
}

bool is_free(const Node& n, const NodeOperands& o) {
  return n.op->is_leaf() || (n.op->has(Trait::view) && o.outputs[0].storage == o.inputs[0].storage);
}

// What the host reads after a node that determines a size: of a loop the number of iterations, of others the
// last output.
std::optional<ReadSize> size_of(const SizedGraph& sized, int32_t id, const NodeLowering& lowering,
                                const NodeOperands& operands) {
  const auto symbol = sized.run_symbols.find(id);
  if (symbol == sized.run_symbols.end()) return std::nullopt;
  const Node& n = sized.at_capacity.node(id);
  const std::optional<RunSize> size = n.op->run_size(input_types(sized.at_capacity, n));
  check(size && size->dim.is_static(), "a node that determines a size is lowered for its capacity");
  const int32_t word =
      lowering.iterations_word() >= 0 ? lowering.iterations_word() : operands.outputs.back().storage;
  return ReadSize{symbol->second, word, size->dim.value()};
}

}  // namespace

Program lower(const SizedGraph& sized, const Target& target) {
  const Graph& graph = sized.graph;
  Program program;
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    program.names.push_back({n.name, std::string(n.op->name())});
    for (int32_t i = 0; i < static_cast<int32_t>(n.outputs.size()); ++i) {
      const auto next = static_cast<int32_t>(program.storages.size());
      Operand o = seen_operand(program, sized, {id, i}, next);
      if (o.storage == next) {
        program.storages.push_back({n.op->leaf(), value_bytes(source_of(sized, id).type({id, i})), id});
        if (n.op->is(LeafKind::param) || n.op->is(LeafKind::state)) program.leaves[n.name] = next;
      }
      program.values[{id, i}] = std::move(o);
    }
  }
  Target recording = target;
  for (int32_t id : schedule(graph)) {
    const NodeOperands operands = operands_of(program, sized, id);
    if (is_free(graph.node(id), operands)) continue;
    Program::Work work{.node = id, .first = program.dispatches.size(), .count = 0};
    recording.choices = &work.choices;
    Scratch scratch(program.storages);
    std::vector<Dispatch> dispatches;
    NodeLowering lowering(program, recording, scratch, dispatches);
    lowering.lower(source_of(sized, id), id, operands, id);
    work.count = dispatches.size();
    work.scratch = scratch.taken();
    work.code = lowering.take_code();
    work.loops = lowering.take_loops();
    work.size = size_of(sized, id, lowering, operands);
    std::ranges::move(dispatches, std::back_inserter(program.dispatches));
    program.work.push_back(std::move(work));
  }
  for (const Graph::Output& out : graph.outputs()) program.outputs.push_back({out.name, out.value});
  return program;
}

std::optional<std::string> relower(Program& program, const SizedGraph& sized, const Target& target,
                                   const std::vector<int32_t>& nodes, bool grow,
                                   std::vector<Relowered>& relowered) {
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
      value = seen_operand(program, sized, {id, i}, storage);
      // Where strides cannot express a view of these sizes, it would need memory of its own.
      if (value.storage != storage || (n.op->has(Trait::view) && !own &&
                                       !n.op->view(program.values.at(n.inputs[0]).view, value.view.dims))) {
        return n.name;
      }
      if (own && !resize(storage, value_bytes(source_of(sized, id).type({id, i})))) return n.name;
    }
  }
  Target replaying = target;
  for (size_t w = 0; w < program.work.size(); ++w) {
    Program::Work& work = program.work[w];
    if (!std::ranges::binary_search(nodes, work.node)) continue;
    const NodeOperands operands = operands_of(program, sized, work.node);
    work.choices.replay();
    replaying.choices = &work.choices;
    Relowered& out = relowered.emplace_back(w);
    Scratch scratch(program.storages, &work.scratch);
    NodeLowering lowering(program, replaying, scratch, out.dispatches);
    lowering.lower(source_of(sized, work.node), work.node, operands, work.node);
    out.code = lowering.take_code();
    if (work.size) work.size = size_of(sized, work.node, lowering, operands);
    for (size_t i = 0; i < scratch.taken().size(); ++i) {
      if (!resize(scratch.taken()[i], scratch.bytes()[i]))
        return program.names[static_cast<size_t>(work.node)].name;
    }
    if (scratch.taken().size() > work.scratch.size()) work.scratch = scratch.taken();
  }
  return std::nullopt;
}

}  // namespace rlx
