// One output `y`, computed element by element: the kernel defines element(i) -> y_t, and its Params begin with
// `first: u32, end: u32`, the elements of this dispatch. An invocation computes those that share a 32-bit word.
const FLAT_GROUP: u32 = 256u;

fn flat_count() -> u32 { return params.end; }

@compute @workgroup_size(FLAT_GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let first = params.first + (group_index(group, groups) * FLAT_GROUP + lane) * y_pack;
  if (first < params.end) { y_store(first); }
}
