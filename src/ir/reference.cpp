#include "ir/reference.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "ir/evaluate.h"
#include "ir/subgraphs.h"
#include "ir/view.h"
#include "rlx/graph.h"

namespace rlx {

RefTensor RefTensor::zeros(DType dtype, std::vector<int64_t> dims) {
  RefTensor t{.dtype = value_dtype(dtype), .dims = std::move(dims), .real = {}, .ints = {}, .complex = {}};
  const auto n = static_cast<size_t>(product(t.dims));
  t.visit([n](auto& values) { values.resize(n); });
  return t;
}

RefTensor RefTensor::from(const Tensor& tensor) {
  RefTensor t{
      .dtype = value_dtype(tensor.dtype()), .dims = tensor.shape(), .real = {}, .ints = {}, .complex = {}};
  if (t.dtype == DType::c64) {
    for (int64_t i = 0; i < tensor.elements(); ++i) t.complex.push_back(tensor.complex(i));
  } else if (is_float(t.dtype)) {
    t.real = tensor.doubles();
  } else {
    t.ints = tensor.integers();
  }
  return t;
}

Tensor RefTensor::to_tensor() const {
  if (is_float(dtype)) return Tensor::from_doubles(dtype, dims, real);
  if (dtype != DType::c64) return Tensor::from_ints(dtype, dims, ints);
  std::vector<std::complex<float>> values(complex.begin(), complex.end());
  return Tensor::of<std::complex<float>>(dims, values);
}

int64_t RefTensor::elements() const { return product(dims); }

namespace {

std::vector<RefTensor> plainly(const Node& node, const std::vector<const RefTensor*>& inputs) {
  return run_reference(node, inputs);
}
const NodeEvaluator kPlainly = plainly;

RefTensor leaf_value(const Node& node, const RefScope& scope) {
  const TensorType& type = node.outputs[0];
  const bool is_state = node.op->is(LeafKind::state);
  if (const auto written = scope.states.find(node.name); is_state && written != scope.states.end())
    return written->second;
  const auto leaf = scope.leaves.find(node.name);
  if (leaf == scope.leaves.end()) {
    if (is_state) return RefTensor::zeros(type.dtype, type.shape.values());
    fail(ErrorKind::invalid_argument, "no value was given for the {} '{}'", node.op->name(), node.name);
  }
  if (leaf->second.shape() != type.shape.values() || leaf->second.dtype() != type.dtype) {
    fail(ErrorKind::invalid_argument, "the {} '{}' needs {}, but {} was given", node.op->name(), node.name,
         type.text(), leaf->second.type_text());
  }
  return RefTensor::from(leaf->second);
}

// The first n along the axis; all of them if there are fewer.
RefTensor head(const RefTensor& t, int64_t axis, int64_t n) {
  const View all = View::contiguous(t.dims);
  const View view = all.slice(axis, 0, std::clamp<int64_t>(n, 0, t.dims[static_cast<size_t>(axis)]));
  RefTensor out{.dtype = t.dtype, .dims = view.dims};
  if (!t.real.empty()) out.real = gather_view(t.real, view);
  if (!t.ints.empty()) out.ints = gather_view(t.ints, view);
  if (!t.complex.empty()) out.complex = gather_view(t.complex, view);
  return out;
}

bool is_static(const Node& n) {
  return std::ranges::all_of(n.outputs, [](const TensorType& t) { return t.shape.is_static(); });
}

// Walks a graph node by node.
class Evaluation {
 public:
  // `inputs`: the values of the inputs of a body, in order; null if the scope has them by name.
  Evaluation(const Graph& graph, RefScope& scope, std::vector<RefTensor>* inputs)
      : graph_(graph), scope_(scope), inputs_(inputs) {
    values_.reserve(graph.nodes().size());
    // A state shows what it held when the graph began, even if a body writes it before this node's turn.
    for (const Node& n : graph.nodes()) {
      if (n.op->is(LeafKind::state)) states_[n.name] = leaf_value(n, scope);
    }
    tracks_states_ = inputs != nullptr || std::ranges::any_of(graph.nodes(), [](const Node& n) {
                       return !n.op->subgraphs().empty();
                     });
  }

  // The next node.
  void step() {
    const auto id = static_cast<int32_t>(values_.size());
    const Node& n = graph_.node(id);
    if (dynamic_cast<const Leaf*>(n.op.get())) {
      values_.emplace_back().push_back(leaf(n));
      return;
    }
    std::vector<const RefTensor*> inputs;
    for (ValueId v : n.inputs) inputs.push_back(v.is_absent() ? nullptr : &value(v));
    if (sizes_.empty() && is_static(n)) {
      values_.push_back(compute(n, inputs));
    } else {
      values_.push_back(compute(sized(n, inputs), inputs));
      learn_sizes(n);
    }
    if (tracks_states_) keep_states(id);
  }

  const RefTensor& value(ValueId v) const {
    return values_[static_cast<size_t>(v.node)][static_cast<size_t>(v.output)];
  }
  void drop(int32_t node) { values_[static_cast<size_t>(node)].clear(); }
  std::vector<std::vector<RefTensor>> take_values() { return std::move(values_); }

 private:
  RefTensor leaf(const Node& n) {
    if (n.op->is(LeafKind::state)) return std::move(states_.at(n.name));
    if (!inputs_ || !n.op->is(LeafKind::input)) return leaf_value(n, scope_);
    check(next_input_ < inputs_->size(), "a body is given what it takes");
    RefTensor given = std::move((*inputs_)[next_input_++]);
    const TensorType type = value_type(n.outputs[0]);
    check(given.dtype == type.dtype && given.dims == type.shape.values(), "a body is given what it takes");
    return given;
  }

  std::vector<RefTensor> compute(const Node& n, const std::vector<const RefTensor*>& inputs) {
    if (n.op->subgraphs().empty()) return scope_.evaluate_node(n, inputs);
    const Graph* const outer = std::exchange(scope_.graph, &graph_);
    std::vector<RefTensor> outputs = run_reference(n, inputs, &scope_);
    scope_.graph = outer;
    return outputs;
  }

  // The node with all sizes that are known by now, as if the graph had always had them.
  Node sized(const Node& n, const std::vector<const RefTensor*>& inputs) const {
    Node out{bind_symbols(n.op, sizes_), n.name, n.inputs, {}};
    std::vector<TensorType> types;
    types.reserve(inputs.size());
    InferArgs::Types given;
    for (const RefTensor* in : inputs)
      given.push_back(in ? &types.emplace_back(in->dtype, Shape(in->dims)) : nullptr);
    try {
      out.outputs = out.op->infer(InferArgs(*out.op, std::move(given)));
    } catch (const Error& e) {
      throw e.within(formatted("node '{}' ({})", n.name, n.op->name()));
    }
    return out;
  }

  void learn_sizes(const Node& n) {
    const std::vector<RefTensor>& made = values_.back();
    for (size_t o = 0; o < made.size(); ++o) {
      const Shape& shape = n.outputs[o].shape;
      for (int64_t axis = 0; axis < shape.rank(); ++axis) {
        if (const auto symbol = shape[axis].as_symbol())
          learn(n, *symbol, made[o].dims[static_cast<size_t>(axis)]);
      }
    }
  }
  void learn(const Node& n, const std::string& symbol, int64_t size) {
    if (!sizes_.emplace(symbol, size).second) return;
    const auto capacity = graph_.capacities().find(symbol);
    if (capacity != graph_.capacities().end() && size > capacity->second) {
      fail(ErrorKind::invalid_argument, "node '{}' ({}) makes the symbol '{}' {}, more than its capacity {}",
           n.name, n.op->name(), symbol, size, capacity->second);
    }
  }

  void keep_states(int32_t id) {
    const Node& n = graph_.node(id);
    for (int32_t i = 0; i < static_cast<int32_t>(n.inputs.size()); ++i) {
      if (n.op->overwrites(i)) scope_.states[state_name(graph_, {id, i})] = value({id, i});
    }
  }

  const Graph& graph_;
  RefScope& scope_;
  std::vector<RefTensor>* inputs_;
  size_t next_input_ = 0;
  bool tracks_states_ = false;               // bodies read them by name
  std::map<std::string, RefTensor> states_;  // what they held when the graph began
  SymbolValues sizes_;                       // that the run has determined so far
  std::vector<std::vector<RefTensor>> values_;
};

std::vector<RefTensor> evaluate_outputs(const Graph& graph, RefScope& scope, std::vector<RefTensor>* inputs,
                                        const ReferenceProgress& progress) {
  std::vector<int32_t> last_use(graph.nodes().size());
  for (int32_t id = 0; id < graph.size(); ++id) {
    for (ValueId v : graph.node(id).inputs) {
      if (!v.is_absent()) last_use[static_cast<size_t>(v.node)] = id;
    }
  }
  for (const Graph::Output& out : graph.outputs())
    last_use[static_cast<size_t>(out.value.node)] = graph.size();

  Evaluation evaluation(graph, scope, inputs);
  for (int32_t id = 0; id < graph.size(); ++id) {
    evaluation.step();
    for (ValueId v : graph.node(id).inputs) {
      if (!v.is_absent() && last_use[static_cast<size_t>(v.node)] == id) evaluation.drop(v.node);
    }
    if (progress) progress(id + 1);
  }
  std::vector<RefTensor> outputs;
  for (const Graph::Output& out : graph.outputs()) outputs.push_back(evaluation.value(out.value));
  return outputs;
}

}  // namespace

RefContext::RefContext(std::vector<const RefTensor*> inputs, std::span<const TensorType> output_types,
                       RefScope* scope)
    : scope_(scope), inputs_(std::move(inputs)) {
  for (const TensorType& type : output_types) {
    const bool known = type.shape.is_static();
    outputs_.push_back(known ? RefTensor::zeros(type.dtype, type.shape.values())
                             : RefTensor{.dtype = value_dtype(type.dtype)});
  }
}

std::vector<RefTensor> RefContext::run(const Graph& body, std::vector<RefTensor> inputs) const {
  static const NamedTensors kNothing;
  RefScope alone{kNothing, {}, kPlainly};
  return evaluate_outputs(body, scope_ ? *scope_ : alone, &inputs, {});
}

std::optional<int64_t> RefContext::capacity(const Dim& size) const {
  if (size.is_static()) return size.value();
  if (!scope_ || !scope_->graph) return std::nullopt;
  const auto it = scope_->graph->capacities().find(size.text());
  if (it == scope_->graph->capacities().end()) return std::nullopt;
  return it->second;
}

std::vector<RefTensor> run_reference(const Node& node, const std::vector<const RefTensor*>& inputs,
                                     RefScope* scope) {
  RefContext context(inputs, node.outputs, scope);
  try {
    node.op->reference(context);
  } catch (const Error& e) {
    throw e.within(formatted("while computing node '{}' ({}) on the CPU", node.name, node.op->name()));
  }
  return context.take_outputs();
}

std::vector<std::vector<RefTensor>> reference_values(const Graph& graph, const NamedTensors& leaves) {
  RefScope scope{leaves, {}, kPlainly};
  Evaluation evaluation(graph, scope, nullptr);
  for (int32_t id = 0; id < graph.size(); ++id) evaluation.step();
  return evaluation.take_values();
}

std::map<std::string, RefTensor> run_reference(const Graph& graph, const NamedTensors& leaves,
                                               const ReferenceProgress& progress) {
  return evaluate(graph, leaves, kPlainly, progress);
}

std::map<std::string, RefTensor> evaluate(const Graph& graph, const NamedTensors& leaves,
                                          const NodeEvaluator& evaluate_node,
                                          const ReferenceProgress& progress) {
  RefScope scope{leaves, {}, evaluate_node};
  std::vector<RefTensor> values = evaluate_outputs(graph, scope, nullptr, progress);
  std::map<std::string, RefTensor> outputs;
  for (size_t o = 0; o < values.size(); ++o) outputs[graph.outputs()[o].name] = std::move(values[o]);
  for (const Graph::Output& out : graph.outputs()) {
    if (!out.count.empty())
      outputs[out.name] = head(outputs[out.name], out.axis, outputs.at(out.count).ints[0]);
  }
  return outputs;
}

}  // namespace rlx
