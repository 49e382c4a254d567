// Ops of your own: a WGSL kernel, the same computation on the CPU, and the types of the outputs. Once it is
// registered, such an op is like any other: in C++ graphs (custom) and text graphs, in plans, under small
// limits and with --verify.
//
//   rlx::register_op({
//       .name = "scaled",
//       .formula = "y = factor * x",
//       .attributes = {{"factor", 2.0}},
//       .wgsl = R"(
//   //@ in x float
//   //@ out y float
//   //@ use flat
//   struct Params { first: u32, end: u32, factor: f32, }
//   fn element(i: u32) -> y_t { return params.factor * x_at(i); }
//   )",
//       .reference = [](rlx::CustomReference& r) {
//         for (size_t i = 0; i < r.out().size(); ++i) r.out()[i] = r.number("factor") * r.in(0)[i];
//       },
//   });
//   rlx::Value y = rlx::custom("scaled", {x}, {{"factor", 3.0}});
//
// How kernels are written, what the `//@` lines mean and which functions they may call: docs/custom-ops.md.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "rlx/export.h"
#include "rlx/tensor.h"
#include "rlx/value.h"

RLX_EXPORT_BEGIN
namespace rlx {

class Device;

// An attribute has the kind of its default.
using AttributeAlternatives =
    std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>>;
struct AttributeValue : AttributeAlternatives {
  using AttributeAlternatives::AttributeAlternatives;
  // {1, 2} and {0.5, 1}.
  AttributeValue(std::initializer_list<int> values)
      : AttributeAlternatives(std::vector<int64_t>(values.begin(), values.end())) {}
  AttributeValue(std::initializer_list<double> values) : AttributeAlternatives(std::vector<double>(values)) {}
};
using NamedAttributes = std::vector<std::pair<std::string, AttributeValue>>;

// One use of a custom op, as its functions see it. Asking for an input, output or attribute that does not
// exist is an error, as is asking for an attribute as another kind.
class CustomCall {
 public:
  int64_t input_count() const { return static_cast<int64_t>(inputs_.size()); }
  const TensorType& input(int64_t i) const;
  // Not known while types are being inferred.
  const TensorType& output(int64_t i = 0) const;

  bool flag(std::string_view attribute) const;
  int64_t integer(std::string_view attribute) const;
  double number(std::string_view attribute) const;  // a whole number will do
  const std::string& text(std::string_view attribute) const;
  const std::vector<int64_t>& integers(std::string_view attribute) const;
  const std::vector<double>& numbers(std::string_view attribute) const;
  // A whole number as an axis of input 0, in [0, rank): negative ones count from the end.
  int64_t axis(std::string_view attribute) const;
  const AttributeValue& value(std::string_view attribute) const;

  // For the library, which makes these.
  CustomCall(std::string_view op, std::vector<TensorType> inputs, std::vector<TensorType> outputs,
             const NamedAttributes& attributes)
      : op_(op), inputs_(std::move(inputs)), outputs_(std::move(outputs)), attributes_(&attributes) {}

 private:
  std::string_view op_;
  std::vector<TensorType> inputs_;
  std::vector<TensorType> outputs_;
  const NamedAttributes* attributes_;
};

// The CPU's side of a call: every element as a double, in row-major order.
class CustomReference : public CustomCall {
 public:
  std::span<const double> in(int64_t i) const;
  std::span<double> out(int64_t i = 0);  // zeros at first

  CustomReference(CustomCall call, std::vector<std::vector<double>> inputs,
                  std::vector<std::vector<double>> outputs)
      : CustomCall(std::move(call)), in_(std::move(inputs)), out_(std::move(outputs)) {}

 private:
  std::vector<std::vector<double>> in_;
  std::vector<std::vector<double>> out_;
};

// The members of the kernel's struct Params and its spec constants. Those with the name of an attribute
// already have its value; the library sets `first` and `end` and, for kernels along rows, `rows`, `length`,
// TEAM and FOUR. All other members must be set; other spec constants keep the value in the source.
class CustomParams : public CustomCall {
 public:
  // A name that the kernel does not have, or a number that its type cannot hold, is an error.
  void set(std::string_view name, double value);
  void set(std::string_view name, std::span<const double> values);  // vectors and arrays

  struct Impl;
  CustomParams(CustomCall call, Impl& impl) : CustomCall(std::move(call)), impl_(&impl) {}

 private:
  Impl* impl_;
};

// What a gradient is built from.
struct CustomGradient {
  const CustomCall& call;
  std::vector<Value> inputs;
  std::vector<Value> outputs;
  std::vector<Value> output_gradients;
};

struct CustomOp {
  // As graphs write it: lower-case letters, digits and _, not a digit first; a dot after the name of a
  // family.
  std::string name;
  std::string formula;  // what it computes, in one line, for `rlx ops`
  // The element types of input 0 that it takes; c64 cannot be one of them.
  std::string types = "f32 f16 bf16";
  NamedAttributes attributes = {};  // with their defaults
  // What operands, attributes and outputs are, by their names, a line each: {{"factor", "what x is multiplied
  // by"}}. For `rlx ops` and op_schema (rlx/schema.h).
  std::vector<std::pair<std::string, std::string>> documentation = {};

  // The kernel, and the file that messages name. Its `//@ in` operands are the inputs in order, except
  // those named in `tables`; its `//@ out` operands are the outputs.
  //   //@ use flat          one invocation per element of the output: element(i)
  //   //@ use team_serial   rows along an axis: row_task(row, lane, width)
  //   neither               an entry point of its own, on as many workgroups as `groups` says
  std::string wgsl;
  std::string file = "";  // NAME.wgsl if empty

  // Types of the outputs; shapes may have symbols. By default one output like input 0.
  std::function<std::vector<TensorType>(const CustomCall&)> infer = {};
  // What the op computes, on the CPU. `rlx run --verify` compares with it.
  std::function<void(CustomReference&)> reference;
  // How far results may be from it: the error that WGSL allows the functions used, in units in the last
  // place, and the number of terms that are added up.
  double ulps = 4;
  std::function<double(const CustomCall&)> terms = {};

  std::function<void(CustomParams&)> params = {};
  // For rows: the axis of input 0 along which they lie; the last by default. Operands with as many axes as
  // input 0 have rows along the same axis, those with one axis less have one element per row, and the rest
  // are shared by all rows.
  std::function<int64_t(const CustomCall&)> row_axis = {};
  std::function<int64_t(const CustomCall&)> groups = {};
  // What outputs hold before the kernel runs, for kernels that write only some elements or add to them
  // atomically.
  std::optional<double> initial = {};
  // Operands that hold constants of the op: computed when a graph is planned, kept on the device.
  std::vector<std::pair<std::string, std::function<Tensor(const CustomCall&)>>> tables = {};
  // The gradients of the inputs, an empty Value for those that have none.
  std::function<std::vector<Value>(const CustomGradient&)> gradient = {};
  // Calls to try it with (check_op), as the library's own ops have them:
  // "scaled(T[3,17], i32[3] in 0..9) {factor=2}", where T takes every type above and `in` bounds random
  // values.
  std::vector<std::string> samples = {};
};

// From now on graphs may use the op, in all threads. An error says what is wrong with it, and names file and
// line if that is in the kernel. A name can be registered only once.
void register_op(CustomOp op);

// A use of a registered op: its first output, or all of them.
Value custom(std::string_view name, const std::vector<Value>& inputs, const NamedAttributes& attributes = {});
std::vector<Value> custom_outputs(std::string_view name, const std::vector<Value>& inputs,
                                  const NamedAttributes& attributes = {});

// Runs the samples of an op with all its types and kernels and through views, and compares with the
// reference. Returns the number of runs; an error says which of them differs, and where.
int64_t check_op(std::string_view name, const Device& device);

}  // namespace rlx
RLX_EXPORT_END
