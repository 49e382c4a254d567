// Rows, each computed by a team of invocations: here a team of one. As with the other team_ fragments, the kernel has
//   const TEAM: u32     how many compute a row together
//   alias team_t        what they exchange, and merge(a, b), associative and commutative, to join it
//   fn row_task(row: u32, lane: u32, width: u32)   which passes `lane` and `width` on to team_all
// and Params that begin with `first: u32, end: u32`, the rows of this dispatch. For team_scan, merge need not be
// commutative.
const ROWS_PER_GROUP: u32 = 64u;

fn team_all(mine: team_t, lane: u32, width: u32) -> team_t { return mine; }

// The merged values of the lanes before this one (`none` if there are none), and of all of them.
struct TeamScan {
  before: team_t,
  all: team_t,
}

fn team_scan(mine: team_t, none: team_t, lane: u32, width: u32) -> TeamScan { return TeamScan(none, mine); }

@compute @workgroup_size(ROWS_PER_GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, invocation: Invocation) {
  let row = params.first + group_index(group, groups) * ROWS_PER_GROUP + lane_of(invocation);
  if (row < params.end) { row_task(row, 0u, 1u); }
}
