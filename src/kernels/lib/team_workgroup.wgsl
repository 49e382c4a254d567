// Rows, each computed by a workgroup (see team_serial for what the kernel has): a tree in workgroup memory.
var<workgroup> team_memory: array<team_t, TEAM>;

// The merged values of all lanes, returned to each; call it in uniform control flow.
fn team_all(mine: team_t, lane: u32, width: u32) -> team_t {
  team_memory[lane] = mine;
  for (var half = TEAM / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (lane < half) { team_memory[lane] = merge(team_memory[lane], team_memory[lane + half]); }
  }
  workgroupBarrier();
  let all = team_memory[0];
  workgroupBarrier();  // the memory may be written again
  return all;
}

@compute @workgroup_size(TEAM)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let row = params.first + group_index(group, groups);
  if (row < params.end) { row_task(row, lane, 1u); }
}
