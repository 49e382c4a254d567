// A part of y, any view of it, = x: an invocation for each element of x.
//@ in x any
//@ out y any

struct Params {
  first: u32,
  end: u32,
}

const GROUP: u32 = 256u;

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = params.first + group_index(group, groups) * GROUP + lane;
  if (i >= params.end) { return; }
  let x_place = x_flat(i);
  let y_place = y_flat(i);
  if (x_has(x_place) && y_has(y_place)) { y_put(y_place, x_get(x_place)); }
}
