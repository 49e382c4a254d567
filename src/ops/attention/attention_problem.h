// Attention as its kernels see it, and parts of it.
#pragma once

#include <string>

#include "kernels/lowering.h"
#include "ops/attention/attention.h"

namespace rlx {

// The heads of q are split into [kv_heads, group], so that each index over the two outer axes of q has its
// own k and v.
struct AttentionProblem {
  const Attention* op = nullptr;
  Operand q, y;  // [batch, kv_heads, group, queries, head]
  Operand k, v;  // [batch or pages, kv_heads, rows, head]
  Operand mask;  // [batch, kv_heads, group, queries, keys]
  // The further forms, each of which may be absent.
  Operand start;                   // [batch, kv_heads]
  Operand pages;                   // [batch, kv_heads, pages of a batch]
  Operand lengths, sinks, slopes;  // [batch, kv_heads, group]; lengths are those of the first member
  Operand k_scale, v_scale;        // like k and v without the last axis
  Operand log_sum;                 // [batch, kv_heads, group, queries]
  int64_t keys = 0;
  int64_t shift = 0;    // query i is at key i + shift, if there are `total` keys
  int64_t skipped = 0;  // keys before these, in other dispatches
  int64_t total = 0;    // keys of all dispatches
  bool nan_when_empty = false;
  // What dispatches leave to those after them: of the plain kernel when the keys are processed in several,
  // and of the split one, whose workgroups have parts of the keys.
  Operand carry = {};
  int64_t parts = 1;
  bool continues = false;
  bool carries = false;

  int64_t batch() const { return q.view.dims[0]; }
  int64_t kv_heads() const { return q.view.dims[1]; }
  int64_t group() const { return q.view.dims[2]; }
  int64_t queries() const { return q.view.dims[3]; }
  int64_t head() const { return q.view.dims[4]; }
  int64_t value() const { return v.view.dims[3]; }
  int64_t rows() const { return group() * queries(); }

  // Keys and values are found through further operands, and cannot be cut along the keys.
  bool is_cached() const {
    return pages.present() || start.present() || k_scale.present() || v_scale.present();
  }
  bool has_forms() const {
    return is_cached() || lengths.present() || sinks.present() || slopes.present() || log_sum.present();
  }
  std::string key() const;
};

AttentionProblem attention_problem(const Attention& op, const Lowering& l);

// Part of the problem along one of the axes 0 to 3 of q, and along the keys.
AttentionProblem slice(const AttentionProblem& whole, int64_t axis, int64_t begin, int64_t length);
AttentionProblem slice_keys(const AttentionProblem& whole, int64_t begin, int64_t length);
// One query of each head of keys.
AttentionProblem first_query(const AttentionProblem& p);
// One query of one head.
AttentionProblem first_head(const AttentionProblem& p);

// The kernels (attention_kernels.cpp).
using AttentionVariant = Variant<AttentionProblem, Dispatch>;
std::vector<std::string> attention_variants();
const AttentionVariant& choose_attention(const Lowering& l, const AttentionProblem& p);
const AttentionVariant& plain_attention();  // any size, and in parts along the keys
const AttentionVariant& split_attention();  // its dispatch leaves p.carry to join_parts
const AttentionVariant& blocked_attention();
int64_t attention_parts(const Target& target, const AttentionProblem& p);  // for the split kernel
Dispatch join_parts(const Lowering& l, const AttentionProblem& p);
const AttentionVariant& online_attention();  // also rounds scores
bool online_attention_applies(const Target& target, const AttentionProblem& p);
// A part has its own sizes, for which other constants may be best.
Dispatch make_attention(Lowering& l, const AttentionVariant& variant, const AttentionProblem& part);

}  // namespace rlx
