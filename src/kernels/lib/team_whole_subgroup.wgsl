// Rows, each computed by a workgroup that is one subgroup (see team_serial for what the kernel has): for devices whose
// subgroups all have TEAM invocations. A workgroup may have several rows, one after the other. There are no barriers, for
// which a CPU would keep what it knows of each invocation in memory.
enable subgroups;

fn team_all(mine: team_t, lane: u32, width: u32) -> team_t {
  var all = mine;
  for (var distance = 1u; distance < TEAM; distance *= 2u) { all = merge(all, subgroupShuffleXor(all, distance)); }
  return all;
}

// What lanes before this one and all lanes have (see team_serial); call it in uniform control flow.
struct TeamScan {
  before: team_t,
  all: team_t,
}

fn team_scan(mine: team_t, none: team_t, lane: u32, width: u32) -> TeamScan {
  var upto = mine;
  for (var step = 1u; step < TEAM; step *= 2u) {
    let other = subgroupShuffleUp(upto, step);
    if (lane >= step) { upto = merge(other, upto); }
  }
  let previous = subgroupShuffleUp(upto, 1u);
  return TeamScan(select(none, previous, lane > 0u), subgroupShuffle(upto, TEAM - 1u));
}

@compute @workgroup_size(TEAM)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(subgroup_invocation_id) lane: u32) {
  let first = group_index(group, groups);
  // The grid is a box and may have more workgroups, which have no row. They do not return at once: in a shader that may,
  // lavapipe (Mesa 26.1) exchanges wrong values.
  let begin = select(params.end, params.first + first, first < group_count());
  for (var row = begin; row < params.end; row += group_count()) { row_task(row, lane, TEAM); }
}
