// Gaussian elimination with pivots of matrices that are lost on the way: y becomes the determinants. If there is `inverse`,
// which begins as the identity, all that happens to the rows of a matrix happens to it too. One invocation for each.
//@ out matrix any
//@ out inverse any
//@ out y any

struct Params {
  count: u32,
  size: u32,
}

const GROUP: u32 = 64u;

fn at(i: u32, row: u32, column: u32) -> u32 { return (i * params.size + row) * params.size + column; }

fn pivot_row(i: u32, k: u32) -> u32 {
  var best = k;
  var most = abs(f32(matrix_get(matrix_flat(at(i, k, k)))));
  for (var row = k + 1u; row < params.size; row++) {
    let size = abs(f32(matrix_get(matrix_flat(at(i, row, k)))));
    if (size > most) {
      best = row;
      most = size;
    }
  }
  return best;
}

fn swap_rows(i: u32, a: u32, b: u32) {
  for (var column = 0u; column < params.size; column++) {
    let p = at(i, a, column);
    let q = at(i, b, column);
    let kept = matrix_get(matrix_flat(p));
    matrix_put(matrix_flat(p), matrix_get(matrix_flat(q)));
    matrix_put(matrix_flat(q), kept);
    if (!inverse_present) { continue; }
    let other = inverse_get(inverse_flat(p));
    inverse_put(inverse_flat(p), inverse_get(inverse_flat(q)));
    inverse_put(inverse_flat(q), other);
  }
}

// Row `to` less a multiple of row k.
fn subtract_row(i: u32, k: u32, to: u32, factor: f32) {
  for (var column = 0u; column < params.size; column++) {
    let source = at(i, k, column);
    let place = at(i, to, column);
    let value = f32(matrix_get(matrix_flat(place))) - factor * f32(matrix_get(matrix_flat(source)));
    matrix_put(matrix_flat(place), matrix_t(value));
    if (!inverse_present) { continue; }
    let other = f32(inverse_get(inverse_flat(place))) - factor * f32(inverse_get(inverse_flat(source)));
    inverse_put(inverse_flat(place), inverse_t(other));
  }
}

fn divide_row(i: u32, k: u32, divisor: f32) {
  for (var column = 0u; column < params.size; column++) {
    let place = inverse_flat(at(i, k, column));
    inverse_put(place, inverse_t(f32(inverse_get(place)) / divisor));
  }
}

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = group_index(group, groups) * GROUP + lane;
  if (i >= params.count) { return; }
  var determinant = 1.0;
  for (var k = 0u; k < params.size; k++) {
    let from_row = pivot_row(i, k);
    if (from_row != k) {
      swap_rows(i, k, from_row);
      determinant = -determinant;
    }
    let pivot = f32(matrix_get(matrix_flat(at(i, k, k))));
    determinant *= pivot;
    // Below the pivot, and above it too if the inverse is wanted; a column of zeros is left as it is.
    for (var row = select(k + 1u, 0u, inverse_present); row < params.size; row++) {
      let value = f32(matrix_get(matrix_flat(at(i, row, k))));
      if (row != k && value != 0.0) { subtract_row(i, k, row, value / pivot); }
    }
  }
  if (inverse_present) {
    for (var k = 0u; k < params.size; k++) { divide_row(i, k, f32(matrix_get(matrix_flat(at(i, k, k))))); }
  }
  if (y_present) { y_put(y_flat(i), y_t(determinant)); }
}
