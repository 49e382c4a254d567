// Types of values, and handles on them while a graph is built: what the functions of rlx/ops.h take and
// return. rlx/graph.h has the graph.
#pragma once

#include <compare>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "rlx/dtype.h"
#include "rlx/shape.h"

namespace rlx {

class Op;
class Graph;
using OpPtr = std::shared_ptr<const Op>;
using GraphPtr = std::shared_ptr<const Graph>;

struct TensorType {
  DType dtype = DType::f32;
  Shape shape;

  std::string text() const;  // f32[batch, 768]
  friend bool operator==(const TensorType&, const TensorType&) = default;
};
std::ostream& operator<<(std::ostream& out, const TensorType& type);
// What ops see of it: an encoded type as f32.
inline TensorType value_type(const TensorType& type) { return {value_dtype(type.dtype), type.shape}; }

// Output `output` of node number `node`; -1 stands for an optional input that is not given.
struct ValueId {
  int32_t node = -1;
  int32_t output = 0;
  bool is_absent() const { return node < 0; }
  friend auto operator<=>(const ValueId&, const ValueId&) = default;
};

// A handle on a value while a graph is built. It follows the graph when that is moved; using it after the
// graph is gone is an error. A copy of a graph has its own values. An empty Value in place of an optional
// input means that it is not given.
class Value {
 public:
  Value() = default;

  Graph& graph() const;
  ValueId id() const { return id_; }
  const TensorType& type() const;
  const Shape& shape() const { return type().shape; }
  DType dtype() const { return type().dtype; }  // of a leaf it may be encoded; ops see value_dtype(dtype())
  // Names the node that makes this value: messages, dumps and traces use this name.
  Value named(std::string name) const;
  explicit operator bool() const { return graph_ != nullptr; }

 private:
  friend class Graph;
  Value(std::shared_ptr<Graph* const> graph, ValueId id) : graph_(std::move(graph)), id_(id) {}

  std::shared_ptr<Graph* const> graph_;
  ValueId id_;
};

// The first output of a new node in the graph of inputs[0], which must be given (see Graph::add_value).
Value add_node(OpPtr op, const std::vector<Value>& inputs);

}  // namespace rlx
