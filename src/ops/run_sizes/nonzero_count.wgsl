// y[b] = the sum of block b of x, whose elements are flags or counts.
//@ in x any
//@ out y int
//@ use blocks

struct Params {
  elements: u32,
}

@compute @workgroup_size(BLOCK_GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let block = group_index(group, groups);
  if (block >= group_count()) { return; }
  let end = min((block + 1u) * BLOCK, params.elements);
  var mine = 0u;
  for (var i = block * BLOCK + lane; i < end; i += BLOCK_GROUP) { mine += u32(x_at(i)); }
  let sum = sum_before(mine, lane) + mine;
  if (lane == BLOCK_GROUP - 1u) { y_put(y_flat(block), y_t(sum)); }
}
