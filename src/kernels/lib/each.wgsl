// Pieces that need no others, four neighbours for example: the kernel defines task(i), and its Params begin with
// `first: u32, end: u32`, the pieces of this dispatch. As in lib/flat, an invocation may have several.
@compute @workgroup_size(FLAT_GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, invocation: Invocation) {
  let first = params.first + group_index(group, groups) * (FLAT_GROUP * FLAT_EACH) + lane_of(invocation);
  for (var k = 0u; k < FLAT_EACH; k++) {
    let i = first + k * FLAT_GROUP;
    if (i < params.end) { task(i); }
  }
}
