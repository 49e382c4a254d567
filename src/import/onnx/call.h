// What a rule sees of the ONNX node that it translates: inputs, attributes and a place for the outputs.
#pragma once

#include <deque>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/fail.h"
#include "import/onnx/imported.h"
#include "import/onnx/problem.h"
#include "import/onnx/proto.h"
#include "ir/dim_choices.h"
#include "rlx/tensor.h"
#include "rlx/value.h"

namespace rlx::onnx {

class Importer;
struct Frame;

using AttributeNames = std::set<std::string, std::less<>>;

// An error if the node has an attribute of another name, which may well be a slip in the name of one that
// matters. `who` it is that has these goes into the message.
void expect_attributes(const NodeProto& node, const AttributeNames& known, std::string_view who,
                       ErrorKind kind);

class Call {
 public:
  Call(Importer& importer, Frame& frame, const NodeProto& node);
  // From now on the inputs have the sizes that these leave; in a run with others, that is an error.
  void assume(const DimChoices& choices);

  std::string_view op() const { return node_.op; }
  const NodeProto& node() const { return node_; }
  int64_t opset() const { return opset_; }  // of the node's domain
  Graph& graph() const;
  Importer& importer() const { return importer_; }
  Frame& frame() const { return frame_; }

  // --- Inputs ---

  int64_t input_count() const { return static_cast<int64_t>(node_.inputs.size()); }
  bool has(int64_t i) const;
  void expect_inputs(int64_t low, int64_t high) const;
  // On the device. An error if it is not given.
  Value in(int64_t i);
  // An empty Value if it is not given.
  Value optional(int64_t i) { return has(i) ? in(i) : Value(); }
  std::vector<Value> all();  // all inputs
  // The second operand of an element-wise op. Before opset 7 it broadcasts only if an attribute says so, and
  // from the axis on that another one names.
  Value second();
  const Imported& imported(int64_t i) const;  // an error if it is no tensor
  // A tensor, a sequence or an optional that holds nothing.
  const Imported& any(int64_t i) const;
  bool only_tensors() const;  // none of the others
  // Those of a sequence. An error if it is none.
  const std::vector<Imported>& elements(int64_t i) const;
  ElementType type(int64_t i) const { return imported(i).type; }
  Shape shape(int64_t i) const;
  int64_t rank(int64_t i) const { return shape(i).rank(); }
  // Integers that are known while importing; null if they are not.
  const Ints* known(int64_t i) const;
  // Operands that decide shapes or axes: an error if they are known only on the device. `what` they are goes
  // into the message.
  std::vector<Dim> dims(int64_t i, std::string_view what);
  std::vector<int64_t> numbers(int64_t i, std::string_view what);
  int64_t number(int64_t i, std::string_view what);  // of one element
  // A tensor of any type that depends on constants and weights alone; nothing if it does not, or is large.
  std::optional<Tensor> constant(int64_t i);
  // The same where a rule cannot do without.
  Tensor require_constant(int64_t i, std::string_view what);
  // Such a number, or the attribute's value.
  double real(int64_t i, std::string_view what);

  // --- Attributes ---

  // Those that the rule neither asked for nor ignored are not the op's: see expect_known_attributes.
  bool has_attribute(std::string_view name) const { return find(name) != nullptr; }
  int64_t integer(std::string_view name, std::optional<int64_t> otherwise = {}) const;
  bool flag(std::string_view name, bool otherwise) const { return integer(name, otherwise) != 0; }
  double real(std::string_view name, std::optional<double> otherwise = {}) const;
  std::string text(std::string_view name, std::optional<std::string_view> otherwise = {}) const;
  std::vector<int64_t> integers(std::string_view name, std::vector<int64_t> otherwise = {}) const;
  std::vector<double> reals(std::string_view name) const;
  std::vector<std::string> texts(std::string_view name) const;
  Tensor tensor(std::string_view name) const;
  ElementType tensor_type(std::string_view name) const;         // of the tensor in an attribute
  Imported leaf(std::string_view name) const;                   // that tensor as a constant or a param
  Imported leaf(const Tensor& tensor, ElementType type) const;  // of attributes that are numbers
  const GraphProto& subgraph(std::string_view name) const;
  ElementType element_type(std::string_view name, std::optional<ElementType> otherwise = {}) const;
  // In [0, rank).
  int64_t axis(std::string_view name, int64_t otherwise, int64_t rank) const;
  // Axes that are an attribute up to some opset and an input from then on; nothing if neither is given.
  std::optional<std::vector<int64_t>> axes(int64_t input, int64_t rank);
  // Names, with spaces between them, of attributes that the op has and that make no difference here.
  void ignores(std::string_view names) const;
  // When the rule has run: an error if the node has an attribute that nobody asked for.
  void expect_known_attributes() const;

  // --- Outputs ---

  int64_t output_count() const { return static_cast<int64_t>(node_.outputs.size()); }
  bool wants(int64_t i) const;  // somebody may read it
  void out(int64_t i, Value value, ElementType type);
  void out(int64_t i, Ints ints, ElementType type);
  void out(int64_t i, Imported made);  // that has been imported before
  // One output, of the type of input 0.
  void out(Value value) { out(0, std::move(value), type(0)); }
  std::vector<Imported> take_outputs() { return std::move(outputs_); }

  // --- Help for rules ---

  // A number of the value's type.
  Value like(Value value, double number) const;
  // Known integers as a tensor on the device.
  Value materialize(const Ints& ints, ElementType type) const;
  // Integers of 2, 4 and 16 bits are carried in larger ones: what arithmetic makes of them is brought back
  // into their range as a register of that width would, and floats of 8 and 4 bits are rounded.
  Value wrapped(Value value, ElementType type, bool saturate = true) const;
  // The type that rules compute with: the carrier, but i64 for uint64, so that what leaves its range is
  // noticed. Refuses types that have none.
  DType carried(ElementType type) const;
  static int64_t normalized(int64_t axis, int64_t rank);
  // What is well formed but cannot be done; the message follows the node's name.
  template <class... Args>
  [[noreturn]] void refuse(Refusal why, std::format_string<Args...> message, Args&&... args) const {
    throw Refused(why, formatted(message, std::forward<Args>(args)...));
  }

 private:
  const AttributeProto* find(std::string_view name) const;
  const AttributeProto* find(std::string_view name, AttributeProto::Kind kind) const;
  [[noreturn]] void missing(std::string_view attribute) const;
  std::string leaf_name() const;

  Importer& importer_;
  Frame& frame_;
  const NodeProto& node_;
  int64_t opset_;
  std::vector<Imported*> inputs_;
  std::deque<Imported> assumed_;  // inputs with other sizes than the scope has them with
  std::vector<Imported> outputs_;
  mutable AttributeNames known_attributes_;  // by their names: asked for, or ignored
};

}  // namespace rlx::onnx
