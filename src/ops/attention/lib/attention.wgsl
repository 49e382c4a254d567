// What attention kernels share: operands, constants, parameters and masks. Included, so that their C++ structs are
// alike. A row is a query of one of the heads that share the keys. After this comes attention_dense or attention_forms,
// which say where keys and values lie, and the loop of the kernel.
//@ in q float x4
//@ in k any x4
//@ in v any x4
//@ in mask any
//@ out y float x4

const HEAD: u32 = 64u;  //@ spec
const VALUE: u32 = 64u;  //@ spec
const CAUSAL: bool = false;  //@ spec
const CAPPED: bool = false;  //@ spec
const ROUNDED: u32 = 0u;  //@ spec          the type that scores are rounded to (held_as)
const KEEP: bool = false;  //@ spec
const Q4: bool = false;  //@ spec
const K4: bool = false;  //@ spec
const V4: bool = false;  //@ spec
const Y4: bool = false;  //@ spec

const HEAD4: u32 = max((HEAD + 3u) / 4u, 1u);  // there are no empty arrays
const VALUE4: u32 = (VALUE + 3u) / 4u;

struct Params {
  tiles: u32,  // of rows, for a head of keys
  quads: u32,  // of a head: not a constant, or the loop over them would be unrolled
  queries: u32,
  rows: u32,
  keys: u32,
  shift: i32,
  window: i32,
  q_member: u32,
  q_row: u32,
  q_dim: u32,
  k_row: u32,
  k_dim: u32,
  v_row: u32,
  v_dim: u32,
  y_member: u32,
  y_row: u32,
  mask_member: u32,
  mask_row: u32,
  mask_key: u32,
  scale: f32,
  soft_cap: f32,
  masked_score: f32,
  empty_share: f32,
  part_keys: u32,  // of each part of the keys, where they are split
  parts: u32,
  // Of attention_forms alone.
  kv_heads: u32,
  page: u32,  // rows of the cache in a page
  last_page: u32,
  skipped: u32,  // keys before those of this dispatch
  total: u32,  // keys of all dispatches
}

// Four neighbours from dim d on; zeros past the last.
fn q_four(p: u32, d: u32) -> vec4f {
  if (Q4) { return q_get4(p + d); }
  var x = vec4f();
  for (var c = 0u; c < 4u; c++) { if (d + c < HEAD) { x[c] = q_get(p + (d + c) * params.q_dim); } }
  return x;
}
fn k_four(p: u32, d: u32) -> vec4f {
  if (K4) { return vec4f(k_get4(p + d)); }
  var x = vec4f();
  for (var c = 0u; c < 4u; c++) { if (d + c < HEAD) { x[c] = f32(k_get(p + (d + c) * params.k_dim)); } }
  return x;
}
fn v_four(p: u32, d: u32) -> vec4f {
  if (V4) { return vec4f(v_get4(p + d)); }
  var x = vec4f();
  for (var c = 0u; c < 4u; c++) { if (d + c < VALUE) { x[c] = f32(v_get(p + (d + c) * params.v_dim)); } }
  return x;
}
fn y_four(p: u32, d: u32, v: vec4f) {
  if (Y4) {
    if (d < VALUE) { y_put4(p + d, v); }
  } else {
    for (var c = 0u; c < 4u; c++) { if (d + c < VALUE) { y_put(p + d + c, v[c]); } }
  }
}

// A query, and the head that it belongs to.
struct Row {
  outer: u32,  // over batches and heads of keys
  member: u32,  // among the heads that share the keys
  query: u32,
  count: i32,  // of keys (key_count)
  mask_at: u32,  // the position of its row in the mask
}
fn row_at(outer: u32, row: u32, count: i32) -> Row {
  let member = row / params.queries;
  let query = row - member * params.queries;
  let mask_at = mask_base(outer) + member * params.mask_member + query * params.mask_row;
  return Row(outer, member, query, count, mask_at);
}
fn q_place(r: Row) -> u32 { return q_base(r.outer) + r.member * params.q_member + r.query * params.q_row; }
fn y_place(r: Row) -> u32 { return y_base(r.outer) + r.member * params.y_member + r.query * params.y_row; }

// A score from the product.
fn masked_score(product: f32, r: Row, key: u32) -> f32 {
  var s = held_as(ROUNDED, params.scale * held_as(ROUNDED, of_key(product, r.outer, key)));
  if (CAPPED) { s = params.soft_cap * tanh_f32(s / params.soft_cap); }
  s = at_distance(s, r, key);
  if (mask_present) {
    let m = f32(mask_get(r.mask_at + key * params.mask_key));
    if (KEEP) { s = select(params.masked_score, s, m != 0.0); } else { s = held_as(ROUNDED, s + m); }
  }
  return s;
}

// e^x for x <= 0, without branches; NaN stays. As good as exp_f32, which also has to overflow.
fn weight(x: f32) -> f32 { return select(exp_sum(max(x, -104.0), 0.0, 0), x, is_nan(x)); }

// What the sum of weighted values is multiplied by. The total is 0 only if every score is -inf: otherwise the
// largest has the weight 1.
fn share_of(total: f32) -> f32 { return select(1.0 / total, params.empty_share, total == 0.0); }

// What scores are compared with while only excluded keys have been seen: -inf - -inf would be NaN.
fn finite_or_zero(most: f32) -> f32 { return select(most, 0.0, is_inf(most) && most < 0.0); }
