// One output `y`, computed element by element: the kernel defines element(i) -> y_t, and its Params begin with
// `first: u32, end: u32`, the elements of this dispatch. An invocation computes those that share a 32-bit word, of
// several words on some devices (FLAT_EACH); its neighbours have the neighbouring words.
fn flat_count() -> u32 { return params.end; }

@compute @workgroup_size(FLAT_GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, invocation: Invocation) {
  let first = group_index(group, groups) * (FLAT_GROUP * FLAT_EACH) + lane_of(invocation);
  for (var k = 0u; k < FLAT_EACH; k++) {
    let i = params.first + (first + k * FLAT_GROUP) * y_pack;
    if (i < params.end) { y_store(i); }
  }
}
