// y[row, block, d] = the sum of exp(x) over those elements of the row's block whose keys have the digits of `state` and
// then d. Keys are the bits of -x for x <= 0, so that the most probable come first; a digit is four bits. A block is every
// `blocks`-th element, so that neighbouring invocations read neighbours.
//@ in x float
//@ in state any
//@ out y float
//@ use team_serial

const TEAM: u32 = 1u;  //@ spec
const FIRST: bool = false;  //@ spec
const DIGITS: u32 = 16u;

struct Params {
  first: u32,
  end: u32,
  blocks: u32,  // of each row, as far as this dispatch has them
  length: u32,
  shift: u32,  // of keys, to the digit
}

fn row_task(task: u32, lane: u32, width: u32) {
  let row = task / params.blocks;
  let block = task - row * params.blocks;
  var prefix = 0u;
  if (!FIRST) { prefix = u32(state_get(state_base(row))); }
  let base = x_base(row);
  var sums = array<f32, DIGITS>();
  for (var j = block; j < params.length; j += params.blocks) {
    let value = x_get(base + x_step(j));
    let digits = magnitude_bits(value) >> params.shift;
    if (digits / DIGITS == prefix) { sums[digits % DIGITS] += exp_f32(value); }
  }
  for (var d = 0u; d < DIGITS; d++) { y_put(y_base(row) + y_step(block * DIGITS + d), sums[d]); }
}
