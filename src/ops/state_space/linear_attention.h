// What the files of linear attention share: the op, and a part of its work.
#pragma once

#include <optional>
#include <string>

#include "kernels/lowering.h"
#include "ops/machinery/op_of.h"

namespace rlx {

enum class LinearAttentionRule : uint32_t { add, delta, previous };  // the kernel's RULE_ADD and so on

struct LinearAttention final : TableOp {
  enum Input : int64_t { kQ, kK, kV, kG };
  using Rule = LinearAttentionRule;
  Rule rule;
  std::optional<double> scale;

  explicit LinearAttention(Rule r) : rule(r) {}
  std::string_view name() const override;
  std::shared_ptr<Op> clone() const override { return std::make_shared<LinearAttention>(*this); }
  void visit_attributes(AttributeVisitor& v) override { v("scale", scale); }

  // beta or the bonus, if the rule has one, and the initial state.
  int64_t extra_input() const { return rule == Rule::add ? -1 : 4; }
  int64_t state_input() const { return rule == Rule::add ? 4 : 5; }
  // What is kept is e^g, and grows from step to step if that is more than 1.
  std::optional<ValueRange> sensible_values(int64_t input, std::span<const TensorType>) const override {
    if (input == kG) return ValueRange{.low = -1, .high = 0};
    if (rule == Rule::delta && input == extra_input()) return ValueRange{.low = 0, .high = 1};
    return std::nullopt;
  }
  double scale_of(int64_t keys) const {
    return scale.value_or(rule == Rule::previous ? 1 : 1 / std::sqrt(static_cast<double>(keys)));
  }

  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
  Tolerance tolerance(std::span<const TensorType> inputs) const override;
};

// Some rows of the batch, steps and heads.
struct LinearAttentionProblem {
  const LinearAttention* op;
  Operand q, k;            // [batch, steps, key heads, keys]
  Operand v, y;            // [batch, steps, heads, values]
  Operand g, beta;         // [batch, steps, heads], and g perhaps [..., keys]
  Operand bonus;           // [heads, keys]
  Operand initial, state;  // [batch, heads, keys, values]
  bool resumes = false;    // `state` holds what came before

  int64_t rows() const { return v.view.dims[0]; }
  int64_t steps() const { return v.view.dims[1]; }
  int64_t heads() const { return v.view.dims[2]; }
  int64_t values() const { return v.view.dims[3]; }
  int64_t key_heads() const { return k.view.dims[2]; }
  int64_t keys() const { return k.view.dims[3]; }
  bool gate_by_key() const { return g.present() && g.view.rank() == 4; }
  std::string key() const;
};

// The lanes that share a column of the state, the fours of keys that each of them keeps, the columns of a
// workgroup, and the steps whose keys are in its memory.
struct LinearAttentionTile {
  int64_t parts, fours, columns, steps;

  int64_t bytes(const LinearAttentionProblem& p) const {
    const int64_t staged = std::max<int64_t>(steps * fours * parts, 1);
    return 16 * (staged * (p.gate_by_key() ? 3 : 2) + (parts > 1 ? 2 * parts * columns : 1));
  }
};

LinearAttentionTile tile_of(const Target& target, const LinearAttentionProblem& p);

// Products within chunks, all at once, then the chunks one after the other
// (ops/state_space/linear_attention_chunks.cpp). For decays of whole heads; false, and nothing emitted, if
// the device cannot bind it.
bool chunk_products_apply(const Target& target, const LinearAttentionProblem& p);
bool lower_chunk_products(Lowering& l, const LinearAttentionProblem& p);

}  // namespace rlx
