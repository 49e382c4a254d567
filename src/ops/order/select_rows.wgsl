// The first few elements of each row of ranks in ascending order, by their indices; of equal ranks the smaller index comes
// first. One invocation for each row, which keeps the best so far in order.
//@ in x any
//@ out y any

const KEPT: u32 = 8u;  //@ spec

struct Params {
  first: u32,
  end: u32,
  length: u32,
}

const GROUP: u32 = 64u;

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let row = params.first + group_index(group, groups) * GROUP + lane;
  if (row >= params.end) { return; }
  let base = x_base(row);
  var ranks = array<u32, KEPT>();
  var indices = array<u32, KEPT>();
  for (var k = 0u; k < KEPT; k++) { ranks[k] = 0xffffffffu; }
  var count = 0u;
  for (var j = 0u; j < params.length; j++) {
    let rank = u32(x_get(base + x_step(j)));
    if (count == KEPT && rank >= ranks[KEPT - 1u]) { continue; }
    var k = min(count, KEPT - 1u);
    while (k > 0u && rank < ranks[max(k, 1u) - 1u]) {
      ranks[k] = ranks[k - 1u];
      indices[k] = indices[k - 1u];
      k--;
    }
    ranks[k] = rank;
    indices[k] = j;
    count = min(count + 1u, KEPT);
  }
  for (var k = 0u; k < KEPT; k++) { y_put(y_base(row) + y_step(k), y_t(indices[k])); }
}
