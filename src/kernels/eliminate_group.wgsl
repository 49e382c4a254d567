// Gaussian elimination with pivots of matrices that are lost on the way: y becomes the determinants. With INVERT the
// matrices become their inverses in place, since each eliminated column makes room for one of the inverse. A workgroup for
// each matrix.
//@ out matrix any
//@ out swaps any
//@ out y any

const GROUP: u32 = 64u;  //@ spec
const ACROSS: u32 = 64u;  //@ spec
const INVERT: bool = false;  //@ spec

struct Params {
  count: u32,
  size: u32,
}

const BLOCK: u32 = 1024u;  // rows whose factors are shared at a time

var<workgroup> largest: array<f32, GROUP>;  // of the candidates that each invocation has seen, and where
var<workgroup> largest_row: array<u32, GROUP>;
var<workgroup> factors: array<f32, BLOCK>;

fn at(i: u32, row: u32, column: u32) -> u32 { return matrix_flat((i * params.size + row) * params.size + column); }

// The row of the largest element from row k down in column k, the first one among equals. Every invocation finds it.
fn pivot_row(i: u32, k: u32, lane: u32) -> u32 {
  var most = -1.0;
  var found = k;
  for (var row = k + lane; row < params.size; row += GROUP) {
    let size = abs(f32(matrix_get(at(i, row, k))));
    if (size > most) {
      most = size;
      found = row;
    }
  }
  largest[lane] = most;
  largest_row[lane] = found;
  workgroupBarrier();
  most = largest[0];
  found = largest_row[0];
  for (var other = 1u; other < min(GROUP, params.size - k); other++) {
    let size = largest[other];
    if (size > most || (size == most && largest_row[other] < found)) {
      most = size;
      found = largest_row[other];
    }
  }
  return found;
}

fn swap_rows(i: u32, a: u32, b: u32, lane: u32) {
  for (var column = lane; column < params.size; column += GROUP) {
    let kept = matrix_get(at(i, a, column));
    matrix_put(at(i, a, column), matrix_get(at(i, b, column)));
    matrix_put(at(i, b, column), kept);
  }
}

// Subtracts multiples of row k from the others, or from those below it. Column k holds the factors until then; of the
// inverse, it then begins as a column of the identity.
fn eliminate(i: u32, k: u32, pivot: f32, lane: u32) {
  let top = select(k + 1u, 0u, INVERT);
  for (var block = top; block < params.size; block += BLOCK) {
    let end = min(block + BLOCK, params.size);
    for (var row = block + lane; row < end; row += GROUP) {
      let value = f32(matrix_get(at(i, row, k)));
      factors[row - block] = select(value / pivot, select(value, 0.0, row == k), INVERT);
    }
    workgroupBarrier();
    for (var column = top + lane % ACROSS; column < params.size; column += ACROSS) {
      let source = f32(matrix_get(at(i, k, column)));
      for (var row = block + lane / ACROSS; row < end; row += GROUP / ACROSS) {
        let factor = factors[row - block];
        let place = at(i, row, column);
        if (INVERT) {
          if (row == k) { continue; }
          let value = select(f32(matrix_get(place)), 0.0, column == k);
          matrix_put(place, matrix_t(value - factor * source));
        } else if (factor != 0.0) {
          matrix_put(place, matrix_t(f32(matrix_get(place)) - factor * source));
        }
      }
    }
    storageBarrier();
    workgroupBarrier();
  }
}

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = group_index(group, groups);
  if (i >= params.count) { return; }
  var determinant = 1.0;
  for (var k = 0u; k < params.size; k++) {
    let from_row = pivot_row(i, k, lane);
    if (from_row != k) {
      swap_rows(i, k, from_row, lane);
      determinant = -determinant;
    }
    if (INVERT && lane == 0u) { swaps_put(swaps_flat(i * params.size + k), swaps_t(from_row)); }
    storageBarrier();
    workgroupBarrier();
    let pivot = f32(matrix_get(at(i, k, k)));
    determinant *= pivot;
    if (INVERT) {
      workgroupBarrier();  // all have read the pivot
      for (var column = lane; column < params.size; column += GROUP) {
        let value = select(f32(matrix_get(at(i, k, column))), 1.0, column == k);
        matrix_put(at(i, k, column), matrix_t(value / pivot));
      }
      storageBarrier();
      workgroupBarrier();
    }
    eliminate(i, k, pivot, lane);
  }
  if (y_present && lane == 0u) { y_put(y_flat(i), y_t(determinant)); }
  if (!INVERT) { return; }
  // Rows that were exchanged are columns of the inverse, and change back in reverse order.
  for (var k = params.size; k > 0u; k--) {
    let other = u32(swaps_get(swaps_flat(i * params.size + k - 1u)));
    for (var row = lane; other != k - 1u && row < params.size; row += GROUP) {
      let kept = matrix_get(at(i, row, k - 1u));
      matrix_put(at(i, row, k - 1u), matrix_get(at(i, row, other)));
      matrix_put(at(i, row, other), kept);
    }
  }
}
