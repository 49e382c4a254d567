// y[slots[i]] = the largest such i; y holds -1 at first.
//@ in slots any
//@ out y int atomic

struct Params {
  begin: u32,  // the first i of this dispatch
  count: u32,
}

const GROUP: u32 = 256u;

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = group_index(group, groups) * GROUP + lane;
  if (i >= params.count) { return; }
  let to = y_flat(u32(slots_at(i)));
  if (y_has(to)) { y_max(to, i32(params.begin + i)); }
}
