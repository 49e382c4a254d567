// The rows of x [count, rows, columns] in the order in which the pivots of an LU factorisation put them, in place. An
// invocation for each column. Where `info` says that the matrix is singular, x becomes NaN.
//@ in pivots int
//@ in info int
//@ out x float

struct Params {
  count: u32,
  rows: u32,
  columns: u32,
}

const GROUP: u32 = 64u;

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = group_index(group, groups) * GROUP + lane;
  if (i >= params.count * params.columns) { return; }
  let matrix = i / params.columns;
  let column = i % params.columns;
  let singular = info_at(matrix) != 0;
  for (var row = 0u; row < params.rows; row++) {
    let here = x_flat((matrix * params.rows + row) * params.columns + column);
    let other = u32(pivots_at(matrix * params.rows + row) - 1);
    let there = x_flat((matrix * params.rows + other) * params.columns + column);
    let kept = x_get(here);
    x_put(here, select(x_get(there), quiet_nan(), singular));
    if (other != row) { x_put(there, kept); }
  }
}
