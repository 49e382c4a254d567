#include <algorithm>
#include <queue>
#include <set>

#include "base/format.h"
#include "ir/load_phase.h"
#include "ir/op.h"
#include "plan/program.h"

namespace rlx {
namespace {

bool overwrites_input(const Op& op, size_t input) { return op.overwrites(static_cast<int64_t>(input)); }

// The state version that a value reads, through views: a view of a state sees what the state holds.
std::map<ValueId, ValueId> state_versions(const Graph& graph) {
  std::map<ValueId, ValueId> version;
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    if (n.op->is(LeafKind::state) || (!n.inputs.empty() && overwrites_input(*n.op, 0))) {
      version[{id, 0}] = {id, 0};
    } else if (n.op->has(Trait::view) && version.contains(n.inputs[0])) {
      version[{id, 0}] = version[n.inputs[0]];
    }
  }
  return version;
}

}  // namespace

std::vector<int32_t> schedule(const Graph& graph) {
  const std::map<ValueId, ValueId> version = state_versions(graph);
  const auto n = static_cast<size_t>(graph.size());
  std::vector<std::set<int32_t>> after(n);  // edges: node -> nodes that must come later
  std::vector<int> waits(n, 0);
  const auto edge = [&](int32_t first, int32_t then) {
    if (first != then && after[static_cast<size_t>(first)].insert(then).second)
      ++waits[static_cast<size_t>(then)];
  };
  std::map<ValueId, int32_t> writer;
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i].is_absent()) continue;
      edge(node.inputs[i].node, id);
      if (overwrites_input(*node.op, i)) {
        const auto it = version.find(node.inputs[i]);
        if (it == version.end() || it->second != node.inputs[i]) {
          fail("node '{}': input {} is '{}', which is no state", node.name, i,
               graph.producer(node.inputs[i]).name);
        }
        writer[it->second] = id;
      }
    }
  }
  for (int32_t id = 0; id < graph.size(); ++id) {
    for (ValueId v : graph.node(id).inputs) {
      const auto it = version.find(v);
      if (it == version.end()) continue;
      if (const auto w = writer.find(it->second); w != writer.end()) edge(id, w->second);
    }
  }
  std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> ready;
  for (int32_t id = 0; id < graph.size(); ++id) {
    if (waits[static_cast<size_t>(id)] == 0) ready.push(id);
  }
  std::vector<int32_t> order;
  while (!ready.empty()) {
    const int32_t id = ready.top();
    ready.pop();
    order.push_back(id);
    for (int32_t next : after[static_cast<size_t>(id)]) {
      if (--waits[static_cast<size_t>(next)] == 0) ready.push(next);
    }
  }
  if (order.size() < n) {
    for (const auto& [state, id] : writer) {
      if (waits[static_cast<size_t>(id)] == 0) continue;
      fail("node '{}' overwrites the state '{}', whose old contents are needed after it; copy them first",
           graph.node(id).name, graph.producer(state).name);
    }
  }
  return order;
}

std::map<ValueId, Layout> value_layouts(const Graph& graph) {
  std::map<ValueId, Layout> layouts;
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    for (size_t o = 0; o < n.outputs.size(); ++o) {
      const ValueId v{id, static_cast<int32_t>(o)};
      const std::vector<int64_t> dims = n.outputs[o].shape.values();
      Layout layout{v, View::contiguous(dims)};
      if (n.op->has(Trait::view)) {
        const Layout& source = layouts.at(n.inputs[0]);
        if (auto view = n.op->view(source.view, dims)) layout = {source.root, *std::move(view)};
      } else if (!n.inputs.empty() && overwrites_input(*n.op, 0)) {
        layout = layouts.at(n.inputs[0]);
      }
      layouts[v] = std::move(layout);
    }
  }
  return layouts;
}

Program lower(const Graph& graph, const Caps& caps, const ForcedVariants& forced) {
  Program program;
  const std::map<ValueId, Layout> layouts = value_layouts(graph);
  std::map<ValueId, int32_t> storage_of;  // of roots
  for (const auto& [value, layout] : layouts) {
    const Node& root = graph.producer(layout.root);
    const TensorType& root_type = graph.type(layout.root);
    if (!storage_of.contains(layout.root)) {
      storage_of[layout.root] = static_cast<int32_t>(program.storages.size());
      program.storages.push_back({root.op->leaf(),
                                  storage_bytes(root_type.dtype, root_type.shape.elements().value()),
                                  layout.root.node});
    }
    Operand& o = program.values[value];
    o.storage = storage_of[layout.root];
    o.dtype = graph.type(value).dtype;
    o.view = layout.view;
  }

  const std::vector<bool> loaded = in_load_phase(graph);
  for (int32_t id : schedule(graph)) {
    const Node& n = graph.node(id);
    if (n.op->is_leaf()) continue;
    std::vector<Operand> inputs;
    std::vector<Operand> outputs;
    for (ValueId v : n.inputs) inputs.push_back(v.is_absent() ? Operand{} : program.values.at(v));
    for (size_t o = 0; o < n.outputs.size(); ++o)
      outputs.push_back(program.values[{id, static_cast<int32_t>(o)}]);
    if (n.op->has(Trait::view) && outputs[0].storage == inputs[0].storage) continue;
    Lowering lowering(caps, forced, id, std::move(inputs), std::move(outputs), program.storages,
                      loaded[static_cast<size_t>(id)] ? program.load : program.main);
    try {
      n.op->lower(lowering);
    } catch (const Error& e) {
      throw e.within(formatted("while lowering node '{}' ({})", n.name, n.op->name()));
    }
  }
  for (const Graph::Output& out : graph.outputs())
    program.outputs.push_back({out.name, program.values.at(out.value)});
  return program;
}

}  // namespace rlx
