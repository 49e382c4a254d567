// Blocks of neighbouring elements, each for one workgroup, and sums over its lanes. A lane has PER_LANE neighbours.
const BLOCK: u32 = 2048u;
const BLOCK_GROUP: u32 = 256u;
const PER_LANE: u32 = 8u;

var<workgroup> block_sums: array<u32, BLOCK_GROUP>;

// The sum of `mine` over the lanes before this one; call it in uniform control flow.
fn sum_before(mine: u32, lane: u32) -> u32 {
  var sum = mine;
  block_sums[lane] = sum;
  for (var step = 1u; step < BLOCK_GROUP; step *= 2u) {
    workgroupBarrier();
    var before = 0u;
    if (lane >= step) { before = block_sums[lane - step]; }
    workgroupBarrier();
    sum += before;
    block_sums[lane] = sum;
  }
  return sum - mine;
}
