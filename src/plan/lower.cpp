#include "base/format.h"
#include "ir/load_phase.h"
#include "ir/op.h"
#include "ir/states.h"
#include "plan/program.h"

namespace rlx {
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
      } else if (!n.inputs.empty() && n.op->overwrites(0)) {
        layout = layouts.at(n.inputs[0]);
      }
      layouts[v] = std::move(layout);
    }
  }
  return layouts;
}

Program lower(const Graph& graph, const Target& target) {
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
    // A view of an encoded leaf has the type f32 in the graph, but its memory is the leaf's.
    o.dtype = is_encoded(root_type.dtype) ? root_type.dtype : graph.type(value).dtype;
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
    Lowering lowering(target, id, std::move(inputs), std::move(outputs), program.storages,
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
