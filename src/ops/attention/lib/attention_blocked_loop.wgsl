// y = softmax(scores) v, a small workgroup for a few rows of queries. For a block of keys, four per lane, each lane
// computes the scores of its keys with all rows; the block's weights then lie in workgroup memory, and each lane sums
// its own dims of the values for all rows (online softmax between the blocks). Loads are shared by many products and
// the code is short, which is what software devices need.
// Rows are in vectors of four, QUADS of them. If SPLIT, a workgroup has a part of the keys, and leaves its sums, their total
// weight and the largest score of each row in `carry`, for attention_join: few rows of many keys are work for all cores.
//@ out carry float
const LANES: u32 = 8u;  //@ spec
const QUADS: u32 = 1u;  //@ spec
const SPLIT: bool = false;  //@ spec

const ROWS: u32 = 4u * QUADS;
const BLOCK: u32 = 4u * LANES;                      // keys
const CHUNKS: u32 = (VALUE4 + LANES - 1u) / LANES;  // of four dims, for a lane

var<workgroup> qs: array<vec4f, HEAD4 * ROWS>;
var<workgroup> weights: array<vec4f, BLOCK * QUADS>;  // of each key for the rows
var<workgroup> shared_of: array<vec4f, LANES * QUADS>;  // what each lane found for the rows

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        invocation: Invocation) {
  let lane = lane_of(invocation);
  let g = group_index(group, groups);
  if (g >= group_count()) { return; }  // the grid is a box and may have more
  var tile = g;
  var part = 0u;
  if (SPLIT) {
    tile = g / params.parts;
    part = g - tile * params.parts;
  }
  let outer = tile / params.tiles;
  let count = key_count(outer, lane);
  let first_row = (tile % params.tiles) * ROWS;
  let last_row = min(first_row + ROWS, params.rows) - 1u;

  var rows: array<Row, ROWS>;
  for (var r = 0u; r < ROWS; r++) {
    rows[r] = row_at(outer, min(first_row + r, last_row), count);  // rows past the last repeat it and are not written
    let q_at = q_place(rows[r]);
    for (var d = lane; d < HEAD4; d += LANES) { qs[d * ROWS + r] = q_four(q_at, 4u * d); }
  }
  // What any row of the tile sees. A tile that reaches into the next head has all queries in it.
  let one_head = first_row / params.queries == last_row / params.queries;
  var tile_first = first_key(count, select(0u, first_row % params.queries, one_head));
  var tile_end = end_key(count, select(params.queries - 1u, last_row % params.queries, one_head));
  if (SPLIT) {
    tile_first = max(tile_first, part * params.part_keys);
    tile_end = min(tile_end, (part + 1u) * params.part_keys);
  }

  // What all of them see: a key that is hidden from a row must not be added to it, not even 0 times infinity.
  let common_first = first_key(count, select(params.queries - 1u, last_row % params.queries, one_head));
  let common_end = end_key(count, select(0u, first_row % params.queries, one_head));

  var sum: array<vec4f, ROWS * CHUNKS>;
  var most: array<vec4f, QUADS>;
  var total: array<vec4f, QUADS>;
  for (var r = 0u; r < ROWS; r++) {
    // The first part has what a row begins with, and of that the first lane.
    most[r / 4u][r % 4u] = select(-infinity(), first_score(rows[r]), part == 0u);
    total[r / 4u][r % 4u] = select(0.0, first_total(rows[r]), part == 0u && lane == 0u);
  }

  workgroupBarrier();
  for (var block = tile_first; block < tile_end; block += BLOCK) {
    // The scores of four keys, LANES apart.
    var k_at: array<u32, 4>;
    for (var j = 0u; j < 4u; j++) {
      k_at[j] = k_place(k_base(outer), outer, min(block + j * LANES + lane, tile_end - 1u));
    }
    var s = array<vec4f, ROWS>();
    for (var d = 0u; d < params.quads; d++) {
      let b0 = k_four(k_at[0], 4u * d);
      let b1 = k_four(k_at[1], 4u * d);
      let b2 = k_four(k_at[2], 4u * d);
      let b3 = k_four(k_at[3], 4u * d);
      for (var r = 0u; r < ROWS; r++) {
        let a = qs[d * ROWS + r];
        s[r] = fma(vec4f(a.x), vec4f(b0.x, b1.x, b2.x, b3.x), s[r]);
        s[r] = fma(vec4f(a.y), vec4f(b0.y, b1.y, b2.y, b3.y), s[r]);
        s[r] = fma(vec4f(a.z), vec4f(b0.z, b1.z, b2.z, b3.z), s[r]);
        s[r] = fma(vec4f(a.w), vec4f(b0.w, b1.w, b2.w, b3.w), s[r]);
      }
    }
    // Masks, and the largest of the lane's scores.
    for (var i = 0u; i < QUADS; i++) {
      var top: vec4f;
      for (var c = 0u; c < 4u; c++) {
        let r = 4u * i + c;
        let first = first_key(count, rows[r].query);
        let end = min(end_key(count, rows[r].query), tile_end);
        for (var j = 0u; j < 4u; j++) {
          let key = block + j * LANES + lane;
          let score = masked_score(s[r][j], rows[r], min(key, tile_end - 1u));
          s[r][j] = select(-infinity(), score, key >= first && key < end);
        }
        top[c] = max(max(s[r].x, s[r].y), max(s[r].z, s[r].w));
      }
      shared_of[lane * QUADS + i] = top;
    }
    workgroupBarrier();
    // Weights relative to the largest score so far.
    for (var i = 0u; i < QUADS; i++) {
      var top = most[i];
      for (var j = 0u; j < LANES; j++) { top = max(top, shared_of[j * QUADS + i]); }
      var fade: vec4f;
      var base: vec4f;
      for (var c = 0u; c < 4u; c++) {
        base[c] = finite_or_zero(top[c]);
        fade[c] = weight(most[i][c] - base[c]);
        for (var h = 0u; h < CHUNKS; h++) { sum[(4u * i + c) * CHUNKS + h] *= fade[c]; }
      }
      most[i] = top;
      total[i] *= fade;
      for (var j = 0u; j < 4u; j++) {
        let w = vec4f(weight(s[4u * i][j] - base.x), weight(s[4u * i + 1u][j] - base.y),
                      weight(s[4u * i + 2u][j] - base.z), weight(s[4u * i + 3u][j] - base.w));
        total[i] += w;
        var share = w;
        if (IN_PLACES) { share = w * v_factor(outer, min(block + j * LANES + lane, tile_end - 1u)); }
        weights[(j * LANES + lane) * QUADS + i] = share;
      }
    }
    workgroupBarrier();
    for (var j = 0u; j < min(BLOCK, tile_end - block); j++) {
      let v_at = v_place(v_base(outer), outer, block + j);
      var w: array<vec4f, QUADS>;
      for (var i = 0u; i < QUADS; i++) { w[i] = weights[j * QUADS + i]; }
      let hidden = CAUSAL && (block + j < common_first || block + j >= common_end);  // from some row
      for (var h = 0u; h < CHUNKS; h++) {
        let b = v_four(v_at, 4u * min(h * LANES + lane, VALUE4 - 1u));
        if (!hidden) {
          for (var r = 0u; r < ROWS; r++) {
            sum[r * CHUNKS + h] = fma(vec4f(w[r / 4u][r % 4u]), b, sum[r * CHUNKS + h]);
          }
          continue;
        }
        for (var r = 0u; r < ROWS; r++) {
          if (block + j < first_key(count, rows[r].query) || block + j >= end_key(count, rows[r].query)) { continue; }
          sum[r * CHUNKS + h] = fma(vec4f(w[r / 4u][r % 4u]), b, sum[r * CHUNKS + h]);
        }
      }
    }
  }

  for (var i = 0u; i < QUADS; i++) { shared_of[lane * QUADS + i] = total[i]; }
  workgroupBarrier();
  for (var r = 0u; r < ROWS; r++) {
    let row = first_row + r;
    if (row > last_row) { break; }
    var all = 0.0;
    for (var j = 0u; j < LANES; j++) { all += shared_of[j * QUADS + r / 4u][r % 4u]; }
    if (SPLIT) {
      let at = ((outer * params.rows + row) * params.parts + part) * (VALUE + 2u);
      for (var h = 0u; h < CHUNKS; h++) {
        let d = 4u * (h * LANES + lane);
        for (var c = 0u; c < 4u; c++) { if (d + c < VALUE) { carry_put(at + d + c, sum[r * CHUNKS + h][c]); } }
      }
      if (lane == 0u) {
        carry_put(at + VALUE, all);
        carry_put(at + VALUE + 1u, most[r / 4u][r % 4u]);
      }
      continue;
    }
    let share = share_of(all);
    if (lane == 0u) { put_log_sum(rows[r], most[r / 4u][r % 4u], all); }
    let y_at = y_place(rows[r]);
    for (var h = 0u; h < CHUNKS; h++) { y_four(y_at, 4u * (h * LANES + lane), sum[r * CHUNKS + h] * share); }
  }
}
