// y = softmax(scores) v on matrix units. Each subgroup has UNIT_M rows of queries; blocks of keys, then of their values, lie
// in workgroup memory for all of them (online softmax between the blocks). What is summed stays in registers, a
// few elements of each strip of dims in each lane.
//@ use matrix_of_f32 matrix_emulated
const UNIT_M: u32 = 8u;  //@ spec
const UNIT_N: u32 = 8u;  //@ spec
const UNIT_K: u32 = 8u;  //@ spec
const WIDTH: u32 = 8u;  //@ spec          of a subgroup
const SUBGROUPS: u32 = 1u;  //@ spec
const BLOCK: u32 = 16u;  //@ spec         keys
const PAD: u32 = 4u;  //@ spec            between lines, so that they lie in different banks
const TWICE: bool = false;  //@ spec      weights are sums of two factors, since f16 does not hold all their digits

// By which such weights are larger, so that their second factors are no subnormal numbers, which devices may flush.
const WEIGHT_SCALE: f32 = select(1.0, 16384.0, TWICE);
// Values that are no numbers must not meet factors that are 0: those of hidden keys, and second ones of weights.
const ODD_MATTERS: bool = CAUSAL || TWICE;

const LANES: u32 = SUBGROUPS * WIDTH;
const ROWS: u32 = SUBGROUPS * UNIT_M;
// Dims that fill units; what is past HEAD and VALUE is zero.
const HEAD_DIMS: u32 = (HEAD + UNIT_K - 1u) / UNIT_K * UNIT_K;
const STRIPS: u32 = (VALUE + UNIT_N - 1u) / UNIT_N;
const Q_STRIDE: u32 = HEAD_DIMS + PAD;
const KV_STRIDE: u32 = max(HEAD_DIMS, STRIPS * UNIT_N) + PAD;
const W_STRIDE: u32 = BLOCK + PAD;
const KV_BEGIN: u32 = ROWS * Q_STRIDE;
const W_BEGIN: u32 = KV_BEGIN + BLOCK * KV_STRIDE;
const W_REST: u32 = ROWS * W_STRIDE;  // from a weight to the rest of it
const EACH: u32 = UNIT_M * UNIT_N / WIDTH;  // sums of a unit, for a lane
// Lanes that share a row's scores, or rows that a lane has one after the other.
const SHARERS: u32 = max(WIDTH / UNIT_M, 1u);
const TURNS: u32 = ROWS * SHARERS / LANES;

var<workgroup> factors: array<unit_t, W_BEGIN + W_REST * select(1u, 2u, TWICE)>;
var<workgroup> unit_sums: array<unit_sum_t, ROWS * max(BLOCK, UNIT_N)>;  // scores, then sums of a strip
var<workgroup> shared_of: array<f32, ROWS * SHARERS>;
var<workgroup> fades: array<f32, ROWS>;
var<workgroup> any_odd_value: atomic<u32>;
var<workgroup> odd_values: u32;

fn put_factors(at: u32, v: vec4f) {
  factors[at] = unit_t(v.x);
  factors[at + 1u] = unit_t(v.y);
  factors[at + 2u] = unit_t(v.z);
  factors[at + 3u] = unit_t(v.w);
}
fn is_number(v: vec4f) -> bool { return all(abs(v) <= vec4f(3.4028234663852886e38)); }

// A weight, times WEIGHT_SCALE.
fn weight_at(row: u32, key: u32) -> f32 {
  let at = W_BEGIN + row * W_STRIDE + key;
  if (TWICE) { return f32(factors[at]) + f32(factors[at + W_REST]); }
  return f32(factors[at]);
}

fn matrix_task(g: u32, lane: u32, subgroup: u32) {
  if (g >= group_count()) { return; }  // the grid is a box and may have more
  let outer = g / params.tiles;
  let count = key_count(outer, lane);
  let first_row = (g % params.tiles) * ROWS;
  let last_row = min(first_row + ROWS, params.rows) - 1u;
  for (var i = lane; i < ROWS * HEAD_DIMS / 4u; i += LANES) {
    let r = i / (HEAD_DIMS / 4u);
    let d = 4u * (i % (HEAD_DIMS / 4u));
    // Rows past the last repeat it and are not written.
    let at = q_place(row_at(outer, min(first_row + r, last_row), count));
    var v = vec4f();
    if (d < HEAD) { v = q_four(at, d); }
    put_factors(r * Q_STRIDE + d, v);
  }
  // What any row of the tile sees, and what all of them see. A tile that reaches into the next head has all queries in it.
  let one_head = first_row / params.queries == last_row / params.queries;
  let first_query = select(0u, first_row % params.queries, one_head);
  let last_query = select(params.queries - 1u, last_row % params.queries, one_head);
  let tile_first = first_key(count, first_query);
  let tile_end = end_key(count, last_query);
  let common_first = first_key(count, last_query);
  let common_end = end_key(count, first_query);

  var rows: array<Row, TURNS>;
  var most: array<f32, TURNS>;
  var total: array<f32, TURNS>;
  for (var t = 0u; t < TURNS; t++) {
    let at = lane + t * LANES;
    rows[t] = row_at(outer, min(first_row + at / SHARERS, last_row), count);
    most[t] = first_score(rows[t]);
    total[t] = select(0.0, first_total(rows[t]), at % SHARERS == 0u);
  }
  var sum: array<f32, STRIPS * EACH>;
  let team = lane / WIDTH;  // whose sums the lane keeps; which subgroup it runs in is the device's affair

  for (var block = tile_first; block < tile_end; block += BLOCK) {
    workgroupBarrier();
    for (var i = lane; i < BLOCK * HEAD_DIMS / 4u; i += LANES) {
      let j = i / (HEAD_DIMS / 4u);
      let d = 4u * (i % (HEAD_DIMS / 4u));
      var v = vec4f();
      if (d < HEAD) { v = k_four(k_place(k_base(outer), outer, min(block + j, tile_end - 1u)), d); }
      put_factors(KV_BEGIN + j * KV_STRIDE + d, v);
    }
    if (ODD_MATTERS && lane == 0u) { atomicStore(&any_odd_value, 0u); }
    workgroupBarrier();
    if (subgroup < SUBGROUPS) {
      for (var n = 0u; n < BLOCK; n += UNIT_N) {
        var s = Sums();
        for (var i = 0u; i < HEAD_DIMS; i += UNIT_K) {
          s = multiplied(left_at(subgroup * UNIT_M * Q_STRIDE + i, Q_STRIDE),
                         right_at(KV_BEGIN + n * KV_STRIDE + i, KV_STRIDE), s);
        }
        keep(subgroup * UNIT_M * BLOCK + n, BLOCK, s);
      }
    }
    workgroupBarrier();
    // The values take the place of the keys.
    for (var i = lane; i < BLOCK * STRIPS * UNIT_N / 4u; i += LANES) {
      let j = i / (STRIPS * UNIT_N / 4u);
      let d = 4u * (i % (STRIPS * UNIT_N / 4u));
      var v = vec4f();
      if (d < VALUE && block + j < tile_end) { v = v_four(v_place(v_base(outer), outer, block + j), d); }
      if (ODD_MATTERS && !is_number(v)) { atomicStore(&any_odd_value, 1u); }
      put_factors(KV_BEGIN + j * KV_STRIDE + d, v);
    }
    // Masks, and the largest score of each row.
    for (var t = 0u; t < TURNS; t++) {
      let at = lane + t * LANES;
      let r = at / SHARERS;
      let first = first_key(count, rows[t].query);
      let end = min(end_key(count, rows[t].query), tile_end);
      var top = most[t];
      for (var j = at % SHARERS; j < BLOCK; j += SHARERS) {
        let key = block + j;
        let score = masked_score(unit_sums[r * BLOCK + j], rows[t], min(key, tile_end - 1u));
        let seen = select(-infinity(), score, key >= first && key < end);
        unit_sums[r * BLOCK + j] = seen;
        top = max(top, seen);
      }
      shared_of[at] = top;
    }
    workgroupBarrier();
    if (ODD_MATTERS && lane == 0u) { odd_values = atomicLoad(&any_odd_value); }
    // Weights relative to the largest score so far.
    for (var t = 0u; t < TURNS; t++) {
      let at = lane + t * LANES;
      let r = at / SHARERS;
      var top = shared_of[r * SHARERS];
      for (var i = 1u; i < SHARERS; i++) { top = max(top, shared_of[r * SHARERS + i]); }
      let base = finite_or_zero(top);
      let fade = weight(most[t] - base);
      most[t] = top;
      total[t] *= fade;
      if (at % SHARERS == 0u) { fades[r] = fade; }
      for (var j = at % SHARERS; j < BLOCK; j += SHARERS) {
        let w = weight(unit_sums[r * BLOCK + j] - base);
        total[t] += w;
        let place = W_BEGIN + r * W_STRIDE + j;
        // Eleven bits, by their bits: a difference from a rounded number could be taken for 0.
        var scaled = w * WEIGHT_SCALE;
        if (TWICE) {
          let first = bitcast<f32>(bitcast<u32>(scaled) & 0xffffe000u);
          factors[place + W_REST] = unit_t(scaled - first);
          // What f16 does not hold at all is no 0 either: 2^-24 is far below what the sum of weights can hold.
          scaled = max(first, select(0.0, 5.9604644775390625e-8, w > 0.0));
        }
        factors[place] = unit_t(scaled);
      }
    }
    // A key that is hidden from a row must not be added to it, not even 0 times infinity.
    var odd = false;
    if (ODD_MATTERS) { odd = workgroupUniformLoad(&odd_values) != 0u; }
    let apart = odd && (TWICE || block < common_first || min(block + BLOCK, tile_end) > common_end);
    workgroupBarrier();
    for (var n = 0u; n < STRIPS; n++) {
      if (subgroup < SUBGROUPS) {
        var s = Sums();
        for (var i = 0u; i < BLOCK; i += UNIT_K) {
          let values = right_rows_at(KV_BEGIN + i * KV_STRIDE + n * UNIT_N, KV_STRIDE);
          let at = W_BEGIN + subgroup * UNIT_M * W_STRIDE + i;
          s = multiplied(left_at(at, W_STRIDE), values, s);
          if (TWICE) { s = multiplied(left_at(at + W_REST, W_STRIDE), values, s); }
        }
        keep(subgroup * UNIT_M * UNIT_N, UNIT_N, s);
      }
      workgroupBarrier();
      for (var e = 0u; e < EACH; e++) {
        let i = lane % WIDTH + e * WIDTH;
        let r = team * UNIT_M + i / UNIT_N;
        var more = unit_sums[team * UNIT_M * UNIT_N + i];
        if (apart) {
          let query = row_at(outer, min(first_row + r, last_row), count).query;
          more = 0.0;
          for (var j = 0u; j < min(BLOCK, tile_end - block); j++) {
            if (block + j < first_key(count, query) || block + j >= end_key(count, query)) { continue; }
            more += weight_at(r, j) * f32(factors[KV_BEGIN + j * KV_STRIDE + n * UNIT_N + i % UNIT_N]);
          }
        }
        sum[n * EACH + e] = sum[n * EACH + e] * fades[r] + more / WEIGHT_SCALE;
      }
      workgroupBarrier();
    }
  }

  workgroupBarrier();
  for (var t = 0u; t < TURNS; t++) { shared_of[lane + t * LANES] = total[t]; }
  workgroupBarrier();
  for (var t = 0u; t < TURNS; t++) {
    let at = lane + t * LANES;
    let r = at / SHARERS;
    if (at % SHARERS != 0u) { continue; }
    var all_weights = shared_of[at];
    for (var i = 1u; i < SHARERS; i++) { all_weights += shared_of[at + i]; }
    fades[r] = share_of(all_weights);
    if (first_row + r <= last_row) { put_log_sum(rows[t], most[t], all_weights); }
  }
  for (var n = 0u; n < STRIPS; n++) {
    workgroupBarrier();
    for (var e = 0u; e < EACH; e++) {
      let i = lane % WIDTH + e * WIDTH;
      unit_sums[team * UNIT_M * UNIT_N + i] = sum[n * EACH + e] * fades[team * UNIT_M + i / UNIT_N];
    }
    workgroupBarrier();
    for (var i = lane; i < ROWS * UNIT_N / 4u; i += LANES) {
      let r = i / (UNIT_N / 4u);
      if (first_row + r > last_row) { continue; }
      let at = 4u * i;
      y_four(y_place(row_at(outer, first_row + r, count)), n * UNIT_N + 4u * (i % (UNIT_N / 4u)),
             vec4f(unit_sums[at], unit_sums[at + 1u], unit_sums[at + 2u], unit_sums[at + 3u]));
    }
  }
}
