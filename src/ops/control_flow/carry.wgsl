// What an iteration of a loop hands to the next, or its slice of a stacked result: y = x, or row `iteration` of
// y = x, unless the loop has ended.
//@ in x any
//@ in going int
//@ in iteration int
//@ out y any

struct Params {
  count: u32,  // of x
  stacked: u32,
  rows: u32,  // of y, if stacked
}

const GROUP: u32 = 256u;

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = group_index(group, groups) * GROUP + lane;
  if (i >= params.count || going_at(0u) == 0) { return; }
  let row = select(0u, u32(iteration_at(0u)), params.stacked != 0u);
  if (row >= params.rows) { return; }
  let x_place = x_flat(i);
  let y_place = y_flat(row * params.count + i);
  if (x_has(x_place) && y_has(y_place)) { y_put(y_place, x_get(x_place)); }
}
