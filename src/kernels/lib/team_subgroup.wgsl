// Rows, each computed by a workgroup of the largest subgroup size (see team_serial for what the kernel has). When the
// device runs it as one subgroup, lanes exchange registers; otherwise they merge by the tree of team_workgroup.
enable subgroups;

var<workgroup> team_memory: array<team_t, TEAM>;

fn team_all(mine: team_t, lane: u32, width: u32) -> team_t {
  var all = mine;
  if (width == TEAM) {
    for (var distance = 1u; distance < TEAM; distance *= 2u) { all = merge(all, subgroupShuffleXor(all, distance)); }
    return all;
  }
  team_memory[lane] = mine;
  for (var half = TEAM / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (lane < half) { team_memory[lane] = merge(team_memory[lane], team_memory[lane + half]); }
  }
  all = workgroupUniformLoad(&team_memory[0]);
  workgroupBarrier();
  return all;
}

// What lanes before this one and all lanes have (see team_serial); call it in uniform control flow.
struct TeamScan {
  before: team_t,
  all: team_t,
}

fn team_scan(mine: team_t, none: team_t, lane: u32, width: u32) -> TeamScan {
  var upto = mine;
  if (width == TEAM) {
    for (var step = 1u; step < TEAM; step *= 2u) {
      let other = subgroupShuffleUp(upto, step);
      if (lane >= step) { upto = merge(other, upto); }
    }
    let previous = subgroupShuffleUp(upto, 1u);
    return TeamScan(select(none, previous, lane > 0u), subgroupShuffle(upto, TEAM - 1u));
  }
  team_memory[lane] = mine;
  for (var step = 1u; step < TEAM; step *= 2u) {
    workgroupBarrier();
    var longer = upto;
    if (lane >= step) { longer = merge(team_memory[lane - step], upto); }
    workgroupBarrier();
    upto = longer;
    team_memory[lane] = upto;
  }
  let all = workgroupUniformLoad(&team_memory[TEAM - 1u]);
  var before = none;
  if (lane > 0u) { before = team_memory[lane - 1u]; }
  workgroupBarrier();
  return TeamScan(before, all);
}

@compute @workgroup_size(TEAM)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32, @builtin(subgroup_size) width: u32) {
  let row = params.first + group_index(group, groups);
  if (row < params.end) { row_task(row, lane, width); }
}
