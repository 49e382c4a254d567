// Cholesky factorisation, in place, of the rows and columns [first, last) of each matrix, of which only the lower triangle is
// read and written: LAPACK's potrf on a block. A workgroup for each matrix, with the block in workgroup memory.
//@ out matrix float
//@ out info int

const GROUP: u32 = 64u;  //@ spec
const HELD: u32 = 1056u;  //@ spec

struct Params {
  count: u32,
  size: u32,
  first: u32,
  last: u32,
}

var<workgroup> held: array<f32, HELD>;

fn at(i: u32, row: u32, column: u32) -> u32 {
  return matrix_flat((i * params.size + params.first + row) * params.size + params.first + column);
}
// Rows of an odd length: the elements of a column are in different banks.
fn held_at(row: u32, column: u32) -> u32 { return row * ((params.last - params.first) | 1u) + column; }

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = group_index(group, groups);
  if (i >= params.count) { return; }
  let size = params.last - params.first;
  for (var e = lane; e < size * size; e += GROUP) {
    if (e % size <= e / size) { held[held_at(e / size, e % size)] = matrix_get(at(i, e / size, e % size)); }
  }
  workgroupBarrier();
  var failed = 0u;
  for (var k = 0u; k < size; k++) {
    // The diagonal keeps the squares until all have read them.
    let square = held[held_at(k, k)];
    if (failed == 0u && !(square > 0.0 && !is_nan(square))) { failed = params.first + k + 1u; }
    let root = sqrt(square);
    for (var row = k + 1u + lane; row < size; row += GROUP) { held[held_at(row, k)] /= root; }
    workgroupBarrier();
    for (var row = k + 1u + lane; row < size; row += GROUP) {
      let factor = held[held_at(row, k)];
      for (var column = k + 1u; column <= row; column++) {
        held[held_at(row, column)] -= factor * held[held_at(column, k)];
      }
    }
    workgroupBarrier();
  }
  for (var e = lane; e < size * size; e += GROUP) {
    let row = e / size;
    let column = e % size;
    if (column > row) { continue; }
    let value = held[held_at(row, column)];
    matrix_put(at(i, row, column), select(value, sqrt(value), column == row));
  }
  if (lane == 0u) {
    var before = 0;
    if (params.first != 0u) { before = info_get(info_flat(i)); }
    info_put(info_flat(i), select(before, i32(failed), before == 0));
  }
}
