// The entry point of kernels on matrix units, which have the function matrix_task(group, lane, subgroup) and the constant
// LANES. Subgroups may be smaller than the kernel expects: those that it has no use for take part in barriers alone.
enable subgroups;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32, @builtin(subgroup_id) subgroup: u32) {
  matrix_task(group_index(group, groups), lane, subgroup);
}
