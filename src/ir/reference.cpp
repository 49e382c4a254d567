#include "ir/reference.h"

#include "base/format.h"
#include "ir/evaluate.h"
#include "ir/view.h"

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

RefContext::RefContext(std::vector<const RefTensor*> inputs, std::span<const TensorType> output_types)
    : inputs_(std::move(inputs)) {
  for (const TensorType& type : output_types)
    outputs_.push_back(RefTensor::zeros(type.dtype, type.shape.values()));
}

std::vector<RefTensor> run_reference(const Node& node, const std::vector<const RefTensor*>& inputs) {
  RefContext context(inputs, node.outputs);
  try {
    node.op->reference(context);
  } catch (const Error& e) {
    throw e.within(formatted("while computing node '{}' ({}) on the CPU", node.name, node.op->name()));
  }
  return context.take_outputs();
}

namespace {

RefTensor leaf_value(const Node& node, const NamedTensors& leaves) {
  const TensorType& type = node.outputs[0];
  const auto leaf = leaves.find(node.name);
  if (leaf == leaves.end()) {
    if (node.op->is(LeafKind::state)) return RefTensor::zeros(type.dtype, type.shape.values());
    fail(ErrorKind::invalid_argument, "no value was given for the {} '{}'", node.op->name(), node.name);
  }
  if (leaf->second.shape() != type.shape.values() || leaf->second.dtype() != type.dtype) {
    fail(ErrorKind::invalid_argument, "the {} '{}' needs {}, but {} was given", node.op->name(), node.name,
         type.text(), leaf->second.type_text());
  }
  return RefTensor::from(leaf->second);
}

using NodeValues = std::vector<std::vector<RefTensor>>;

void compute_node(const Node& node, const NamedTensors& leaves, NodeValues& values,
                  const NodeEvaluator& evaluate_node) {
  if (dynamic_cast<const Leaf*>(node.op.get())) {
    values.emplace_back().push_back(leaf_value(node, leaves));
    return;
  }
  std::vector<const RefTensor*> inputs;
  for (ValueId v : node.inputs) {
    inputs.push_back(v.is_absent() ? nullptr
                                   : &values[static_cast<size_t>(v.node)][static_cast<size_t>(v.output)]);
  }
  values.push_back(evaluate_node(node, inputs));
}

std::vector<RefTensor> plainly(const Node& node, const std::vector<const RefTensor*>& inputs) {
  return run_reference(node, inputs);
}

}  // namespace

std::vector<std::vector<RefTensor>> reference_values(const Graph& graph, const NamedTensors& leaves) {
  NodeValues values;
  values.reserve(graph.nodes().size());
  for (const Node& node : graph.nodes()) compute_node(node, leaves, values, plainly);
  return values;
}

namespace {

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

}  // namespace

std::map<std::string, RefTensor> run_reference(const Graph& graph, const NamedTensors& leaves,
                                               const ReferenceProgress& progress) {
  return evaluate(graph, leaves, plainly, progress);
}

std::map<std::string, RefTensor> evaluate(const Graph& graph, const NamedTensors& leaves,
                                          const NodeEvaluator& evaluate_node,
                                          const ReferenceProgress& progress) {
  std::vector<int32_t> last_use(graph.nodes().size());
  for (int32_t id = 0; id < graph.size(); ++id) {
    for (ValueId v : graph.node(id).inputs) {
      if (!v.is_absent()) last_use[static_cast<size_t>(v.node)] = id;
    }
  }
  for (const Graph::Output& out : graph.outputs())
    last_use[static_cast<size_t>(out.value.node)] = graph.size();

  NodeValues values;
  values.reserve(graph.nodes().size());
  for (int32_t id = 0; id < graph.size(); ++id) {
    compute_node(graph.node(id), leaves, values, evaluate_node);
    for (ValueId v : graph.node(id).inputs) {
      if (!v.is_absent() && last_use[static_cast<size_t>(v.node)] == id)
        values[static_cast<size_t>(v.node)].clear();
    }
    if (progress) progress(id + 1);
  }
  std::map<std::string, RefTensor> outputs;
  for (const Graph::Output& out : graph.outputs()) {
    outputs[out.name] = values[static_cast<size_t>(out.value.node)][static_cast<size_t>(out.value.output)];
  }
  for (const Graph::Output& out : graph.outputs()) {
    if (!out.count.empty())
      outputs[out.name] = head(outputs[out.name], out.axis, outputs.at(out.count).ints[0]);
  }
  return outputs;
}

}  // namespace rlx
