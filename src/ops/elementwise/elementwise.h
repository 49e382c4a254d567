// Element-wise ops: one scalar function (Elementwise), a conversion (Cast), or a fused expression
// (FusedElementwise).
#pragma once

#include "kernels/dispatch.h"
#include "ops/elementwise/expr.h"
#include "ops/machinery/op_of.h"

namespace rlx {

// What the three have in common: an expression over broadcast inputs.
struct ElementwiseOp : TableOp {
  // The expression for inputs of these types.
  virtual Expr expr(const std::vector<DType>& inputs) const = 0;

  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
  bool has(Trait t) const override { return t == Trait::elementwise; }
  Tolerance tolerance(std::span<const TensorType> inputs) const override;
};

struct Elementwise final : ElementwiseOp {
  const ScalarFn* fn = nullptr;

  explicit Elementwise(const ScalarFn* f = nullptr) : fn(f) {}
  std::string_view name() const override { return fn->name; }
  // The condition of `where` is not a value.
  bool types_numbers(int64_t input) const override { return input > 0 || fn->name != "where"; }
  std::shared_ptr<Op> clone() const override { return std::make_shared<Elementwise>(*this); }
  Expr expr(const std::vector<DType>& inputs) const override;
};

struct Cast final : ElementwiseOp {
  static constexpr auto kName = "cast";
  DType to = DType::f32;

  std::string_view name() const override { return kName; }
  std::shared_ptr<Op> clone() const override { return std::make_shared<Cast>(*this); }
  void visit_attributes(AttributeVisitor& v) override { v("to", to); }
  Expr expr(const std::vector<DType>& inputs) const override;
};

struct FusedElementwise final : ElementwiseOp {
  static constexpr auto kName = "fused_elementwise";
  ExprAttr expression;

  std::string_view name() const override { return kName; }
  std::shared_ptr<Op> clone() const override { return std::make_shared<FusedElementwise>(*this); }
  void visit_attributes(AttributeVisitor& v) override { v("expr", expression); }
  Expr expr(const std::vector<DType>& inputs) const override;
  Tolerance tolerance(std::span<const TensorType> inputs) const override;
};

OpPtr elementwise(std::string_view function);

// Emits y = expr(inputs), each input broadcast to y.
void lower_expr(Lowering& l, const Expr& expr, const OperandList& inputs, const Operand& y);

// A scalar function by its name: apply_function("hard_swish", {x}).
Value apply_function(std::string_view function, const std::vector<Value>& inputs);

}  // namespace rlx
