// Determinants from LU factorisations: the product of the diagonal, negated for each exchange of rows.
//@ in lu float
//@ in pivots int
//@ out y float

struct Params {
  count: u32,
  size: u32,
}

const GROUP: u32 = 64u;

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = group_index(group, groups) * GROUP + lane;
  if (i >= params.count) { return; }
  var det = 1.0;
  for (var k = 0u; k < params.size; k++) {
    let value = lu_at((i * params.size + k) * params.size + k);
    det *= select(value, -value, pivots_at(i * params.size + k) != i32(k + 1u));
  }
  y_put(y_flat(i), det);
}
