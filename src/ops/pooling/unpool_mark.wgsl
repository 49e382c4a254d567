// source[p] = the last element of x whose index is p. Elements lie in planes of `plane` elements, and those of plane k
// have their indices counted from k * shift on; an index outside [0, limit) counts for nothing.
//@ in indices int
//@ out source int atomic

struct Params {
  count: u32,
  plane: u32,
  shift: u32,
  limit: u32,
}

const GROUP: u32 = 256u;

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = group_index(group, groups) * GROUP + lane;
  if (i >= params.count) { return; }
  let at = indices_flat(i);
  if (!indices_has(at)) { return; }
  let index = u32(indices_get(at));  // a negative one becomes a large number
  if (index >= params.limit) { return; }
  let p = i / params.plane * params.shift + index;
  if (source_has(p)) { source_max(p, i32(i)); }
}
