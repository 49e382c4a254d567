// y[slots[i]] = x[i], or i itself without x, where `mask` is not 0. No two i have the same slot; those beyond y are left out.
//@ in x any
//@ in slots any
//@ in mask any
//@ out y any

struct Params {
  begin: u32,  // the first i of this dispatch
  count: u32,
  room: u32,  // of y
}

const GROUP: u32 = 256u;

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = group_index(group, groups) * GROUP + lane;
  if (i >= params.count) { return; }
  if (mask_present && u32(mask_at(i)) == 0u) { return; }
  let slot = u32(slots_at(i));
  if (slot >= params.room) { return; }
  let to = y_flat(slot);
  if (!y_has(to)) { return; }
  var value = params.begin + i;
  if (x_present) { value = u32(x_at(i)); }
  y_put(to, y_t(value));
}
