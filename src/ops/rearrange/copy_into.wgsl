// A part of y, any view of it, = x: an invocation for each element of x. Perhaps the same of another pair.
//@ in x any
//@ out y any
//@ in other_x any
//@ out other_y any

struct Params {
  count: u32,
  other_count: u32,
}

const GROUP: u32 = 256u;

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = group_index(group, groups) * GROUP + lane;
  if (i < params.count) {
    let x_place = x_flat(i);
    let y_place = y_flat(i);
    if (x_has(x_place) && y_has(y_place)) { y_put(y_place, x_get(x_place)); }
  }
  if (other_y_present && i < params.other_count) { other_y_put(other_y_flat(i), other_x_get(other_x_flat(i))); }
}
