// y = softmax(scores) v, an invocation for each row of queries. The query and the sum of values stay in registers; KEYS
// keys are processed at a time, and what was summed under a smaller maximum is scaled down (online softmax). The lanes
// of a workgroup share the keys, in workgroup memory. The variant for GPUs and many queries. Weights that are rounded
// need the total first: then the keys are gone through twice. Where a row is too long for the registers of an
// invocation, it has ACROSS of them: each holds every ACROSS-th four of the query and of the sum, and they add their parts
// of the scores up in workgroup memory.
const KEYS: u32 = 8u;  //@ spec
const LANES: u32 = 64u;  //@ spec
const ACROSS: u32 = 1u;  //@ spec           divides HEAD4, VALUE4 and LANES
const ROWS: u32 = LANES / ACROSS;
const OWN_HEAD4: u32 = HEAD4 / ACROSS;
const OWN_VALUE4: u32 = VALUE4 / ACROSS;
const PASSES: u32 = select(1u, 2u, ROUNDED != 0u);

var<workgroup> k_tile: array<vec4f, KEYS * HEAD4>;
var<workgroup> v_tile: array<vec4f, KEYS * VALUE4>;
var<workgroup> own_scores: array<f32, select(1u, KEYS * LANES, ACROSS > 1u)>;

// The score of key j, of which all invocations of the row have a part.
fn whole_score(j: u32, lane: u32) -> f32 {
  var s = own_scores[j * LANES + lane / ACROSS * ACROSS];
  for (var i = 1u; i < ACROSS; i++) { s += own_scores[j * LANES + lane / ACROSS * ACROSS + i]; }
  return s;
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        invocation: Invocation) {
  let lane = lane_of(invocation);
  let g = group_index(group, groups);
  if (g >= group_count()) { return; }  // the grid is a box and may have more
  let outer = g / params.tiles;
  let count = key_count(outer, lane);
  let first_row = (g % params.tiles) * ROWS;
  let last_row = min(first_row + ROWS, params.rows) - 1u;
  let row = first_row + lane / ACROSS;
  let own = lane % ACROSS;
  // Lanes past the last row repeat it and write nothing: all lanes must reach the barriers.
  let r = row_at(outer, min(row, last_row), count);

  let q_at = q_place(r);
  var qs: array<vec4f, OWN_HEAD4>;
  for (var d = 0u; d < OWN_HEAD4; d++) { qs[d] = q_four(q_at, 4u * (d * ACROSS + own)); }
  var sum: array<vec4f, OWN_VALUE4>;
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
      for (var d = 0u; d < OWN_HEAD4; d++) {
        let a = qs[d];
        for (var j = 0u; j < KEYS; j++) {
          let b = k_tile[j * HEAD4 + d * ACROSS + own];
          s[j] = fma(a.x, b.x, fma(a.y, b.y, fma(a.z, b.z, fma(a.w, b.w, s[j]))));
        }
      }
      if (ACROSS > 1u) {
        for (var j = 0u; j < KEYS; j++) { own_scores[j * LANES + lane] = s[j]; }
        workgroupBarrier();
        for (var j = 0u; j < KEYS; j++) { s[j] = whole_score(j, lane); }
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
        for (var d = 0u; d < OWN_VALUE4; d++) {
          var o = sum[d] * fade;
          for (var j = 0u; j < KEYS; j++) { o = fma(vec4f(s[j]), v_tile[j * VALUE4 + d * ACROSS + own], o); }
          sum[d] = o;
        }
        continue;
      }
      // A key that is hidden from the row must not be added, not even 0 times infinity.
      for (var d = 0u; d < OWN_VALUE4; d++) { sum[d] *= fade; }
      for (var j = 0u; j < KEYS; j++) {
        if (key + j < seen_first || key + j >= seen_end) { continue; }
        for (var d = 0u; d < OWN_VALUE4; d++) {
          sum[d] = fma(vec4f(s[j]), v_tile[j * VALUE4 + d * ACROSS + own], sum[d]);
        }
      }
    }
  }

  if (row > last_row) { return; }
  let share = select(1.0, share_of(total), PASSES == 1u);
  if (own == 0u) { put_log_sum(r, most, total); }
  let y_at = y_place(r);
  for (var d = 0u; d < OWN_VALUE4; d++) { y_four(y_at, 4u * (d * ACROSS + own), sum[d] * share); }
}
