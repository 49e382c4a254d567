// y = softmax(scores) v, an invocation for each row of queries. The query and the sum of values stay in registers; KEYS
// keys are processed at a time, and what was summed under a smaller maximum is scaled down (online softmax). The lanes
// of a workgroup share the keys, in workgroup memory. The variant for GPUs and many queries. Weights that are rounded
// need the total first: then the keys are gone through twice.
const KEYS: u32 = 8u;  //@ spec
const LANES: u32 = 64u;  //@ spec
const PASSES: u32 = select(1u, 2u, ROUNDED != 0u);

var<workgroup> k_tile: array<vec4f, KEYS * HEAD4>;
var<workgroup> v_tile: array<vec4f, KEYS * VALUE4>;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        invocation: Invocation) {
  let lane = lane_of(invocation);
  let g = group_index(group, groups);
  if (g >= group_count()) { return; }  // the grid is a box and may have more
  let outer = g / params.tiles;
  let count = key_count(outer, lane);
  let first_row = (g % params.tiles) * LANES;
  let last_row = min(first_row + LANES, params.rows) - 1u;
  // Lanes past the last row repeat it and write nothing: all lanes must reach the barriers.
  let r = row_at(outer, min(first_row + lane, last_row), count);

  let q_at = q_place(r);
  var qs: array<vec4f, HEAD4>;
  for (var d = 0u; d < HEAD4; d++) { qs[d] = q_four(q_at, 4u * d); }
  var sum: array<vec4f, VALUE4>;
  var most = first_score(r);
  var total = first_total(r);

  let k_at = k_base(outer);
  let v_at = v_base(outer);
  let seen_first = first_key(count, r.query);
  let seen_end = end_key(count, r.query);
  // What any row of the tile sees. A tile that reaches into the next head has all queries in it.
  let one_head = first_row / params.queries == last_row / params.queries;
  let tile_first = first_key(count, select(0u, first_row % params.queries, one_head));
  let tile_end = end_key(count, select(params.queries - 1u, last_row % params.queries, one_head));
  // What all of them see.
  let common_first = first_key(count, select(params.queries - 1u, last_row % params.queries, one_head));
  let common_end = end_key(count, select(0u, first_row % params.queries, one_head));

  for (var round = 0u; round < PASSES; round++) {
    let last = round + 1u == PASSES;
    for (var key = tile_first; key < tile_end; key += KEYS) {
      workgroupBarrier();
      for (var i = lane; i < KEYS * HEAD4; i += LANES) {
        k_tile[i] = k_four(k_place(k_at, outer, min(key + i / HEAD4, tile_end - 1u)), 4u * (i % HEAD4));
      }
      for (var i = lane; last && i < KEYS * VALUE4; i += LANES) {
        // Zeros past the last key: its own value, repeated there with the weight 0, might be infinite.
        let j = key + i / VALUE4;
        var value = vec4f();
        if (j < tile_end) {
          value = v_four(v_place(v_at, outer, j), 4u * (i % VALUE4));
          if (IN_PLACES) { value *= v_factor(outer, j); }
        }
        v_tile[i] = value;
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
        s[j] = select(-infinity(), masked_score(s[j], r, min(key + j, tile_end - 1u)), seen);
        top = max(top, s[j]);
      }
      var fade = 1.0;
      if (round == 0u) {
        fade = weight(most - finite_or_zero(top));
        most = top;
        total *= fade;
      }
      let share = select(1.0, share_of(total), round > 0u);
      for (var j = 0u; j < KEYS; j++) {
        s[j] = held_as(select(0u, ROUNDED, round > 0u), weight(s[j] - finite_or_zero(most)) * share);
        if (round == 0u) { total += s[j]; }
      }
      if (!last) { continue; }
      if (!CAUSAL || (key >= common_first && key + KEYS <= common_end)) {
        for (var d = 0u; d < VALUE4; d++) {
          var o = sum[d] * fade;
          for (var j = 0u; j < KEYS; j++) { o = fma(vec4f(s[j]), v_tile[j * VALUE4 + d], o); }
          sum[d] = o;
        }
        continue;
      }
      // A key that is hidden from the row must not be added, not even 0 times infinity.
      for (var d = 0u; d < VALUE4; d++) { sum[d] *= fade; }
      for (var j = 0u; j < KEYS; j++) {
        if (key + j < seen_first || key + j >= seen_end) { continue; }
        for (var d = 0u; d < VALUE4; d++) { sum[d] = fma(vec4f(s[j]), v_tile[j * VALUE4 + d], sum[d]); }
      }
    }
  }

  if (first_row + lane > last_row) { return; }
  let share = select(1.0, share_of(total), PASSES == 1u);
  put_log_sum(r, most, total);
  let y_at = y_place(r);
  for (var d = 0u; d < VALUE4; d++) { y_four(y_at, 4u * d, sum[d] * share); }
}
