// y[i] = 1 if x[skip + i] begins a run of equal elements, else 0. With skip = 1, x begins with the element before.
//@ in x any
//@ out y any

struct Params {
  count: u32,
  skip: u32,
}

const GROUP: u32 = 256u;

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = group_index(group, groups) * GROUP + lane;
  if (i >= params.count) { return; }
  let at = i + params.skip;
  y_put(y_flat(i), y_t(at == 0u || x_at(max(at, 1u) - 1u) != x_at(at)));
}
