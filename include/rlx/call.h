// Any op by its name, as graph texts have it: for programs that read which op they need, and for other
// languages.
//
//   rlx::Value y = rlx::call("softmax", {x}, {{"axis", -1}})[0];
//   rlx::Value z = rlx::call("conv", {x, w}, {{"pads", {1, 1, 1, 1}}, {"layout", "channels_last"}})[0];
//   std::vector<rlx::Value> sorted = rlx::call("sort", {x});  // values, indices
//
// op_schema (rlx/schema.h) says what an op takes and returns.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "rlx/dtype.h"
#include "rlx/export.h"
#include "rlx/graph.h"
#include "rlx/shape.h"
#include "rlx/tensor.h"

RLX_EXPORT_BEGIN
namespace rlx {

// A value of any attribute. A whole number also serves where a number or a dim is wanted, a list of whole
// numbers where a list of numbers or a shape is; enums and expressions are texts.
class AttributeArgument {
 public:
  using Alternatives =
      std::variant<std::monostate, bool, int64_t, double, std::string, DType, Dim, std::vector<int64_t>,
                   std::vector<double>, std::vector<std::string>, Shape, TensorType, Tensor, GraphPtr>;

  AttributeArgument(std::nullopt_t) {}  // an optional attribute that is not given
  template <std::same_as<bool> B>
  AttributeArgument(B value) : value_(value) {}
  template <std::integral I>
    requires(!std::same_as<I, bool>)
  AttributeArgument(I value) : value_(static_cast<int64_t>(value)) {}
  template <std::floating_point F>
  AttributeArgument(F value) : value_(static_cast<double>(value)) {}
  AttributeArgument(const char* text) : value_(std::string(text)) {}
  AttributeArgument(std::string_view text) : value_(std::string(text)) {}
  AttributeArgument(std::string text) : value_(std::move(text)) {}
  AttributeArgument(DType dtype) : value_(dtype) {}
  AttributeArgument(Dim dim) : value_(std::move(dim)) {}
  AttributeArgument(Shape shape) : value_(std::move(shape)) {}
  AttributeArgument(TensorType type) : value_(std::move(type)) {}
  AttributeArgument(Tensor tensor) : value_(std::move(tensor)) {}
  AttributeArgument(Graph body) : value_(std::make_shared<const Graph>(std::move(body))) {}
  AttributeArgument(GraphPtr body) : value_(std::move(body)) {}
  AttributeArgument(std::vector<int64_t> list) : value_(std::move(list)) {}
  AttributeArgument(std::vector<double> list) : value_(std::move(list)) {}
  AttributeArgument(std::vector<std::string> list) : value_(std::move(list)) {}
  // {1, 2}, {0.5, 1.5} and {"tanh", "relu"}; a shape with symbols is rlx::Shape{"batch", 3}.
  AttributeArgument(std::initializer_list<int> list)
      : value_(std::vector<int64_t>(list.begin(), list.end())) {}
  AttributeArgument(std::initializer_list<int64_t> list) : value_(std::vector<int64_t>(list)) {}
  AttributeArgument(std::initializer_list<double> list) : value_(std::vector<double>(list)) {}
  AttributeArgument(std::initializer_list<const char*> list)
      : value_(std::vector<std::string>(list.begin(), list.end())) {}

  const Alternatives& value() const { return value_; }

 private:
  Alternatives value_;
};
using AttributeArguments = std::vector<std::pair<std::string, AttributeArgument>>;

// Adds the op to the graph of its inputs and returns its outputs. An empty Value stands for an optional
// operand that is not given; those at the end may be left out, as may attributes that have a default. An
// error says what is unknown, missing or too much, and what there is.
std::vector<Value> call(std::string_view op, const std::vector<Value>& inputs,
                        const AttributeArguments& attributes = {});
// The same for an op that may have no inputs: call(graph, "range", {}, {{"length", 10}}).
std::vector<Value> call(Graph& graph, std::string_view op, const std::vector<Value>& inputs = {},
                        const AttributeArguments& attributes = {});

}  // namespace rlx
RLX_EXPORT_END
