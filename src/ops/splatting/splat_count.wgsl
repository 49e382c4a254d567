// y[bin, block] = how many of a block of splats the bin may show.
//@ in boxes float x4
//@ in bounds float
//@ out y any
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
  let end = min((block + 1u) * BLOCK, params.splats);
  var mine = 0u;
  for (var i = block * BLOCK + lane; i < end; i += BLOCK_GROUP) {
    mine += select(0u, 1u, boxes_meet(boxes_get4(boxes_flat(4u * i)), view));
  }
  let sum = sum_before(mine, lane) + mine;
  if (lane == BLOCK_GROUP - 1u) { y_put(y_flat(task), y_t(sum)); }
}
