// LU factorisation with partial pivoting, in place, of the columns [first, last) of each matrix: LAPACK's getrf on a panel.
// Rows are exchanged over all columns; those to the right of the panel are otherwise left to triangular solves and products.
// A workgroup for each matrix. If the panel fits, it is in workgroup memory meanwhile.
//@ out matrix float
//@ out pivots int
//@ out info int

const GROUP: u32 = 64u;  //@ spec
const ACROSS: u32 = 32u;  //@ spec
const HOLDS: bool = false;  //@ spec
const HELD: u32 = 1u;  //@ spec

struct Params {
  count: u32,
  rows: u32,
  columns: u32,
  first: u32,
  last: u32,
}

const WIDEST: u32 = 64u;  // columns of a panel

var<workgroup> candidate: array<u32, GROUP>;  // the bits of the largest element that each invocation has seen, and its row
var<workgroup> candidate_row: array<u32, GROUP>;
var<workgroup> exchanged: array<u32, WIDEST>;  // with which row each row of the panel was exchanged
var<workgroup> held: array<f32, HELD>;

fn at(i: u32, row: u32, column: u32) -> u32 {
  return matrix_flat((i * params.rows + row) * params.columns + column);
}
// Rows of an odd length: the elements of a column are in different banks.
fn held_at(row: u32, column: u32) -> u32 {
  return (row - params.first) * ((params.last - params.first) | 1u) + column - params.first;
}
fn cell(i: u32, row: u32, column: u32) -> f32 {
  if (HOLDS) { return held[held_at(row, column)]; }
  return matrix_get(at(i, row, column));
}
fn set_cell(i: u32, row: u32, column: u32, value: f32) {
  if (HOLDS) {
    held[held_at(row, column)] = value;
  } else {
    matrix_put(at(i, row, column), value);
  }
}
fn meet() {
  if (!HOLDS) { storageBarrier(); }
  workgroupBarrier();
}

// By bits, so that NaN is larger than everything, and not zero.
fn size_of(bits: u32) -> u32 { return bits & 0x7fffffffu; }

// Finds the largest element of column k from row k on, the first one among equals: its row and bits.
fn find_pivot(i: u32, k: u32, lane: u32) -> vec2u {
  var best = vec2u(k, 0u);
  for (var row = k + lane; row < params.rows; row += GROUP) {
    let bits = bitcast<u32>(cell(i, row, k));
    if (size_of(bits) > size_of(best.y)) { best = vec2u(row, bits); }
  }
  candidate_row[lane] = best.x;
  candidate[lane] = best.y;
  workgroupBarrier();
  best = vec2u(candidate_row[0], candidate[0]);
  for (var other = 1u; other < min(GROUP, params.rows - k); other++) {
    let bits = candidate[other];
    let row = candidate_row[other];
    if (size_of(bits) > size_of(best.y) || (size_of(bits) == size_of(best.y) && row < best.x)) { best = vec2u(row, bits); }
  }
  return best;
}

// Exchanges rows k and `other` of the panel and divides column k by the pivot. A column of zeros stays as it is.
fn exchange_and_divide(i: u32, k: u32, found: vec2u, lane: u32) {
  let other = found.x;
  let pivot = bitcast<f32>(found.y);
  for (var column = params.first + lane; other != k && column < params.last; column += GROUP) {
    if (column == k) { continue; }
    let kept = cell(i, k, column);
    set_cell(i, k, column, cell(i, other, column));
    set_cell(i, other, column, kept);
  }
  for (var row = k + 1u + lane; size_of(found.y) != 0u && row < params.rows; row += GROUP) {
    var value = 0.0;
    if (row == other) {
      value = cell(i, k, k);
      set_cell(i, k, k, pivot);
    } else {
      value = cell(i, row, k);
    }
    set_cell(i, row, k, value / pivot);
  }
}

fn update(i: u32, k: u32, lane: u32) {
  for (var column = k + 1u + lane % ACROSS; column < params.last; column += ACROSS) {
    let above = cell(i, k, column);
    for (var row = k + 1u + lane / ACROSS; row < params.rows; row += GROUP / ACROSS) {
      set_cell(i, row, column, cell(i, row, column) - cell(i, row, k) * above);
    }
  }
}

// The rows of the panel outside of it. Each invocation has columns of its own.
fn exchange_outside(i: u32, lane: u32) {
  for (var column = lane; column < params.columns; column += GROUP) {
    if (column >= params.first && column < params.last) { continue; }
    for (var k = params.first; k < params.last; k++) {
      let other = exchanged[k - params.first];
      if (other == k) { continue; }
      let kept = matrix_get(at(i, k, column));
      matrix_put(at(i, k, column), matrix_get(at(i, other, column)));
      matrix_put(at(i, other, column), kept);
    }
  }
}

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = group_index(group, groups);
  if (i >= params.count) { return; }
  let width = params.last - params.first;
  if (HOLDS) {
    for (var e = lane; e < (params.rows - params.first) * width; e += GROUP) {
      let row = params.first + e / width;
      let column = params.first + e % width;
      held[held_at(row, column)] = matrix_get(at(i, row, column));
    }
    workgroupBarrier();
  }
  var singular = 0u;
  for (var k = params.first; k < params.last; k++) {
    let found = find_pivot(i, k, lane);
    let zero = size_of(found.y) == 0u;
    if (singular == 0u && zero) { singular = k + 1u; }
    if (lane == 0u) {
      exchanged[k - params.first] = found.x;
      pivots_put(pivots_flat(i * min(params.rows, params.columns) + k), i32(found.x + 1u));
    }
    exchange_and_divide(i, k, found, lane);
    meet();
    if (!zero) { update(i, k, lane); }
    meet();
  }
  if (lane == 0u) {
    var before = 0;
    if (params.first != 0u) { before = info_get(info_flat(i)); }
    info_put(info_flat(i), select(before, i32(singular), before == 0));
  }
  exchange_outside(i, lane);
  if (HOLDS) {
    for (var e = lane; e < (params.rows - params.first) * width; e += GROUP) {
      let row = params.first + e / width;
      let column = params.first + e % width;
      matrix_put(at(i, row, column), held[held_at(row, column)]);
    }
  }
}
