// The CPU reference: every op computed plainly in double, int64 or complex<double>.
#pragma once

#include <complex>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ir/op.h"
#include "rlx/value.h"

namespace rlx {

struct Node;

// Exactly one of the vectors is in use, by dtype: real for floats, ints for integers and bool, complex for
// c64.
struct RefTensor {
  DType dtype = DType::f32;
  std::vector<int64_t> dims;
  std::vector<double> real;
  std::vector<int64_t> ints;
  std::vector<std::complex<double>> complex;

  static RefTensor zeros(DType dtype, std::vector<int64_t> dims);
  static RefTensor from(const Tensor& tensor);
  Tensor to_tensor() const;  // rounded to the type
  int64_t elements() const;

  // Calls f with the vector in use.
  template <class F>
  decltype(auto) visit(F&& f) {
    if (dtype == DType::c64) return f(complex);
    if (is_float(dtype)) return f(real);
    return f(ints);
  }
  template <class F>
  decltype(auto) visit(F&& f) const {
    if (dtype == DType::c64) return f(complex);
    if (is_float(dtype)) return f(real);
    return f(ints);
  }
};

// Calls f(values of from, values of to) with the vectors in use; for ops that move elements of any one type.
template <class F>
void visit_both(const RefTensor& from, RefTensor& to, F&& f) {
  if (from.dtype == DType::c64) return f(from.complex, to.complex);
  if (is_float(from.dtype)) return f(from.real, to.real);
  return f(from.ints, to.ints);
}

// Computes a node in place of its own reference; a null input is absent.
using NodeEvaluator =
    std::function<std::vector<RefTensor>(const Node& node, const std::vector<const RefTensor*>& inputs)>;

// What the nodes of a graph and of the bodies in it share during one evaluation.
struct RefScope {
  const NamedTensors& leaves;               // inputs, params and what states hold at first
  std::map<std::string, RefTensor> states;  // what those hold now that were written
  const NodeEvaluator& evaluate_node;       // for nodes without bodies
  const Graph* graph = nullptr;             // the one being evaluated, for its capacities
};

class RefContext {
 public:
  // Outputs whose type has a symbol, a size that only the run knows, begin empty; the op replaces them.
  RefContext(std::vector<const RefTensor*> inputs, std::span<const TensorType> output_types,
             RefScope* scope = nullptr);

  int64_t input_count() const { return static_cast<int64_t>(inputs_.size()); }
  bool has(int64_t i) const { return optional_in(i) != nullptr; }
  const RefTensor& in(int64_t i) const {
    const RefTensor* tensor = optional_in(i);
    check(tensor != nullptr, "a reference reads inputs that are given");
    return *tensor;
  }
  // Null if the input is absent.
  const RefTensor* optional_in(int64_t i) const {
    return i >= 0 && i < input_count() ? inputs_[static_cast<size_t>(i)] : nullptr;
  }
  RefTensor& out(int64_t i = 0) { return outputs_[static_cast<size_t>(i)]; }
  std::vector<RefTensor> take_outputs() { return std::move(outputs_); }

  // The outputs of a body, in order, for values of its inputs. States that it writes keep their new contents.
  std::vector<RefTensor> run(const Graph& body, std::vector<RefTensor> inputs) const;
  // The largest value of a size that only the run knows: the number itself, or the capacity of the symbol if
  // the graph gives it one.
  std::optional<int64_t> capacity(const Dim& size) const;

 private:
  RefScope* scope_;
  std::vector<const RefTensor*> inputs_;
  std::vector<RefTensor> outputs_;  // zeros of the inferred types
};

// Reads `source` through a view, into row-major order.
template <class T>
std::vector<T> gather_view(const std::vector<T>& source, const View& view) {
  std::vector<T> out;
  out.reserve(static_cast<size_t>(view.elements()));
  view.for_each_position([&](int64_t at) { out.push_back(source[static_cast<size_t>(at)]); });
  return out;
}

// Runs one node; a null input is absent. Without a scope, its bodies have no params, and their states are
// zero.
std::vector<RefTensor> run_reference(const Node& node, const std::vector<const RefTensor*>& inputs,
                                     RefScope* scope = nullptr);

// All values of a graph, by node; `leaves` holds inputs, params and states by name (states default to zero).
// The graph is static, except for sizes that only the run knows: they are bound as soon as they are known.
std::vector<std::vector<RefTensor>> reference_values(const Graph& graph, const NamedTensors& leaves);

// Called after each node with the number of nodes done.
using ReferenceProgress = std::function<void(int64_t nodes_done)>;

// The outputs by name. Values are dropped after their last use: those of a large model do not fit in memory
// together.
std::map<std::string, RefTensor> run_reference(const Graph& graph, const NamedTensors& leaves,
                                               const ReferenceProgress& progress = {});

}  // namespace rlx
