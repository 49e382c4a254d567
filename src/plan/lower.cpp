#include <algorithm>

#include "base/format.h"
#include "ir/op.h"
#include "ir/states.h"
#include "plan/program.h"

namespace rlx {
namespace {

// Which storage a value lies in, and how: views and state writes share that of their input.
Operand value_operand(const Program& program, const Graph& graph, ValueId v, int32_t own_storage) {
  const Node& n = graph.producer(v);
  const TensorType& type = graph.type(v);
  const std::vector<int64_t> dims = type.shape.values();
  Operand o;
  o.storage = own_storage;
  o.dtype = type.dtype;
  o.view = View::contiguous(dims);
  if (n.op->has(Trait::view)) {
    const Operand& source = program.values.at(n.inputs[0]);
    if (std::optional<View> view = n.op->view(source.view, dims)) {
      o.storage = source.storage;
      // A view of an encoded leaf has the type f32 in the graph, but its memory is the leaf's.
      o.dtype = is_encoded(source.dtype) ? source.dtype : type.dtype;
      o.view = *std::move(view);
    }
  } else if (!n.inputs.empty() && n.op->overwrites(0)) {
    o = program.values.at(n.inputs[0]);
  }
  return o;
}

int64_t value_bytes(const TensorType& type) {
  return storage_bytes(type.dtype, type.shape.elements().value());
}

void add_values(Program& program, const Graph& graph, int32_t id) {
  const Node& n = graph.node(id);
  for (int32_t i = 0; i < static_cast<int32_t>(n.outputs.size()); ++i) {
    const auto next = static_cast<int32_t>(program.storages.size());
    Operand o = value_operand(program, graph, {id, i}, next);
    if (o.storage == next)
      program.storages.push_back({n.op->leaf(), value_bytes(n.outputs[static_cast<size_t>(i)]), id});
    program.values[{id, i}] = std::move(o);
  }
}

struct NodeOperands {
  std::vector<Operand> inputs, outputs;
};

NodeOperands operands_of(const Program& program, const Graph& graph, int32_t id) {
  const Node& n = graph.node(id);
  NodeOperands out;
  for (ValueId v : n.inputs) out.inputs.push_back(v.is_absent() ? Operand{} : program.values.at(v));
  for (size_t o = 0; o < n.outputs.size(); ++o)
    out.outputs.push_back(program.values.at({id, static_cast<int32_t>(o)}));
  return out;
}

bool is_free(const Node& n, const NodeOperands& o) {
  return n.op->is_leaf() || (n.op->has(Trait::view) && o.outputs[0].storage == o.inputs[0].storage);
}

void lower_node(const Node& n, Lowering& l) {
  try {
    n.op->lower(l);
  } catch (const Error& e) {
    throw e.within(formatted("while lowering node '{}' ({})", n.name, n.op->name()));
  }
}

}  // namespace

Program lower(const Graph& graph, const Target& target) {
  Program program;
  for (int32_t id = 0; id < graph.size(); ++id) add_values(program, graph, id);
  Target recording = target;
  for (int32_t id : schedule(graph)) {
    NodeOperands operands = operands_of(program, graph, id);
    if (is_free(graph.node(id), operands)) continue;
    Program::Work work{id, program.dispatches.size(), 0, {}, {}};
    recording.choices = &work.choices;
    Lowering l(recording, id, std::move(operands.inputs), std::move(operands.outputs), program.storages,
               program.dispatches);
    lower_node(graph.node(id), l);
    work.count = program.dispatches.size() - work.first;
    work.scratch = l.scratch_storages();
    program.work.push_back(std::move(work));
  }
  for (const Graph::Output& out : graph.outputs()) program.outputs.push_back({out.name, out.value});
  return program;
}

std::optional<std::string> relower(Program& program, const Graph& graph, const Target& target,
                                   const std::vector<int32_t>& nodes, bool grow,
                                   std::vector<Relowered>& relowered) {
  const auto resize = [&](int32_t storage, int64_t bytes) {
    int64_t& planned = program.storages[static_cast<size_t>(storage)].bytes;
    if (grow) planned = std::max(planned, bytes);
    return bytes <= planned;
  };
  // Work is in running order, in which a state's readers may come before nodes with smaller numbers; values
  // are all set first.
  for (int32_t id : nodes) {
    const Node& n = graph.node(id);
    for (int32_t i = 0; i < static_cast<int32_t>(n.outputs.size()); ++i) {
      Operand& value = program.values.at({id, i});
      const int32_t storage = value.storage;
      const bool own = program.storages[static_cast<size_t>(storage)].node == id;
      value = value_operand(program, graph, {id, i}, storage);
      if (value.storage != storage) return formatted("'{}' becomes a view", n.name);
      if (own && !resize(storage, value_bytes(n.outputs[static_cast<size_t>(i)])))
        return formatted("'{}' needs more memory than its capacity", n.name);
    }
  }
  Target replaying = target;
  for (size_t w = 0; w < program.work.size(); ++w) {
    Program::Work& work = program.work[w];
    if (!std::ranges::binary_search(nodes, work.node)) continue;
    const Node& n = graph.node(work.node);
    NodeOperands operands = operands_of(program, graph, work.node);
    const size_t storages = program.storages.size();
    work.choices.replay();
    replaying.choices = &work.choices;
    Relowered& out = relowered.emplace_back(w);
    Lowering l(replaying, work.node, std::move(operands.inputs), std::move(operands.outputs),
               program.storages, out.dispatches);
    l.reuse_scratch(work.scratch);
    lower_node(n, l);
    if (program.storages.size() != storages || l.scratch_storages().size() != work.scratch.size()) {
      program.storages.resize(storages);
      return formatted("'{}' needs other intermediates", n.name);
    }
    for (size_t i = 0; i < work.scratch.size(); ++i) {
      if (!resize(work.scratch[i], l.scratch_bytes()[i]))
        return formatted("'{}' needs more memory for intermediates", n.name);
    }
  }
  return std::nullopt;
}

}  // namespace rlx
