// Products with low-rank adapters.
#include <cmath>

#include "ops/composed/composite.h"
#include "ops/machinery/op_table.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/transformer.h"

namespace rlx {

// The narrow product takes the scale: it has the fewest elements.
Value lora_matmul(Value x, Value w, Value a, Value b, double scale) {
  const Value narrow = matmul(x, a) * scale;
  return matmul(x, w) + matmul(narrow, b);
}

Value multi_lora_matmul(Value x, Value w, Value a, Value b, Value adapter, double scale) {
  const Value narrow = grouped_matmul(x, a, adapter) * scale;
  return matmul(x, w) + grouped_matmul(narrow, b, adapter);
}

namespace {

// Sums of k products, whose rounded result is multiplied and summed r times. Values lie in [-2, 2].
Tolerance lora_tolerance(const TensorType& a, double scale) {
  const Shape& s = a.shape;
  const auto k = std::max(1.0, static_cast<double>(s[s.rank() - 2].value()));
  const auto r = std::max(1.0, static_cast<double>(s[s.rank() - 1].value()));
  // Each node rounds to the type; `scale` is the size of what is added.
  const double rounds = a.dtype == DType::f32 ? 8 : 8 * epsilon(a.dtype) / epsilon(DType::f32);
  return {
      .ulps = rounds, .terms = k + r, .scale = 4 * std::sqrt(k) * (1 + 2 * std::fabs(scale) * std::sqrt(r))};
}

struct LoraMatMul final : Composite<LoraMatMul> {
  static constexpr auto kName = "lora_matmul";
  static constexpr int64_t kLeast = 4, kMost = 4;
  double scale = 1;
  void visit_attributes(AttributeVisitor& v) override { v("scale", scale, 1); }
  std::vector<Value> make(Graph&, const std::vector<Value>& in) const {
    return {lora_matmul(in[0], in[1], in[2], in[3], scale)};
  }
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    return lora_tolerance(inputs[2], scale);
  }
};
struct MultiLoraMatMul final : Composite<MultiLoraMatMul> {
  static constexpr auto kName = "multi_lora_matmul";
  static constexpr int64_t kLeast = 5, kMost = 5;
  double scale = 1;
  void visit_attributes(AttributeVisitor& v) override { v("scale", scale, 1); }
  std::optional<ValueRange> sensible_values(int64_t input,
                                            std::span<const TensorType> inputs) const override {
    return input == 4 ? values_between(0, inputs[2].shape[0] - 1) : std::nullopt;
  }
  std::vector<Value> make(Graph&, const std::vector<Value>& in) const {
    return {multi_lora_matmul(in[0], in[1], in[2], in[3], in[4], scale)};
  }
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    return lora_tolerance(inputs[2], scale);
  }
};

}  // namespace

namespace ops {
void register_lora(OpTable& table) {
  table.add<LoraMatMul>({.formula = "x w + scale (x a) b",
                         .operands = "x: rows [.., k]\n"
                                     "w: the weight [k, n]\n"
                                     "a: [k, r], the first factor of the adapter\n"
                                     "b: [r, n], the second factor",
                         .attributes = "scale: of what the adapter adds",
                         .outputs = "y: [.., n]",
                         .types = "f32 f16 bf16",
                         .variants = {"expanded"},
                         .samples = {"lora_matmul(T[2,5,17], T[17,9], T[17,3], T[3,9]) {scale=0.5}"}});
  table.add<MultiLoraMatMul>(
      {.formula = "x w + scale (x a[adapter]) b[adapter]; x w where there is no such adapter",
       .operands = "x: rows [.., k]\n"
                   "w: the weight [k, n]\n"
                   "a: [adapters, k, r], the first factors\n"
                   "b: [adapters, r, n], the second factors\n"
                   "adapter (i32 u32 i64): [..], which adapter a row has; -1: none",
       .attributes = "scale: of what the adapter adds",
       .outputs = "y: [.., n]",
       .types = "f32 f16 bf16",
       .variants = {"expanded"},
       .samples = {"multi_lora_matmul(T[5,17], T[17,9], T[3,17,4], T[3,4,9], i32[5] in -1..3) {scale=0.5}"}});
}
}  // namespace ops

}  // namespace rlx
