// Types of values, and handles on them while a graph is built: what the functions of rlx/ops.h take and
// return. rlx/graph.h has the graph.
#pragma once

#include <compare>
#include <concepts>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rlx/dtype.h"
#include "rlx/export.h"
#include "rlx/shape.h"

RLX_EXPORT_BEGIN
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

// Elements first, first + step, ... before last, as first:last:step in Python: numbers below 0 count from the
// end, and what is not given is the end in the direction of the step. On an axis whose size is a symbol, a
// step below 0 goes with neither of them.
struct Range {
  std::optional<int64_t> first = {};
  std::optional<int64_t> last = {};
  int64_t step = 1;
};
struct Ellipsis {};
struct NewAxis {};
inline constexpr Ellipsis ellipsis;  // all of as many axes as the other indices leave
inline constexpr NewAxis new_axis;   // an axis of size 1 that the tensor does not have

// What Value::operator[] takes for an axis: a number, which removes the axis, or one of these.
class Index {
 public:
  enum class Kind { number, range, ellipsis, new_axis };

  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Index(T number) : number_(std::in_range<int64_t>(number) ? static_cast<int64_t>(number) : INT64_MAX) {}
  Index(Range range) : kind_(Kind::range), range_(range) {}
  Index(Ellipsis) : kind_(Kind::ellipsis) {}
  Index(NewAxis) : kind_(Kind::new_axis) {}

  Kind kind() const { return kind_; }
  int64_t number() const { return number_; }
  const Range& range() const { return range_; }

 private:
  Kind kind_ = Kind::number;
  int64_t number_ = 0;
  Range range_;
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
  // A part of it, as in NumPy: x[0], x[Range{1, -1}, 2], x[ellipsis, Range{.step = -1}], x[new_axis].
  template <std::convertible_to<Index>... I>
    requires(sizeof...(I) > 0)
  Value operator[](const I&... indices) const {
    return part({Index(indices)...});
  }
  Value part(const std::vector<Index>& indices) const;
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
RLX_EXPORT_END
