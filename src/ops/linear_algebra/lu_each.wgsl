// LU factorisation with partial pivoting, in place, as in lu_panel, with one invocation for each matrix: for many small ones.
//@ out matrix float
//@ out pivots int
//@ out info int

struct Params {
  count: u32,
  rows: u32,
  columns: u32,
}

const GROUP: u32 = 64u;

fn at(i: u32, row: u32, column: u32) -> u32 {
  return matrix_flat((i * params.rows + row) * params.columns + column);
}

// The row of the largest element of column k from row k on, the first one among equals; by bits, so that NaN is larger than
// everything.
fn pivot_row(i: u32, k: u32) -> u32 {
  var best = k;
  var most = 0u;
  for (var row = k; row < params.rows; row++) {
    let size = bitcast<u32>(matrix_get(at(i, row, k))) & 0x7fffffffu;
    if (size > most) {
      best = row;
      most = size;
    }
  }
  return best;
}

fn exchange(i: u32, a: u32, b: u32) {
  for (var column = 0u; column < params.columns; column++) {
    let kept = matrix_get(at(i, a, column));
    matrix_put(at(i, a, column), matrix_get(at(i, b, column)));
    matrix_put(at(i, b, column), kept);
  }
}

fn eliminate_below(i: u32, k: u32, pivot: f32) {
  for (var row = k + 1u; row < params.rows; row++) {
    let factor = matrix_get(at(i, row, k)) / pivot;
    matrix_put(at(i, row, k), factor);
    for (var column = k + 1u; column < params.columns; column++) {
      let place = at(i, row, column);
      matrix_put(place, matrix_get(place) - factor * matrix_get(at(i, k, column)));
    }
  }
}

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = group_index(group, groups) * GROUP + lane;
  if (i >= params.count) { return; }
  let steps = min(params.rows, params.columns);
  var singular = 0;
  for (var k = 0u; k < steps; k++) {
    let other = pivot_row(i, k);
    pivots_put(pivots_flat(i * steps + k), i32(other + 1u));
    if (other != k) { exchange(i, k, other); }
    let pivot = matrix_get(at(i, k, k));
    if ((bitcast<u32>(pivot) & 0x7fffffffu) != 0u) {  // NaN too
      eliminate_below(i, k, pivot);
    } else if (singular == 0) {
      singular = i32(k + 1u);
    }
  }
  info_put(info_flat(i), singular);
}
