// Cuts a graph at the boundary of its load phase. Views of weights stay in the main part: they cost nothing,
// and the memory behind them is what both parts share.
#include <algorithm>
#include <map>
#include <set>

#include "base/format.h"
#include "base/limits.h"
#include "ir/dtype.h"
#include "ir/load_phase.h"
#include "ir/op.h"
#include "ops/rearrange/concat.h"
#include "passes/passes.h"

namespace rlx {
namespace {

class Splitter {
 public:
  explicit Splitter(const Graph& graph) : g_(graph), loaded_(in_load_phase(graph)) {
    out_.main.name = graph.name;
    out_.load.name = graph.name + ".load";
    for (const auto& [symbol, largest] : graph.capacities()) out_.main.set_capacity(symbol, largest);
  }

  LoadSplit run() {
    for (int32_t id = 0; id < g_.size(); ++id) {
      if (!loaded_[static_cast<size_t>(id)]) copy(id, out_.main, main_, &Splitter::in_main);
    }
    for (const Graph::Output& o : g_.outputs()) {
      Graph::Output mapped = o;
      mapped.value = in_main(o.value);
      out_.main.add_output(std::move(mapped));
    }
    return std::move(out_);
  }

 private:
  using Map = std::map<ValueId, ValueId>;
  using Find = ValueId (Splitter::*)(ValueId);

  void copy(int32_t id, Graph& into, Map& map, Find input) {
    const Node& n = g_.node(id);
    std::vector<ValueId> inputs;
    for (ValueId v : n.inputs) inputs.push_back(v.is_absent() ? v : (this->*input)(v));
    const ValueId fresh = into.add(n.op, std::move(inputs), n.name);
    for (int32_t o = 0; o < static_cast<int32_t>(n.outputs.size()); ++o) map[{id, o}] = {fresh.node, o};
  }

  ValueId in_main(ValueId v) {
    if (const auto it = main_.find(v); it != main_.end()) return it->second;
    const Node& n = g_.producer(v);
    if (n.op->is_leaf() || n.op->has(Trait::view)) {
      copy(v.node, out_.main, main_, &Splitter::in_main);
    } else {
      main_[v] = derived(v);
    }
    return main_.at(v);
  }

  ValueId in_load(ValueId v) {
    if (!load_.contains(v)) copy(v.node, out_.load, load_, &Splitter::in_load);
    return load_.at(v);
  }

  ValueId derived(ValueId v) {
    const Node& n = g_.producer(v);
    auto leaf = std::make_shared<Param>();
    leaf->type = g_.type(v);
    // Names of nodes have no colon.
    const std::string name = v.output == 0 ? n.name : formatted("{}:{}", n.name, v.output);
    if (!join(n)) out_.load.add_output({.name = name, .value = in_load(v)});
    return out_.main.add(leaf, {}, name);
  }

  // Whether the node only puts whole params one after the other, which then lie so in memory.
  bool join(const Node& n) {
    const auto* concat = op_cast<Concat>(*n.op);
    if (!concat) return false;
    const Shape& shape = n.outputs[0].shape;
    for (int64_t axis = 0; axis < normal_axis(concat->axis, shape.rank()); ++axis) {
      if (!shape[axis].is(1)) return false;
    }
    LoadSplit::Joined joined{n.name, {}};
    for (ValueId v : n.inputs) {
      const Node& part = g_.producer(v);
      const TensorType& type = part.outputs[0];
      // Each may also be read alone, so each begins where a binding can.
      if (!part.op->is(LeafKind::param) || is_encoded(type.dtype) || placed_.contains(part.name) ||
          std::ranges::contains(joined.parts, part.name, &LoadSplit::Joined::Part::name) ||
          device_bytes_of(type.dtype, type.shape.elements().value()) % kBindingAlignment != 0) {
        return false;
      }
      joined.parts.push_back({part.name, type});
    }
    for (const LoadSplit::Joined::Part& part : joined.parts) placed_.insert(part.name);
    out_.joined.push_back(std::move(joined));
    return true;
  }

  const Graph& g_;
  std::vector<bool> loaded_;
  LoadSplit out_;
  Map main_, load_;
  std::set<std::string> placed_;
};

}  // namespace

LoadSplit split_load_phase(const Graph& graph) { return Splitter(graph).run(); }

}  // namespace rlx
