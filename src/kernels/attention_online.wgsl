// y = softmax(scores) v, an invocation for each row of queries. The query and the sum of values stay in registers; KEYS
// keys are met at a time, and what was summed under a smaller maximum is scaled down (online softmax). The lanes of a
// workgroup meet the same keys, in workgroup memory: the row for GPUs and many queries.
// A row is a query of one of the heads that share the keys.
//@ in q float x4
//@ in k float x4
//@ in v float x4
//@ in mask any
//@ out y float x4
//@ use math attention

const HEAD: u32 = 64u;  //@ spec
const VALUE: u32 = 64u;  //@ spec
const KEYS: u32 = 8u;  //@ spec
const LANES: u32 = 64u;  //@ spec
const CAUSAL: bool = false;  //@ spec
const CAPPED: bool = false;  //@ spec
const KEEP: bool = false;  //@ spec
const Q4: bool = false;  //@ spec
const K4: bool = false;  //@ spec
const V4: bool = false;  //@ spec
const Y4: bool = false;  //@ spec

const HEAD4: u32 = (HEAD + 3u) / 4u;
const VALUE4: u32 = (VALUE + 3u) / 4u;

struct Params {
  tiles: u32,
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
}

var<workgroup> k_tile: array<vec4f, KEYS * HEAD4>;
var<workgroup> v_tile: array<vec4f, KEYS * VALUE4>;

// Four neighbours from dim d on; zeros past the last.
fn q_four(p: u32, d: u32) -> vec4f {
  if (Q4) { return q_get4((p + d) / 4u); }
  var x = vec4f();
  for (var c = 0u; c < 4u; c++) { if (d + c < HEAD) { x[c] = q_get(p + (d + c) * params.q_dim); } }
  return x;
}
fn k_four(p: u32, d: u32) -> vec4f {
  if (K4) { return k_get4((p + d) / 4u); }
  var x = vec4f();
  for (var c = 0u; c < 4u; c++) { if (d + c < HEAD) { x[c] = k_get(p + (d + c) * params.k_dim); } }
  return x;
}
fn v_four(p: u32, d: u32) -> vec4f {
  if (V4) { return v_get4((p + d) / 4u); }
  var x = vec4f();
  for (var c = 0u; c < 4u; c++) { if (d + c < VALUE) { x[c] = v_get(p + (d + c) * params.v_dim); } }
  return x;
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let g = group_index(group, groups);
  if (g >= group_count()) { return; }  // the grid is a box and may have more
  let outer = g / params.tiles;
  let first_row = (g % params.tiles) * LANES;
  let last_row = min(first_row + LANES, params.rows) - 1u;
  // Lanes past the last row repeat it and write nothing: all lanes meet the same keys.
  let row = min(first_row + lane, last_row);
  let member = row / params.queries;
  let query = row % params.queries;

  let q_at = q_base(outer) + member * params.q_member + query * params.q_row;
  var qs: array<vec4f, HEAD4>;
  for (var d = 0u; d < HEAD4; d++) { qs[d] = params.scale * q_four(q_at, 4u * d); }
  var sum: array<vec4f, VALUE4>;
  var most = -infinity();
  var total = 0.0;

  let k_at = k_base(outer);
  let v_at = v_base(outer);
  let mask_at = mask_base(outer) + member * params.mask_member + query * params.mask_row;
  let seen_first = first_key(query);
  let seen_end = end_key(query);
  // What any row of the tile sees. A tile that reaches into the next head has all queries in it.
  let one_head = first_row / params.queries == last_row / params.queries;
  let tile_first = first_key(select(0u, first_row % params.queries, one_head));
  let tile_end = end_key(select(params.queries - 1u, last_row % params.queries, one_head));

  for (var key = tile_first; key < tile_end; key += KEYS) {
    workgroupBarrier();
    for (var i = lane; i < KEYS * HEAD4; i += LANES) {
      k_tile[i] = k_four(k_at + min(key + i / HEAD4, tile_end - 1u) * params.k_row, 4u * (i % HEAD4));
    }
    for (var i = lane; i < KEYS * VALUE4; i += LANES) {
      v_tile[i] = v_four(v_at + min(key + i / VALUE4, tile_end - 1u) * params.v_row, 4u * (i % VALUE4));
    }
    workgroupBarrier();
    var s = array<f32, KEYS>();
    for (var d = 0u; d < HEAD4; d++) {
      let a = qs[d];
      for (var j = 0u; j < KEYS; j++) {
        let b = k_tile[j * HEAD4 + d];
        s[j] = fma(a.x, b.x, fma(a.y, b.y, fma(a.z, b.z, fma(a.w, b.w, s[j]))));
      }
    }
    var top = most;
    for (var j = 0u; j < KEYS; j++) {
      let seen = key + j >= seen_first && key + j < seen_end;
      s[j] = select(-infinity(), masked_score(s[j], mask_at, min(key + j, tile_end - 1u)), seen);
      top = max(top, s[j]);
    }
    let fade = weight(most - finite_or_zero(top));
    most = top;
    total *= fade;
    for (var j = 0u; j < KEYS; j++) {
      s[j] = weight(s[j] - finite_or_zero(top));
      total += s[j];
    }
    for (var d = 0u; d < VALUE4; d++) {
      var o = sum[d] * fade;
      for (var j = 0u; j < KEYS; j++) {
        let b = v_tile[j * VALUE4 + d];
        o = fma(vec4f(s[j]), b, o);
      }
      sum[d] = o;
    }
  }

  if (first_row + lane > last_row) { return; }
  let share = select(1.0 / total, 0.0, total == 0.0);
  let y_at = y_base(outer) + member * params.y_member + query * params.y_row;
  for (var d = 0u; d < VALUE4; d++) {
    if (Y4) {
      y_put4((y_at + 4u * d) / 4u, sum[d] * share);
    } else {
      for (var c = 0u; c < 4u; c++) { if (4u * d + c < VALUE) { y_put(y_at + 4u * d + c, sum[d][c] * share); } }
    }
  }
}
