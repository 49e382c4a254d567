// As lib/matrix_main, with subgroups of WIDTH invocations, on devices that have several sizes.
enable subgroups;
enable subgroup_size_control;

@compute @workgroup_size(LANES) @subgroup_size(WIDTH)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32, @builtin(subgroup_id) subgroup: u32) {
  matrix_task(group_index(group, groups), lane, subgroup);
}
