// Forward substitution, in place: x becomes the solution of t x = x, for lower triangular matrices t [count, rows, rows] and
// x [count, rows, columns]; UNIT takes the diagonal as ones. An invocation for each column. Upper triangles are lower ones
// in reversed views.
//@ in t float
//@ out x float

const UNIT: bool = false;  //@ spec

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
  let first = i / params.columns * params.rows;
  let x_first = x_base(first) + x_step(i % params.columns);
  let x_next = x_base(first + 1u) - x_base(first);  // modulo 2^32, since rows may run backwards
  for (var row = 0u; row < params.rows; row++) {
    let t_row = t_base(first + row);
    var sum = x_get(x_first + row * x_next);
    for (var k = 0u; k < row; k++) { sum -= t_get(t_row + t_step(k)) * x_get(x_first + k * x_next); }
    if (!UNIT) { sum /= t_get(t_row + t_step(row)); }
    x_put(x_first + row * x_next, sum);
  }
}
