// QR factorisation by Householder reflections, in place, of the columns [first, last) of each matrix: LAPACK's geqrf on a
// panel, with its signs: the diagonal of R has the opposite sign of what it replaces. The reflections are I - V T V^T, as in
// LAPACK's larft: their vectors also go to `v`, with ones and zeros written out, and T to `t`. A workgroup for each matrix.
//@ out matrix float
//@ out v float
//@ out t float

const GROUP: u32 = 64u;  //@ spec

struct Params {
  count: u32,
  rows: u32,
  columns: u32,
  first: u32,
  last: u32,
}

const WIDEST: u32 = 32u;  // columns of a panel; divides GROUP

var<workgroup> partial: array<f32, GROUP>;
var<workgroup> dots: array<f32, WIDEST>;
var<workgroup> factor: array<f32, 1024>;  // T, WIDEST x WIDEST

fn at(i: u32, row: u32, column: u32) -> u32 {
  return matrix_flat((i * params.rows + row) * params.columns + column);
}
fn meet() {
  storageBarrier();
  workgroupBarrier();
}

fn largest_of_all(mine: f32, lane: u32) -> f32 {
  partial[lane] = mine;
  workgroupBarrier();
  var most = 0.0;
  for (var other = 0u; other < GROUP; other++) { most = max_nan(most, partial[other]); }
  workgroupBarrier();
  return most;
}
fn sum_of_all(mine: f32, lane: u32) -> f32 {
  partial[lane] = mine;
  workgroupBarrier();
  var sum = 0.0;
  for (var other = 0u; other < GROUP; other++) { sum += partial[other]; }
  workgroupBarrier();
  return sum;
}

// Replaces column k by the reflection's vector, below a one that is not stored, and the diagonal of R. Returns tau: the
// reflection is I - tau v v^T.
fn reflect(i: u32, k: u32, lane: u32) -> f32 {
  let alpha = matrix_get(at(i, k, k));
  var most = 0.0;
  for (var row = k + 1u + lane; row < params.rows; row += GROUP) { most = max_nan(most, abs(matrix_get(at(i, row, k)))); }
  most = largest_of_all(most, lane);
  let scale = max_nan(most, abs(alpha));  // squares of large and small numbers leave the range of f32
  var sum = 0.0;
  for (var row = k + lane; row < params.rows; row += GROUP) {
    let value = matrix_get(at(i, row, k)) / scale;
    sum += value * value;
  }
  let norm = scale * sqrt(sum_of_all(sum, lane));
  let beta = select(-norm, norm, alpha < 0.0);
  if (bitcast<u32>(most) == 0u) { return 0.0; }  // not if it is NaN
  for (var row = k + 1u + lane; row < params.rows; row += GROUP) {
    let place = at(i, row, k);
    matrix_put(place, matrix_get(place) / (alpha - beta));
  }
  if (lane == 0u) { matrix_put(at(i, k, k), beta); }
  return (beta - alpha) / beta;
}

fn vector_at(i: u32, row: u32, k: u32) -> f32 {
  if (row == k) { return 1.0; }
  return matrix_get(at(i, row, k));
}

// Reflects the columns to the right of k; of those to the left, `dots` get the products with the vector.
fn apply_to_panel(i: u32, k: u32, tau: f32, lane: u32) {
  let column = params.first + lane % WIDEST;
  let right = column > k && column < params.last;
  var dot = 0.0;
  for (var row = k + lane / WIDEST; (right || column < k) && row < params.rows; row += GROUP / WIDEST) {
    dot += vector_at(i, row, k) * matrix_get(at(i, row, column));
  }
  partial[lane] = dot;
  workgroupBarrier();
  dot = 0.0;
  for (var other = lane % WIDEST; other < GROUP; other += WIDEST) { dot += partial[other]; }
  for (var row = k + lane / WIDEST; right && row < params.rows; row += GROUP / WIDEST) {
    let place = at(i, row, column);
    matrix_put(place, matrix_get(place) - tau * dot * vector_at(i, row, k));
  }
  if (lane < WIDEST) { dots[lane] = dot; }
  meet();
}

// Column j of T.
fn extend_factor(j: u32, tau: f32, lane: u32) {
  if (lane < WIDEST) {
    var sum = 0.0;
    for (var q = lane; q < j; q++) { sum += factor[lane * WIDEST + q] * dots[q]; }
    factor[lane * WIDEST + j] = select(select(0.0, tau, lane == j), -tau * sum, lane < j);
  }
  workgroupBarrier();
}

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = group_index(group, groups);
  if (i >= params.count) { return; }
  for (var k = params.first; k < params.last; k++) {
    let tau = reflect(i, k, lane);
    meet();
    apply_to_panel(i, k, tau, lane);
    extend_factor(k - params.first, tau, lane);
  }
  let width = params.last - params.first;
  for (var e = lane; e < (params.rows - params.first) * width; e += GROUP) {
    let row = params.first + e / width;
    let column = params.first + e % width;
    var value = 0.0;
    if (row >= column) { value = vector_at(i, row, column); }
    v_put(v_flat(i * (params.rows - params.first) * width + e), value);
  }
  for (var e = lane; e < width * width; e += GROUP) {
    t_put(t_flat(i * width * width + e), factor[e / width * WIDEST + e % width]);
  }
}
