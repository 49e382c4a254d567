// The gated delta rule in chunks, by the WY form of the products of (1 - beta k k^T): a triangular system for
// each chunk (delta_chunk.wgsl), whose solutions let the chunks be joined by products with the state
// (delta_join.wgsl).
#include "kernels/binder.h"
#include "kernels/linear_attention_chunk.wgsl.h"
#include "kernels/linear_attention_join.wgsl.h"
#include "ops/state_space/chunked_scan.h"
#include "ops/state_space/linear_attention.h"

namespace rlx {
namespace {

using Solve = kernels::linear_attention_chunk;
using Join = kernels::linear_attention_join;
using Problem = LinearAttentionProblem;
static_assert(Solve::CHUNK == Join::CHUNK);
constexpr int64_t kChunk = Solve::CHUNK;

int64_t chunks_of(const Problem& p) { return ceil_div(p.steps(), kChunk); }

// What goes from one kernel to the other.
struct Solved {
  Operand u;        // [batch, heads, steps, values]; v without the delta rule
  Operand w;        // [batch, heads, steps, keys]; absent without it
  Operand weights;  // [batch * heads * chunks, CHUNK + 2, CHUNK]

  bool solves() const { return w.present(); }
};
template <class Take>
Solved take_solved(const Problem& p, Take&& take) {
  const Operand weights = take(Dims{p.rows() * p.heads() * chunks_of(p), kChunk + 2, kChunk});
  if (p.op->rule != LinearAttentionRule::delta)
    return {.u = p.v.with_view(p.v.view.permute({0, 2, 1, 3})), .w = {}, .weights = weights};
  return {.u = take(Dims{p.rows(), p.heads(), p.steps(), p.values()}),
          .w = take(Dims{p.rows(), p.heads(), p.steps(), p.keys()}),
          .weights = weights};
}

bool keys_in_fours(const Problem& p) { return reads_fours(p.q) && reads_fours(p.k); }

Dispatch make_solve(const Lowering& l, const Problem& p, const Solved& s) {
  Operand q = p.q, k = p.k;
  q.x4 = k.x4 = keys_in_fours(p);
  return l.make<Solve>({.q = q,
                        .k = k,
                        .v = s.solves() ? p.v : Operand{},
                        .g = p.g,
                        .beta = p.beta,
                        .u = s.solves() ? s.u : Operand{},
                        .w = s.w,
                        .weights = s.weights},
                       {.steps = to_u32(p.steps()),
                        .chunks = to_u32(chunks_of(p)),
                        .heads = to_u32(p.heads()),
                        .shared_by = to_u32(p.heads() / p.key_heads()),
                        .keys = to_u32(p.keys()),
                        .values = to_u32(p.values()),
                        .q_strides = strides_of(q, {0, 1, 2, 3}),
                        .k_strides = strides_of(k, {0, 1, 2, 3}),
                        .v_strides = strides_of(p.v, {0, 1, 2, 3}),
                        .g_strides = strides_of(p.g, {0, 1, 2, -1}),
                        .beta_strides = strides_of(p.beta, {0, 1, 2, -1})},
                       p.rows() * p.heads() * chunks_of(p), {.WHOLE = keys_in_fours(p)});
}

Dispatch make_join(const Lowering& l, const Problem& p, const Solved& s) {
  const LinearAttentionTile t = tile_of(l.target(), p);
  const int64_t tiles = ceil_div(p.values(), t.columns);
  Operand q = p.q, k = p.k, w = s.w;
  const bool whole = p.keys() == 4 * t.fours * t.parts && keys_in_fours(p);
  q.x4 = k.x4 = w.x4 = whole;
  return l.make<Join>({.q = q,
                       .k = k,
                       .u = s.u,
                       .w = w,
                       .weights = s.weights,
                       .initial = p.initial,
                       .state = p.state,
                       .y = p.y},
                      {.steps = to_u32(p.steps()),
                       .tiles = to_u32(tiles),
                       .heads = to_u32(p.heads()),
                       .shared_by = to_u32(p.heads() / p.key_heads()),
                       .keys = to_u32(p.keys()),
                       .values = to_u32(p.values()),
                       .scale = static_cast<float>(p.op->scale_of(p.keys())),
                       .q_strides = strides_of(q, {0, 1, 2, 3}),
                       .k_strides = strides_of(k, {0, 1, 2, 3}),
                       .u_strides = strides_of(s.u, {0, 2, 1, 3}),
                       .y_strides = strides_of(p.y, {0, 1, 2, 3}),
                       .state_strides = strides_of(p.state, {1, -1, 2, 3}),
                       .initial_strides = strides_of(p.initial, {0, 1, 2, 3})},
                      p.rows() * p.heads() * tiles,
                      {.FOURS = to_u32(t.fours),
                       .PARTS = to_u32(t.parts),
                       .COLUMNS = to_u32(t.columns),
                       .WHOLE = whole,
                       .RESUMES = p.resumes});
}

}  // namespace

bool chunk_products_apply(const Target& target, const Problem& p) {
  const LinearAttentionTile t = tile_of(target, p);
  const int64_t bytes = 2 * 16 * int64_t{Join::TILE} * t.fours * t.parts + 4 * kChunk * t.columns +
                        (t.parts > 1 ? 32 * t.parts * t.columns : 16);
  return !p.gate_by_key() && p.steps() >= kChunk && bytes <= target.caps.max_workgroup_bytes;
}

bool lower_chunk_products(Lowering& l, const Problem& p) {
  UntakenScratch untaken;
  const Solved like = take_solved(p, untaken);
  if (!fits(make_solve(l, p, like), l.caps()) || !fits(make_join(l, p, like), l.caps())) return false;
  const Solved solved = take_solved(p, [&](Dims dims) { return l.scratch(DType::f32, std::move(dims)); });
  l.emit(make_solve(l, p, solved));
  l.emit(make_join(l, p, solved));
  return true;
}

}  // namespace rlx
