// y = softmax(scores) v, a workgroup for each row of queries: its lanes share the scores of LANES keys, then each sums
// its own dims of the values (online softmax between the blocks). Any head size; the right one for a few queries.
// A row is a query of one of the heads that share the keys.
//@ in q float
//@ in k float
//@ in v float
//@ in mask any
//@ out y float
//@ use math attention

const VALUE: u32 = 64u;  //@ spec
const CAUSAL: bool = false;  //@ spec
const CAPPED: bool = false;  //@ spec
const KEEP: bool = false;  //@ spec

const LANES: u32 = 64u;
const DIMS: u32 = (VALUE + LANES - 1u) / LANES;  // of a lane

struct Params {
  head: u32,
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

var<workgroup> scores: array<f32, LANES>;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let g = group_index(group, groups);
  if (g >= group_count()) { return; }  // the grid is a box and may have more
  let outer = g / params.rows;
  let row = g % params.rows;
  let member = row / params.queries;
  let query = row % params.queries;

  let q_at = q_base(outer) + member * params.q_member + query * params.q_row;
  let k_at = k_base(outer);
  let v_at = v_base(outer);
  let mask_at = mask_base(outer) + member * params.mask_member + query * params.mask_row;
  let first = first_key(query);
  let end = end_key(query);

  var sum: array<f32, DIMS>;
  var most = -infinity();
  var total = 0.0;
  for (var block = first; block < end; block += LANES) {
    workgroupBarrier();  // the scores of the block before are used up
    let key = block + lane;
    var s = -infinity();
    if (key < end) {
      s = 0.0;
      let p = k_at + key * params.k_row;
      for (var d = 0u; d < params.head; d++) {
        s = fma(q_get(q_at + d * params.q_dim), k_get(p + d * params.k_dim), s);
      }
      s = masked_score(params.scale * s, mask_at, key);
    }
    scores[lane] = s;
    workgroupBarrier();
    var top = most;
    for (var j = 0u; j < LANES; j++) { top = max(top, scores[j]); }
    let fade = weight(most - finite_or_zero(top));
    most = top;
    total *= fade;
    for (var i = 0u; i < DIMS; i++) { sum[i] *= fade; }
    let p = weight(s - finite_or_zero(top));
    workgroupBarrier();
    scores[lane] = p;
    workgroupBarrier();
    for (var j = 0u; j < min(LANES, end - block); j++) {
      let w = scores[j];
      total += w;
      let value_at = v_at + (block + j) * params.v_row;
      for (var i = 0u; i < DIMS; i++) {
        let d = min(i * LANES + lane, VALUE - 1u);
        sum[i] = fma(w, v_get(value_at + d * params.v_dim), sum[i]);
      }
    }
  }

  let share = select(1.0 / total, 0.0, total == 0.0);
  let y_at = y_base(outer) + member * params.y_member + query * params.y_row;
  for (var i = 0u; i < DIMS; i++) {
    let d = i * LANES + lane;
    if (d < VALUE) { y_put(y_at + d, sum[i] * share); }
  }
}
