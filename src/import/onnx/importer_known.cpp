// The importer, values that are known while importing: those that depend on constants and weights alone, and
// which inputs decide the others.
#include <algorithm>
#include <optional>
#include <set>

#include "base/fail.h"
#include "import/onnx/importer.h"
#include "ir/op.h"
#include "ir/reference.h"
#include "rlx/graph.h"
#include "rlx/ops/rearrange.h"

namespace rlx::onnx {
namespace {

// Larger tensors are not computed while importing, nor nodes that may need more multiplications.
constexpr int64_t kMaxEvaluated = 65536;
constexpr int64_t kMaxProducts = 1 << 22;

bool is_small(const TensorType& t) {
  return t.shape.is_static() && t.shape.elements().value() <= kMaxEvaluated;
}

// An upper bound of the steps that the reference takes: every element of the inputs for every result, unless
// the op is one that looks at few.
int64_t most_work(const Node& n, const std::vector<const RefTensor*>& inputs) {
  int64_t made = 0;
  for (const TensorType& t : n.outputs) made += t.shape.elements().value();
  if (n.op->has(Trait::view) || n.op->has(Trait::elementwise)) return made;
  int64_t read = 1;
  for (const RefTensor* in : inputs) read += in ? in->elements() : 0;
  return std::min(made, kMaxProducts) * std::min(read, kMaxProducts) + read;
}

}  // namespace

void Importer::evaluate(const Graph& graph, int32_t id) {
  KnownValues& known = known_[&graph];
  // The nodes that it depends on, in an order in which they can be computed: that of the graph.
  std::set<int32_t> cone;
  std::vector<int32_t> open = {id};
  while (!open.empty()) {
    const int32_t at = open.back();
    open.pop_back();
    if (known.contains(at) || !cone.insert(at).second) continue;
    for (const ValueId v : graph.node(at).inputs) {
      if (!v.is_absent()) open.push_back(v.node);
    }
  }
  for (const int32_t at : cone) {
    const Node& n = graph.node(at);
    std::vector<RefTensor>& out = known[at];
    spend(1 + std::ssize(n.inputs));
    if (!n.op->subgraphs().empty() || !std::ranges::all_of(n.outputs, is_small)) continue;
    std::set<std::string> symbols;
    collect_symbols(*n.op, symbols);
    if (!symbols.empty()) continue;
    if (const auto* constant = op_cast<Constant>(*n.op)) {
      spend(constant->value.elements());
      out = {RefTensor::from(constant->value)};
    } else if (n.op->is(LeafKind::param)) {
      spend(n.outputs[0].shape.elements().value());
      out = {RefTensor::from(weights_.at(n.name))};
    } else if (!n.op->is_leaf()) {
      std::vector<const RefTensor*> inputs;
      bool complete = true;
      for (const ValueId v : n.inputs) {
        const std::vector<RefTensor>* made = v.is_absent() ? nullptr : &known.at(v.node);
        complete = complete && (v.is_absent() || !made->empty());
        inputs.push_back(made && !made->empty() ? &(*made)[static_cast<size_t>(v.output)] : nullptr);
      }
      const int64_t work = complete ? most_work(n, inputs) : 0;
      if (!complete || work > kMaxProducts) continue;
      spend(work);
      out = run_reference(n, inputs);
    }
  }
}

std::optional<Tensor> Importer::constant(const Value& value) {
  const Graph& graph = value.graph();
  if (!is_small(graph.type(value.id()))) return std::nullopt;
  evaluate(graph, value.id().node);
  const std::vector<RefTensor>& made = known_.at(&graph).at(value.id().node);
  if (made.empty()) return std::nullopt;
  const RefTensor& found = made[static_cast<size_t>(value.id().output)];
  spend(found.elements());
  return found.to_tensor();
}

Importer::Behind Importer::behind(const Value& value) {
  std::vector<int32_t> open = {value.id().node};
  std::set<int32_t> seen;
  Behind out;
  while (!open.empty()) {
    const int32_t at = open.back();
    open.pop_back();
    if (!seen.insert(at).second) continue;
    const Node& n = value.graph().node(at);
    if (n.op->is(LeafKind::input) && &value.graph() == &graph_) {
      if (options_.values.contains(n.name)) newly_needed_.insert(n.name);
      out.inputs += formatted("{}'{}'", out.inputs.empty() ? "" : ", ", excerpt(n.name));
    }
    if (!n.op->is_leaf()) collect_symbols(*n.op, out.symbols);
    for (const ValueId v : n.inputs) {
      if (!v.is_absent()) open.push_back(v.node);
    }
  }
  return out;
}

void Importer::need_host_value(const Value& value, std::string_view what) {
  const Behind behind = this->behind(value);
  if (!behind.inputs.empty()) {
    throw Refused(Refusal::host_value,
                  formatted("{} depends on the value of the input {}, which must be given with the model "
                            "(LoadOptions::values, --input NAME=FILE)",
                            what, behind.inputs));
  }
  if (!behind.symbols.empty()) {
    throw Refused(Refusal::other, formatted("{} depends on the size {}, which must be given with the model "
                                            "(LoadOptions::symbols, --dim NAME=N)",
                                            what, excerpt(joined(behind.symbols), 200)));
  }
  throw Refused(Refusal::other, formatted("{} depends on values that only the run knows", what));
}

Dim Importer::settled(const Dim& dim) const {
  return within_capacities(choose(dim, assumed_), options_.capacities);
}

Value Importer::agreed(const Value& value, const Shape& shape) {
  if (value.shape() == shape) return value;
  if (value.shape().rank() != shape.rank()) return {};
  std::vector<Minimum> found;
  for (int64_t i = 0; i < shape.rank(); ++i)
    std::ranges::move(minima(value.shape()[i]), std::back_inserter(found));
  for (const DimChoices& choices : choices_of(std::move(found))) {
    Shape chosen;
    for (const Dim& d : value.shape()) chosen.push_back(choose(d, choices));
    if (!(chosen == shape)) continue;
    newly_assumed_.insert(choices.begin(), choices.end());
    return reshape(value, shape);
  }
  return {};
}

void Importer::need_condition(const Value& condition) {
  if (const Behind behind = this->behind(condition); !behind.inputs.empty()) {
    throw Refused(Refusal::host_value,
                  formatted("one of its branches cannot be imported, and whether it is needed depends on the "
                            "value of the input {}, which must be given with the model "
                            "(LoadOptions::values, --input NAME=FILE)",
                            behind.inputs));
  }
}

}  // namespace rlx::onnx
