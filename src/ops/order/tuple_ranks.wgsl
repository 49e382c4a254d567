// Columns of tuples become parts: the rank of a tuple in column c is its part c % parts in column c / parts of y.
//@ in ranks any
//@ in order any
//@ out y any

struct Params {
  count: u32,  // of all columns
  tuples: u32,  // of a column
  parts: u32,  // of a tuple of y
}

const GROUP: u32 = 64u;

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let g = group_index(group, groups) * GROUP + lane;
  if (g >= params.count) { return; }
  let c = g / params.tuples;
  let tuple = u32(order_at(g));
  y_put(y_flat((c / params.parts * params.tuples + tuple) * params.parts + c % params.parts), y_t(ranks_at(g)));
}
