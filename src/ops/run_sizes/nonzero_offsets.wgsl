// y[i] = the sum of all x before i, where `base` has the sum of all blocks before each block of x. Without `base` there
// is one block, whose sum becomes `total`.
//@ in x int
//@ in base int
//@ out y int
//@ out total int
//@ use blocks

struct Params {
  elements: u32,
}

@compute @workgroup_size(BLOCK_GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let block = group_index(group, groups);
  if (block >= group_count()) { return; }
  let begin = block * BLOCK + lane * PER_LANE;
  let end = min(begin + PER_LANE, params.elements);
  var mine = 0u;
  for (var i = begin; i < end; i++) { mine += u32(x_at(i)); }
  var sum = sum_before(mine, lane);
  if (base_present) {
    sum += u32(base_at(block));
  } else if (lane == BLOCK_GROUP - 1u) {
    total_put(total_flat(0u), total_t(sum + mine));
  }
  for (var i = begin; i < end; i++) {
    y_put(y_flat(i), y_t(sum));
    sum += u32(x_at(i));
  }
}
