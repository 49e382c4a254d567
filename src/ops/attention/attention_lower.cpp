// How attention is cut into dispatches that the device can bind.
#include <algorithm>

#include "kernels/attention_cache.wgsl.h"
#include "kernels/binder.h"
#include "kernels/expected_time.h"
#include "ops/attention/attention_problem.h"
#include "ops/elementwise/elementwise.h"
#include "ops/linear_algebra/matmul.h"
#include "ops/rearrange/contiguous.h"
#include "ops/reductions/softmax.h"

namespace rlx {
namespace {

// The least number of keys that a dispatch should process when it cannot process all.
int64_t few_keys(const AttentionProblem& p) { return std::min<int64_t>(p.keys, 64); }

// Copies inputs that are spread over more than half a binding even for one query and a few keys (transposed
// ones) into contiguous memory, if the bindings would not suffice otherwise.
AttentionProblem gathered(Lowering& l, AttentionProblem p) {
  if (p.is_cached()) return p;  // what cannot be bound is copied out of the cache
  const AttentionProblem least = slice_keys(first_head(p), 0, few_keys(p));
  // Other queries and keys may each reach into one more binding.
  if (bindings_needed(make_attention(l, plain_attention(), least), l.caps()) + 3 <=
      l.caps().max_storage_buffers)
    return p;
  const auto gather = [&](Operand& whole, const Operand& part) {
    const auto binding = static_cast<int64_t>(l.caps().max_binding_bytes);
    if (part.present() && 2 * reach_bytes(part) > binding) whole = lower_contiguous(l, whole);
  };
  gather(p.q, least.q);
  gather(p.k, least.k);
  gather(p.v, least.v);
  gather(p.mask, least.mask);
  return p;
}

// Calls f with the two halves of the problem, along the first axis of q that can be halved.
void halve(const AttentionProblem& p, const auto& f) {
  const Dims& dims = p.q.view.dims;
  const auto axis = std::ranges::find_if(dims, [](int64_t n) { return n > 1; }) - dims.begin();
  const int64_t length = dims[static_cast<size_t>(axis)];
  f(slice(p, axis, 0, length / 2));
  f(slice(p, axis, length / 2, length - length / 2));
}

// A chain of dispatches over parts of the keys, for a head whose keys cannot be bound at once.
void emit_over_keys(Lowering& l, const AttentionProblem& whole) {
  const Operand carry =
      l.scratch(DType::f32, {whole.batch() * whole.kv_heads(), whole.rows(), whole.value() + 2});
  const auto part = [&](int64_t begin, int64_t length) {
    AttentionProblem p = slice_keys(whole, begin, length);
    p.carry = carry;
    p.continues = begin > 0;
    p.carries = begin + length < whole.keys;
    return make_attention(l, plain_attention(), p);
  };
  if (whole.rows() > 1 && !fits(part(0, few_keys(whole)), l.caps())) {
    halve(whole, [&](const AttentionProblem& p) { emit_over_keys(l, p); });
    return;
  }
  l.split(whole.keys, 1, part);
}

// Lengths, sinks and slopes in one table [batch, kv_heads, group, 4], so that any part of them is one
// binding, if one head cannot be bound otherwise.
AttentionProblem in_one_table(Lowering& l, AttentionProblem p) {
  if (!p.has_forms() || fits(make_attention(l, plain_attention(), first_head(p)), l.caps())) return p;
  const Operand table = l.scratch(DType::f32, {p.batch(), p.kv_heads(), p.group(), 4});
  int64_t column = 0;
  for (Operand* o : {&p.lengths, &p.sinks, &p.slopes}) {
    if (!o->present()) continue;
    Operand x = o->with_view(o->view);
    if (device_bytes(x.dtype) != device_bytes(DType::f32)) {
      const Operand wide = l.scratch(DType::f32, x.view.dims);
      lower_expr(l, Expr::parse("cast_f32($0)", {x.dtype}), {x}, wide);
      x = wide;
    }
    Operand y = table;
    y.dtype = x.dtype;
    y.view = table.view.slice(3, column++, 1).slice_axes(0, 3);
    lower_copy_into(l, x, y);
    *o = y.with_view(y.view, 2);
  }
  return p;
}

// Keys or values of a cache one after the other, in f32.
Operand out_of_cache(Lowering& l, const AttentionProblem& p, const Operand& cache, const Operand& scale) {
  const Operand y = l.scratch(DType::f32, {p.batch(), p.kv_heads(), p.keys, cache.view.dims[3]});
  const auto stride = [&](size_t axis) { return static_cast<uint32_t>(to_i32(cache.view.strides[axis])); };
  l.flat<kernels::attention_cache>({.x = cache, .start = p.start, .pages = p.pages, .scale = scale, .y = y},
                                   {.keys = to_u32(p.keys),
                                    .kv_heads = to_u32(p.kv_heads()),
                                    .page = to_u32(cache.view.dims[2]),
                                    .last_page = to_u32(std::max<int64_t>(cache.view.dims[0], 1) - 1),
                                    .head = to_u32(cache.view.dims[3]),
                                    .row = stride(2),
                                    .dim = stride(3)});
  return y.with_view(y.view, 2);
}

AttentionProblem out_of_cache(Lowering& l, AttentionProblem p) {
  const Operand k = out_of_cache(l, p, p.k, p.k_scale);
  p.v = out_of_cache(l, p, p.v, p.v_scale);
  p.k = k;
  p.start = p.pages = p.k_scale = p.v_scale = {};
  return p;
}

// Halves the problem until its operands can be bound, and a dispatch does not take too long: batches first,
// then heads, then queries. If a query cannot be bound with all its keys, these are copied out of their
// cache, or processed in parts.
void emit_parts(Lowering& l, const AttentionVariant& variant, const AttentionProblem& p) {
  Dispatch d = make_attention(l, variant, p);
  const bool can_bind = fits(d, l.caps());
  if (can_bind && (is_short(d, l.target()) || p.batch() * p.kv_heads() * p.rows() == 1)) {
    l.emit(std::move(d));
  } else if (!can_bind && p.batch() * p.kv_heads() == 1 &&
             !fits(make_attention(l, variant, first_query(p)), l.caps())) {
    if (p.is_cached()) return emit_parts(l, variant, gathered(l, out_of_cache(l, p)));
    emit_over_keys(l, p);
  } else {
    halve(p, [&](const AttentionProblem& half) { emit_parts(l, variant, half); });
  }
}

// The keys in parts, each for workgroups of its own, and then what joins them. False, and nothing emitted, if
// the device cannot bind all of it.
bool emit_split(Lowering& l, AttentionProblem p) {
  p.parts = attention_parts(l.target(), p);
  p.carry = l.scratch(DType::f32, {p.batch() * p.kv_heads(), p.rows(), p.parts, p.value() + 2});
  Dispatch parts = make_attention(l, split_attention(), p);
  Dispatch join = join_parts(l, p);
  if (!fits(parts, l.caps()) || !fits(join, l.caps())) return false;
  l.emit(std::move(parts));
  l.emit(std::move(join));
  return true;
}

// Whether one query and one key can be bound, wherever they lie: a head may be longer than all bindings.
bool can_bind_one(const Lowering& l, const AttentionProblem& p) {
  const AttentionProblem one = slice_keys(first_head(p), 0, std::min<int64_t>(p.keys, 1));
  const int64_t binding = static_cast<int64_t>(l.caps().max_binding_bytes) - kBindingAlignment;
  const auto needed = [&](int64_t bytes) { return ceil_div(bytes + kBindingAlignment, binding); };
  int64_t sum = needed(4 * (p.value() + 2));  // what is carried from key to key
  for (const Operand* o : {&one.q, &one.k, &one.v, &one.mask, &one.y}) {
    if (o->present()) sum += needed(reach_bytes(*o));
  }
  return sum <= l.caps().max_storage_buffers;
}

// Whether a query can see all of its keys in one dispatch, which is what rounding its weights takes.
bool rounds_at_once(Lowering& l, const AttentionProblem& p) {
  if (!online_attention_applies(l.target(), p)) return false;
  const AttentionProblem one = first_head(p);
  return fits(make_attention(l, online_attention(), one), l.caps());
}

// Scores, weights and values as three ops would compute them, each cut in its own way.
void lower_written_out(Lowering& l, const AttentionProblem& p) {
  const auto by_group = [&](const Operand& o) {
    View v = o.view;
    v.dims.insert(v.dims.begin() + 2, p.group());
    v.strides.insert(v.strides.begin() + 2, 0);
    return o.with_view(std::move(v));
  };
  const Dims dims = {p.batch(), p.kv_heads(), p.group(), p.queries(), p.keys};
  const DType type = p.op->round_scores ? p.q.dtype : DType::f32;
  const Operand product = l.scratch(type, dims);
  lower_product(l, p.q, by_group(p.k.with_view(p.k.view.permute({0, 1, 3, 2}))), product);
  std::string expr = formatted("t0=mul($0,{})", p.op->scale_for(p.head()));
  std::vector<DType> types = {type};
  OperandList inputs = {product};
  if (p.mask.present()) {
    const bool keep = p.mask.dtype == DType::bool_;
    expr += keep ? formatted("; where($1,t0,{})", p.op->masked_score)
                 : formatted("; t1=cast_{}($1); add(t0,t1)", to_string(type));
    types.push_back(p.mask.dtype);
    inputs.push_back(p.mask.with_view(p.mask.view));
  }
  const Operand scores = l.scratch(type, dims);
  lower_expr(l, Expr::parse(expr, types), inputs, scores);
  const Operand weights = l.scratch(p.v.dtype, dims);
  lower_softmax(l, false, 4, scores, weights);
  lower_product(l, weights, by_group(p.v), p.y.with_view(p.y.view));
}

}  // namespace

void Attention::lower(Lowering& l) const {
  if (l.out().view.elements() == 0) return;
  const AttentionProblem p = gathered(l, in_one_table(l, attention_problem(*this, l)));
  const bool as_nodes = layout != AttentionLayout::bsd && mask == MaskKind::none && !soft_cap &&
                        !p.has_forms() && (empty_row == EmptyRow::nan || !p.mask.present());
  if (as_nodes && (!can_bind_one(l, p) || (round_scores && !rounds_at_once(l, p)))) {
    lower_written_out(l, p);
    return;
  }
  const AttentionVariant* variant = round_scores ? &online_attention() : &choose_attention(l, p);
  if (variant == &split_attention()) {
    if (emit_split(l, p)) return;
    variant = &blocked_attention();
  }
  emit_parts(l, *variant, p);
}

}  // namespace rlx
