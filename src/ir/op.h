// What an op is: its attributes, shape inference, lowering and reference, in one class (see ARCHITECTURE.md).
#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/fail.h"
#include "ir/dtype.h"
#include "ir/expr_attr.h"
#include "ir/leaf.h"
#include "ir/view.h"
#include "rlx/tensor.h"
#include "rlx/value.h"

namespace rlx {

class Op;
class Lowering;    // kernels/lowering.h: emits dispatches
class RefContext;  // ir/reference.h: typed values on the host

// monostate: an optional attribute that is not given.
using AttrValue = std::variant<std::monostate, bool, int64_t, double, std::string, DType, Dim,
                               std::vector<int64_t>, std::vector<double>, std::vector<std::string>, Shape,
                               TensorType, Tensor, GraphPtr, ExprAttr>;

// Which alternative of AttrValue an attribute has when it is given.
using AttrKind = size_t;

// One of the alternatives.
template <class T>
concept Attribute = []<class... A>(std::type_identity<std::variant<A...>>) {
  return (std::same_as<T, A> || ...);
}(std::type_identity<AttrValue>());

// Visits the attributes of an op: one function, Op::visit_attributes, serves printing, parsing, comparing and
// binding symbols. The templates are instantiated in op.cpp: copying a variant of so many types costs a
// source file a second of compile time.
class AttributeVisitor {
 public:
  virtual ~AttributeVisitor() = default;

  template <Attribute T>
  void operator()(std::string_view name, T& field);
  // One that may be absent.
  template <Attribute T>
  void operator()(std::string_view name, std::optional<T>& field);
  // One with a default, which is left out of the text when it has that value.
  template <Attribute T>
  void operator()(std::string_view name, T& field, const std::type_identity_t<T>& otherwise);
  // An enum, written by its name in `names` (in the order of the enumerators).
  template <class Enum>
  void choice(std::string_view name, Enum& field, std::initializer_list<std::string_view> names,
              std::optional<Enum> otherwise = std::nullopt) {
    const auto number = [](Enum e) { return static_cast<size_t>(e); };
    field = static_cast<Enum>(visit_choice(name, number(field), names, otherwise.transform(number)));
  }

 protected:
  // Reads or replaces `value`, which must be of this kind afterwards, or absent if `otherwise` is.
  virtual void visit(std::string_view name, AttrValue& value, const std::optional<AttrValue>& otherwise,
                     AttrKind kind) = 0;
  // Called with the names of an enum before it is visited.
  virtual void visit_words(std::initializer_list<std::string_view> /*names*/) {}

 private:
  size_t visit_choice(std::string_view name, size_t value, std::initializer_list<std::string_view> names,
                      std::optional<size_t> otherwise);
};

// The axis in [0, rank); negative ones count from the end. An error that begins with the op's name if there
// is none.
int64_t checked_axis(std::string_view op, int64_t axis, int64_t rank);

// The input types that inference sees (f32 for those that are encoded), with the checks every op needs.
class InferArgs {
 public:
  using Types = InlineVector<const TensorType*, 6>;  // null: the input is absent
  InferArgs(const Op& op, Types inputs) : op_(op), inputs_(std::move(inputs)) {}
  InferArgs(const Op& op, std::span<const TensorType> inputs) : op_(op) {
    for (const TensorType& t : inputs) inputs_.push_back(&t);
  }

  // Including the absent ones before the last that is given.
  int64_t count() const { return static_cast<int64_t>(inputs_.size()); }
  bool has(int64_t i) const { return i >= 0 && i < count() && inputs_[static_cast<size_t>(i)] != nullptr; }
  const TensorType& operator[](int64_t i) const {
    check(has(i), "an op looks at inputs that are given");
    return *inputs_[static_cast<size_t>(i)];
  }
  const Shape& shape(int64_t i) const { return (*this)[i].shape; }
  DType dtype(int64_t i) const { return (*this)[i].dtype; }
  std::string_view op() const;                    // its name
  std::string operand_name(int64_t input) const;  // as Op::operand_name has it

  void expect_count(int64_t low, int64_t high) const;
  void expect_count(int64_t n) const { expect_count(n, n); }
  // The axis in [0, rank); negative ones count from the end.
  int64_t axis(int64_t axis, int64_t rank) const { return checked_axis(op(), axis, rank); }
  void expect_dtype(int64_t input, bool allowed, std::string_view wanted) const;
  void expect_float(int64_t input) const { expect_dtype(input, is_float(dtype(input)), "a float type"); }
  void expect_same_dtype(int64_t a, int64_t b) const;

 private:
  const Op& op_;
  Types inputs_;
};

// What Op::expand builds from.
struct ExpandArgs {
  Graph& graph;               // for the nodes
  std::vector<Value> inputs;  // as the node has them: an absent one is an empty Value

  Value operator[](int64_t i) const {
    return i < static_cast<int64_t>(inputs.size()) ? inputs[static_cast<size_t>(i)] : Value();
  }
};

// What Op::gradient builds from.
struct GradientArgs {
  std::vector<Value> inputs;
  std::vector<Value> outputs;
  std::vector<Value> output_gradients;
};

enum class Trait {
  view,          // output 0 is input 0 read in another way (View Op::view)
  elementwise,   // a scalar function of its inputs, broadcast (ops/elementwise/elementwise.h)
  rounds_once,   // of 16-bit floats it is what it is of the same numbers in f32, rounded in the end
  control_flow,  // the plan decides in each run how often its sub-graphs run; it has no kernels of its own
};

// A size that only the run knows, such as how many elements are not zero. See ir/run_sizes.h.
struct RunSize {
  Dim dim;                     // stands for it in the output types: one symbol, or its capacity once bound
  std::optional<Dim> largest;  // it cannot be more than that; nothing if the op sets no bound
};

// How far a correct result may be from the double reference: |got - want| <= eps32 * (ulps + 4*sqrt(terms)) *
// max(|want|, scale), plus one rounding of the output type. See ir/tolerance.h.
struct Tolerance {
  double ulps = 4;   // the error that WGSL allows the functions used, in f32 units in the last place
  double terms = 0;  // length of a sum
  double scale = 0;  // magnitude of the summands, where the result can be much smaller than they are
};

// Values of an input that make sense, both ends included.
struct ValueRange {
  double low = 0;
  double high = 0;
  // Of floats: their matrices, in the last two axes, are to be positive definite.
  bool positive_definite = false;
};

// Whole numbers, such as 0 to the rows of a table - 1; nothing if the last is not known or below the first.
std::optional<ValueRange> values_between(int64_t first, const Dim& last);

// Those that are indices of all these axes.
std::optional<ValueRange> index_range(const Shape& shape, int64_t first_axis, int64_t axes);

// A graph within an op, and the attribute that holds it: "then".
struct Subgraph {
  std::string_view name;
  GraphPtr graph;
};

class Op {
 public:
  virtual ~Op() = default;

  virtual std::string_view name() const = 0;
  virtual std::shared_ptr<Op> clone() const = 0;
  virtual void visit_attributes(AttributeVisitor&) {}
  virtual std::vector<TensorType> infer(const InferArgs& in) const = 0;
  // The same where `types` is what was inferred for other sizes. Ops that depend on a length which grows in
  // each run change it in place: nothing is allocated.
  virtual void infer_again(const InferArgs& in, std::vector<TensorType>& types) const { types = infer(in); }
  virtual void reference(RefContext& r) const = 0;
  virtual void lower(Lowering& l) const;
  // Instead of being lowered, an op can be written in terms of others: returns the values of its outputs,
  // which expand_ops puts in its place, or nothing if this op is to be lowered. The reference remains the
  // op's own.
  virtual std::optional<std::vector<Value>> expand(const ExpandArgs& /*in*/) const { return std::nullopt; }
  // Whether it has `expand`. OpOf answers this; an op that is not an OpOf must do so itself.
  virtual bool expands() const { return false; }

  virtual bool has(Trait) const { return false; }
  // Of the input: "mask", or "input 3" if it has no name.
  virtual std::string operand_name(int64_t input) const;
  // Whether the input may be left out, wherever it is in the list.
  virtual bool optional_input(int64_t /*input*/) const { return false; }
  // Whether a number in place of another operand in a text takes the type of this one.
  virtual bool types_numbers(int64_t /*input*/) const { return true; }
  // What kind of leaf it is; nothing for an op that computes.
  virtual std::optional<LeafKind> leaf() const { return std::nullopt; }
  bool is(LeafKind kind) const { return leaf() == kind; }
  bool is_leaf() const { return leaf().has_value(); }
  // Whether the kernels read this layout of the input as it is; else materialize_views puts a copy before it.
  virtual bool reads_view(int64_t /*input*/, const View& /*view*/) const { return true; }
  // Whether the kernels read this layout of an encoded input, decoding it themselves; else it is decoded to
  // f32 first, likewise.
  virtual bool reads_encoded(int64_t /*input*/, DType /*encoding*/, const View& /*view*/) const {
    return false;
  }
  // For Trait::view: the output as a layout of the input's memory; nothing if that needs a copy.
  virtual std::optional<View> view(const View& /*input*/, const Dims& /*out_dims*/) const {
    return std::nullopt;
  }
  // Whether the node replaces the contents of this input, which must be a state or an earlier write of one;
  // the output of the same number is what it then holds. Such inputs come first.
  virtual bool overwrites(int64_t /*input*/) const { return false; }
  virtual bool has_gradient() const { return false; }
  // The gradients of the inputs, an empty Value for those without one; an error if it has none.
  virtual std::vector<Value> gradient(const GradientArgs& args) const;
  // Its sub-graphs (the body of a call), each of them a GraphPtr attribute.
  virtual std::vector<Subgraph> subgraphs() const { return {}; }
  // The size of its outputs that only the run knows, if there is one.
  virtual std::optional<RunSize> run_size(std::span<const TensorType> /*inputs*/) const {
    return std::nullopt;
  }
  // In the following, an absent input has the type f32[].
  virtual Tolerance tolerance(std::span<const TensorType> /*inputs*/) const { return {}; }
  // Additions and multiplications of an op that is made of products, for types without symbols; 0 for all
  // others, whose time is that of reading and writing.
  virtual double flops(std::span<const TensorType> /*inputs*/,
                       std::span<const TensorType> /*outputs*/) const {
    return 0;
  }
  // What random values of an input are to be drawn from, where not any will do: numbers of rows, lengths.
  // Nothing also where that depends on symbols.
  virtual std::optional<ValueRange> sensible_values(int64_t /*input*/,
                                                    std::span<const TensorType> /*inputs*/) const {
    return std::nullopt;
  }
};

template <class T>
const T* op_cast(const Op& op) {
  return dynamic_cast<const T*>(&op);
}

// For people: "whole number", "list of texts".
std::string_view attr_kind_name(AttrKind kind);

// Attributes as name and value, without those that have their default.
using Attrs = std::vector<std::pair<std::string, AttrValue>>;
Attrs attributes(const Op& op);
// As the text form writes it.
std::string attribute_text(const AttrValue& value);
// Sets attributes; a name that the op does not have, or a value of the wrong kind, is an error. What a text
// gives (parse_attribute of ops/machinery/op_table.h) is converted to what the attribute is: texts do not
// distinguish 1 from 1.0 or a dim, nor a list of numbers from a shape.
void set_attributes(Op& op, const Attrs& attrs);
// The op with the symbols in its attributes bound; the same pointer when it has none.
OpPtr bind_symbols(const OpPtr& op, const SymbolValues& values);
void collect_symbols(const Op& op, std::set<std::string>& into);
// An op whose symbols are bound to one set of values after the other.
class Rebindable {
 public:
  explicit Rebindable(OpPtr op);
  // The op with these values; those that were returned before are the same object. Allocates nothing if all
  // symbols are in dims.
  const OpPtr& bind(const SymbolValues& values);

 private:
  std::vector<std::optional<AttrValue>> symbolic_;  // the attributes, in their order; those with symbols
  std::shared_ptr<Op> own_;                         // null if there are no symbols
  OpPtr bound_;
};
// Equal name and attributes.
bool same(const Op& a, const Op& b);
// Of name and attributes: equal for ops that are the same.
uint64_t hash_of(const Op& op);

// --- The leaves. Their name in a graph is the node's name. ---

struct Leaf : Op {
  TensorType type;
  void visit_attributes(AttributeVisitor& v) override { v("type", type); }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
};

template <class Self, LeafKind kKind>
struct LeafOf : Leaf {
  std::string_view name() const override { return Self::kName; }
  std::optional<LeafKind> leaf() const override { return kKind; }
  std::shared_ptr<Op> clone() const override {
    return std::make_shared<Self>(static_cast<const Self&>(*this));
  }
};

struct Input final : LeafOf<Input, LeafKind::input> {
  static constexpr auto kName = "input";
};
struct Param final : LeafOf<Param, LeafKind::param> {
  static constexpr auto kName = "param";
};
struct State final : LeafOf<State, LeafKind::state> {
  static constexpr auto kName = "state";
};

struct Constant final : Op {
  static constexpr auto kName = "constant";
  std::string_view name() const override { return kName; }
  std::shared_ptr<Op> clone() const override { return std::make_shared<Constant>(*this); }
  Tensor value;
  void visit_attributes(AttributeVisitor& v) override { v("value", value); }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  std::optional<LeafKind> leaf() const override { return LeafKind::constant; }
};

}  // namespace rlx
