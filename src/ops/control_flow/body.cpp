#include "ops/control_flow/body.h"

#include <algorithm>

#include "ir/subgraphs.h"

namespace rlx {

void expect_body(std::string_view op, std::string_view attribute, const GraphPtr& body) {
  if (!body) fail("{}: the attribute '{}' is missing", op, attribute);
}

void expect_body_inputs(std::string_view op, const Graph& body, std::span<const TensorType> given) {
  const std::vector<int32_t> inputs = body_inputs(body);
  if (inputs.size() != given.size()) {
    fail("{}: the body '{}' takes {} input{}, not {}", op, body.name, inputs.size(),
         inputs.size() == 1 ? "" : "s", given.size());
  }
  for (size_t i = 0; i < given.size(); ++i) {
    const Node& n = body.node(inputs[i]);
    if (is_encoded(n.outputs[0].dtype)) {
      fail("{}: '{}' of the body '{}' is {}; a body sees decoded values, declare it as {}", op, n.name,
           body.name, n.outputs[0].text(), value_type(n.outputs[0]).text());
    }
    if (!(n.outputs[0] == given[i])) {
      fail("{}: '{}' of the body '{}' is {}, but it is given {}", op, n.name, body.name, n.outputs[0].text(),
           given[i].text());
    }
  }
}

std::vector<TensorType> body_output_types(const Graph& body) {
  std::vector<TensorType> types;
  for (const Graph::Output& o : body.outputs()) types.push_back(value_type(body.type(o.value)));
  return types;
}

std::vector<Value> all_outputs(Value first) {
  Graph& graph = first.graph();
  std::vector<Value> values;
  const auto count = static_cast<int32_t>(graph.producer(first.id()).outputs.size());
  for (int32_t o = 0; o < count; ++o) values.push_back(graph.value({first.id().node, o}));
  return values;
}

RefTensor stack(const std::vector<RefTensor>& slices, const TensorType& type, int64_t length) {
  std::vector<int64_t> dims = type.shape.values();
  dims.insert(dims.begin(), length);
  RefTensor out = RefTensor::zeros(type.dtype, std::move(dims));
  std::ptrdiff_t at = 0;
  for (const RefTensor& slice : slices) {
    visit_both(slice, out, [&](const auto& from, auto& to) { std::ranges::copy(from, to.begin() + at); });
    at += slice.elements();
  }
  return out;
}

}  // namespace rlx
