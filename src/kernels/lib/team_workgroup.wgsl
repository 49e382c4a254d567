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

// What lanes before this one and all lanes have (see team_serial); call it in uniform control flow.
struct TeamScan {
  before: team_t,
  all: team_t,
}

fn team_scan(mine: team_t, none: team_t, lane: u32, width: u32) -> TeamScan {
  var upto = mine;
  team_memory[lane] = mine;
  for (var step = 1u; step < TEAM; step *= 2u) {
    workgroupBarrier();
    var longer = upto;
    if (lane >= step) { longer = merge(team_memory[lane - step], upto); }
    workgroupBarrier();
    upto = longer;
    team_memory[lane] = upto;
  }
  workgroupBarrier();
  let all = team_memory[TEAM - 1u];
  var before = none;
  if (lane > 0u) { before = team_memory[lane - 1u]; }
  workgroupBarrier();  // the memory may be written again
  return TeamScan(before, all);
}

@compute @workgroup_size(TEAM)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, invocation: Invocation) {
  let row = params.first + group_index(group, groups);
  if (row < params.end) { row_task(row, lane_of(invocation), 1u); }
}
