// y[row, digit, block] = how many ranks of the block have this digit, four bits of the rank. A block is what a team
// walks, `share` neighbours for each member.
//@ in x any
//@ out y any
//@ use team_serial digits

const TEAM: u32 = 1u;  //@ spec

struct Params {
  first: u32,
  end: u32,
  blocks: u32,  // of each row
  length: u32,
  share: u32,
  shift: u32,  // to the digit
}

alias team_t = vec4u;

fn merge(a: vec4u, b: vec4u) -> vec4u { return a + b; }

fn row_task(task: u32, lane: u32, width: u32) {
  let row = task / params.blocks;
  let block = task - row * params.blocks;
  let base = x_base(row);
  let begin = (block * TEAM + lane) * params.share;
  let end = min(begin + params.share, params.length);
  var counts = Counts();
  for (var j = begin; j < end; j++) { counts[digit_of(u32(x_get(base + x_step(j))))]++; }
  if (TEAM > 1u) {
    counts = unpacked_counts(team_all(packed_counts(counts, 0u), lane, width),
                             team_all(packed_counts(counts, 8u), lane, width));
  }
  for (var d = lane; d < DIGITS; d += TEAM) {
    y_put(y_base(row) + y_step(d * params.blocks + block), y_t(counts[d]));
  }
}
