// lists[bin] = the splats that a bin may show, in order, and how many there are. `before` has the number of them before
// each block (see splat_count).
//@ in boxes float x4
//@ in bounds float
//@ in before any
//@ out lists int
//@ out counts int
//@ use blocks splat_boxes

struct Params {
  splats: u32,
  blocks: u32,
}

@compute @workgroup_size(BLOCK_GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let task = group_index(group, groups);
  if (task >= group_count()) { return; }
  let bin = task / params.blocks;
  let block = task - bin * params.blocks;
  let view = vec4f(bounds_at(4u * bin), bounds_at(4u * bin + 1u), bounds_at(4u * bin + 2u), bounds_at(4u * bin + 3u));
  let begin = block * BLOCK + lane * PER_LANE;
  var found = 0u;
  for (var j = 0u; j < PER_LANE; j++) {
    let i = begin + j;
    if (i < params.splats && boxes_meet(boxes_get4(boxes_flat(4u * i)), view)) { found |= 1u << j; }
  }
  var next = u32(before_at(task)) + sum_before(countOneBits(found), lane);
  for (var j = 0u; j < PER_LANE; j++) {
    if (((found >> j) & 1u) == 0u) { continue; }
    lists_put(lists_flat(bin * params.splats + next), lists_t(begin + j));
    next++;
  }
  if (block == params.blocks - 1u && lane == BLOCK_GROUP - 1u) { counts_put(counts_flat(bin), counts_t(next)); }
}
