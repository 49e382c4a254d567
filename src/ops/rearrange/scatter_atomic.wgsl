// y[slots[u], k] = what is there, joined with updates[u, k]: any order gives the same bits, except for sums of floats. For
// extremes, floats have become integers of the same order (scatter_keys).
//@ in slots any
//@ in updates any
//@ out y any atomic
//@ out overflow int atomic
const KIND: u32 = 0u;  //@ spec
const ADD: u32 = 0u;
const MAX: u32 = 1u;

struct Params {
  count: u32,  // of its updates
  inner: u32,  // elements of a slice
}

const GROUP: u32 = 256u;

fn left_range() { overflow_max(0u, 1); }

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = group_index(group, groups) * GROUP + lane;
  if (i >= params.count) { return; }
  var u = i;
  if (params.inner > 1u) { u = i / params.inner; }  // divisions take long
  let to = y_flat(u32(slots_at(u)) * params.inner + (i - u * params.inner));
  if (!y_has(to)) { return; }
  let v = y_t(updates_at(i));
  if (KIND == ADD) {
    let was = y_add(to, v);
    if (overflow_present) { _ = add_i64(i32(was), i32(v)); }
  } else if (KIND == MAX) {
    y_max(to, v);
  } else {
    y_min(to, v);
  }
}
