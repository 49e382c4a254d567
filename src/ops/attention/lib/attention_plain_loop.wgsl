// y = softmax(scores) v, a workgroup for each row of queries: its lanes share the scores of LANES keys, then each sums
// its own dims of the values (online softmax between the blocks). Any head size; the variant for a few queries.
// Keys that cannot be bound at once are processed in several dispatches, which pass on their sums in `carry`.
//@ out carry float

const CONTINUES: bool = false;  //@ spec
const CARRIES: bool = false;  //@ spec

const LANES: u32 = 64u;
const DIMS: u32 = (VALUE + LANES - 1u) / LANES;  // of a lane

var<workgroup> scores: array<f32, LANES>;
var<workgroup> places: array<u32, LANES>;   // of the values, where finding one takes more than a product
var<workgroup> factors: array<f32, LANES>;  // of the values

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        invocation: Invocation) {
  let lane = lane_of(invocation);
  let g = group_index(group, groups);
  if (g >= group_count()) { return; }  // the grid is a box and may have more
  let outer = g / params.rows;
  let count = key_count(outer, lane);
  let r = row_at(outer, g % params.rows, count);

  let q_at = q_place(r);
  let k_at = k_base(outer);
  let v_at = v_base(outer);
  let first = first_key(count, r.query);
  let end = end_key(count, r.query);

  var sum: array<f32, DIMS>;
  var most = first_score(r);
  var total = first_total(r);
  // For each row: the sums, their total weight, and the largest score.
  let carry_at = g * (VALUE + 2u);
  if (CONTINUES) {
    for (var i = 0u; i < DIMS; i++) { sum[i] = carry_get(carry_at + min(i * LANES + lane, VALUE - 1u)); }
    total = carry_get(carry_at + VALUE);
    most = carry_get(carry_at + VALUE + 1u);
    storageBarrier();
  }
  for (var block = first; block < end; block += LANES) {
    workgroupBarrier();  // the scores of the previous block have been used
    let key = block + lane;
    var s = -infinity();
    if (key < end) {
      s = 0.0;
      let p = k_place(k_at, outer, key);
      for (var d = 0u; d < params.quads; d++) { s += dot(q_four(q_at, 4u * d), k_four(p, 4u * d)); }
      s = masked_score(s, r, key);
      if (IN_PLACES) {
        places[lane] = v_place(v_at, outer, key);
        factors[lane] = v_factor(outer, key);
      }
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
      var value_at = 0u;
      var share = w;
      if (IN_PLACES) {
        value_at = places[j];
        share = w * factors[j];
      } else {
        value_at = v_place(v_at, outer, block + j);
      }
      for (var i = 0u; i < DIMS; i++) {
        let d = min(i * LANES + lane, VALUE - 1u);
        sum[i] = fma(share, f32(v_get(value_at + d * params.v_dim)), sum[i]);
      }
    }
  }

  if (CARRIES) {
    for (var i = lane; i < VALUE; i += LANES) { carry_put(carry_at + i, sum[i / LANES]); }
    if (lane == 0u) {
      carry_put(carry_at + VALUE, total);
      carry_put(carry_at + VALUE + 1u, most);
    }
    return;
  }
  let share = share_of(total);
  if (lane == 0u) { put_log_sum(r, most, total); }
  let y_at = y_place(r);
  for (var i = 0u; i < DIMS; i++) {
    let d = i * LANES + lane;
    if (d < VALUE) { y_put(y_at + d, sum[i] * share); }
  }
}
