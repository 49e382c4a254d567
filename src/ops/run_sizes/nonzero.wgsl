// One row of the indices of the flags that are set, in order: for each of them its index along one axis. `offsets` has
// the number of flags that are set before each block. Those that y has no room for are left out.
//@ in flags any
//@ in offsets int
//@ out y int
//@ use blocks

struct Params {
  elements: u32,  // flags
  index: u32,     // of the first flag in the whole tensor
  capacity: u32,  // of y
  inner: u32,     // elements after the axis
  length: u32,    // of the axis
}

@compute @workgroup_size(BLOCK_GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let block = group_index(group, groups);
  if (block >= group_count()) { return; }
  let begin = block * BLOCK + lane * PER_LANE;
  let end = min(begin + PER_LANE, params.elements);
  var mine = 0u;
  for (var i = begin; i < end; i++) { mine += u32(flags_at(i)); }
  var next = u32(offsets_at(block)) + sum_before(mine, lane);
  for (var i = begin; i < end; i++) {
    if (u32(flags_at(i)) == 0u) { continue; }
    let place = y_flat(next);
    if (next < params.capacity && y_has(place)) {
      y_put(place, y_t((params.index + i) / params.inner % params.length));
    }
    next++;
  }
}
