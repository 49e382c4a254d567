// Pieces that need no others, four neighbours for example: the kernel defines task(i), and its Params begin with
// `first: u32, end: u32`, the pieces of this dispatch. As in lib/flat, an invocation may have several.
@compute @workgroup_size(FLAT_GROUP)
fn main(at: Invocation) {
  let first = params.first + group_index(at.group, at.groups) * (FLAT_GROUP * FLAT_EACH) + lane_of(at);
  for (var k = 0u; k < FLAT_EACH; k++) {
    let i = first + k * FLAT_GROUP;
    if (i < params.end) { task(i); }
  }
}
