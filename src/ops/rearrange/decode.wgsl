// y = x, four neighbours per invocation: for views whose fours lie in one group.
//@ in x encoded x4
//@ out y float x4
const GROUP: u32 = 256u;

struct Params {
  count: u32,
}

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = 4u * (group_index(group, groups) * GROUP + lane);
  if (i < params.count) { y_put4(y_flat(i), x_get4(x_flat(i))); }
}
