// Layer norm and root-mean-square norm over the trailing axes, alone or of a sum.
#pragma once

#include <optional>

#include "ops/machinery/op_of.h"

namespace rlx {

enum class NormKind { layer, rms };

// What is rounded to the type of y, where that has 16 bits, as nodes of that type do. Each rounds what those
// before it do, and more.
enum class NormRounding {
  once,      // y
  scaled,    // what gamma is multiplied with, and the product
  centered,  // the mean of x, and what is left of x without it; x has the type of y too
  each,      // the squares, their mean, the sum with eps and its root; a root mean square: one over the root
};

// layer_norm and rms_norm (x, [gamma], [beta]) over the axes from `axis` on, or over `axis` alone; gamma and
// beta have the shape of these. y has the type `to`, or that of x.
struct Norm final : TableOp {
  NormKind kind = NormKind::layer;
  double eps = 1e-5;
  int64_t axis = -1;
  bool only_axis = false;
  std::optional<DType> to;
  NormRounding rounding = NormRounding::once;

  explicit Norm(NormKind k = NormKind::layer) : kind(k) {}
  std::string_view name() const override { return kind == NormKind::layer ? "layer_norm" : "rms_norm"; }
  std::shared_ptr<Op> clone() const override { return std::make_shared<Norm>(*this); }
  void visit_attributes(AttributeVisitor& v) override {
    v("eps", eps, 1e-5);
    v("axis", axis, -1);
    v("only_axis", only_axis, false);
    v("to", to);
    v.choice("rounding", rounding, {"once", "scaled", "centered", "each"}, std::optional(NormRounding::once));
  }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
  Tolerance tolerance(std::span<const TensorType> inputs) const override;

  std::vector<int64_t> axes(int64_t rank) const;  // that are normalised, ascending
};

// residual_layer_norm and residual_rms_norm (x, [residual], [bias], [gamma], [beta], [limit]): the norm of s
// = x + residual + bias, each sum rounded to the type of x, then clamped to [-limit, limit], and with
// keep_sum s as a second output. `residual` broadcasts to x; bias has the shape of the axes from `axis` on;
// limit is a number, not negative, and is rounded to the type of x.
struct ResidualNorm final : TableOp {
  NormKind kind = NormKind::layer;
  bool keep_sum = false;
  double eps = 1e-5;
  int64_t axis = -1;
  std::optional<DType> to;
  NormRounding rounding = NormRounding::once;

  explicit ResidualNorm(NormKind k = NormKind::layer) : kind(k) {}
  std::string_view name() const override {
    return kind == NormKind::layer ? "residual_layer_norm" : "residual_rms_norm";
  }
  std::shared_ptr<Op> clone() const override { return std::make_shared<ResidualNorm>(*this); }
  void visit_attributes(AttributeVisitor& v) override {
    v("keep_sum", keep_sum, false);
    v("eps", eps, 1e-5);
    v("axis", axis, -1);
    v("to", to);
    v.choice("rounding", rounding, {"once", "scaled", "centered", "each"}, std::optional(NormRounding::once));
  }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
  Tolerance tolerance(std::span<const TensorType> inputs) const override;
};

}  // namespace rlx
