// A model of one ONNX node, imported and computed by the reference, and what tests of rules say about it.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "base/format.h"
#include "ir/op.h"
#include "ir/reference.h"
#include "passes/pass_order.h"
#include "passes/passes.h"
#include "rlx/onnx.h"
#include "tests/support/compare.h"
#include "tests/support/onnx_model.h"

namespace rlx::testing {

using Reals = std::vector<double>;
using Ints = std::vector<int64_t>;
using Dims = std::vector<OnnxGraph::Dim>;

constexpr auto kMicrosoft = "com.microsoft";

// A model of one node with the inputs x0, x1, ... and the outputs y0, y1, ...
class OneNode {
 public:
  explicit OneNode(std::string op, OnnxGraph::Attributes attributes = {}, int64_t opset = 21)
      : op_(std::move(op)), attributes_(std::move(attributes)), model_(opset) {
    model_.import(kMicrosoft, 1);
  }
  // An op of com.microsoft.
  static OneNode microsoft(std::string op, OnnxGraph::Attributes attributes = {}) {
    OneNode out(std::move(op), std::move(attributes));
    out.domain_ = kMicrosoft;
    return out;
  }

  OneNode& input(const Dims& dims, ElementType type = ElementType::float32) {
    model_.graph.input(next_name(), dims, type);
    return *this;
  }
  // An input with its value.
  OneNode& value(const Tensor& tensor) {
    Dims dims;
    for (const int64_t n : tensor.shape()) dims.emplace_back(static_cast<int>(n));
    values_[formatted("x{}", inputs_.size())] = tensor;
    return input(dims, onnx::element_type_of(tensor.dtype()));
  }
  OneNode& constant(const Tensor& tensor) {
    model_.graph.initializer(next_name(), tensor);
    return *this;
  }
  OneNode& absent() {
    inputs_.emplace_back();
    return *this;
  }
  OneNode& outputs(const std::vector<bool>& wanted) {
    outputs_ = wanted;
    return *this;
  }

  onnx::Model load() const {
    OnnxModel model = model_;
    std::vector<std::string> names;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      names.push_back(outputs_[i] ? formatted("y{}", i) : "");
      if (outputs_[i]) model.graph.output(names.back());
    }
    model.graph.node(op_, inputs_, names, attributes_, domain_);
    return onnx::parse(model.bytes());
  }
  std::map<std::string, RefTensor> run(const SymbolValues& sizes = {},
                                       const NamedTensors& values = {}) const {
    const onnx::Model model = load();
    NamedTensors leaves = model.weights;
    leaves.insert(values_.begin(), values_.end());
    leaves.insert(values.begin(), values.end());
    return run_reference(bind_symbols(model.graph, sizes), leaves);
  }
  RefTensor y(const SymbolValues& sizes = {}, const NamedTensors& values = {}) const {
    return run(sizes, values).at("y0");
  }

 private:
  std::string next_name() { return inputs_.emplace_back(formatted("x{}", inputs_.size())); }

  std::string op_;
  std::string domain_;
  OnnxGraph::Attributes attributes_;
  OnnxModel model_;
  std::vector<std::string> inputs_;
  std::vector<bool> outputs_ = {true};
  NamedTensors values_;
};

inline Tensor floats(const Ints& shape, const std::vector<float>& values) {
  return Tensor::of(shape, values);
}
inline Tensor longs(const Ints& shape, const Ints& values) { return Tensor::of(shape, values); }
inline Tensor ints(const Ints& shape, const std::vector<int32_t>& values) {
  return Tensor::of(shape, values);
}
// 0, 1, 2, ...
inline Tensor counting(const Ints& shape, DType dtype = DType::f32) {
  Ints values(static_cast<size_t>(Shape(shape).elements().value()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i);
  return Tensor::from_ints(dtype, shape, values);
}
// Numbers that look like nothing.
inline Tensor waves(const Ints& shape, double phase) {
  Reals values(static_cast<size_t>(Shape(shape).elements().value()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(phase + 1.7 * static_cast<double>(i));
  return Tensor::from_doubles(DType::f32, shape, values);
}

inline Shape output_shape(const onnx::Model& model, size_t i = 0) {
  return model.graph.type(model.graph.outputs().at(i).value).shape;
}

// The ops that remain after all passes, other than leaves and views.
inline std::vector<std::string> optimized(const onnx::Model& model) {
  const Graph graph = optimize(expand_ops(model.graph), {});
  std::vector<std::string> out;
  for (const Node& n : graph.nodes()) {
    const std::string name(n.op->name());
    const bool view = name == "reshape" || name == "transpose" || name == "slice" || name == "expand";
    if (!n.op->is_leaf() && !view) out.push_back(name);
  }
  return out;
}

inline void expect_near(const Reals& got, const Reals& want, double allowed = 1e-6) {
  EXPECT_TRUE(within(got, want, allowed));
}

}  // namespace rlx::testing
