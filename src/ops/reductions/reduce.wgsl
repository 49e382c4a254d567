// y = the reduction of rows of x. A row can be cut into parts of `chunk` elements: task t is part t / rows of row
// t % rows, so that neighbouring tasks work on neighbouring rows of the same part (columns are read side by side).
//@ in x any x4
//@ out y any
//@ out overflow int atomic
//@ use team_serial row_of_x four merge

const TEAM: u32 = 1u;  //@ spec
const KIND: u32 = 0u;  //@ spec
const FLOAT: bool = true;  //@ spec
const MEAN: bool = false;  //@ spec
const FOUR: bool = false;  //@ spec
const SUM: u32 = 0u;
const MAX: u32 = 1u;
const MIN: u32 = 2u;
const PROD: u32 = 3u;

struct Params {
  first: u32,
  end: u32,
  rows: u32,
  length: u32,
  chunk: u32,  // a multiple of 4 if there are several parts
  identity: u32,  // the bits of the result of an empty row
  count: f32,  // what a mean divides by
}

alias team_t = x_t;

fn left_range() { overflow_max(0u, 1); }

fn merge4(a: vec4<x_t>, b: vec4<x_t>) -> vec4<x_t> {
  if (KIND == SUM && !overflow_present) { return a + b; }
  return vec4<x_t>(merge(a.x, b.x), merge(a.y, b.y), merge(a.z, b.z), merge(a.w, b.w));
}

fn result(sum: x_t) -> y_t {
  if (MEAN) { return y_t(select(f32(sum) / params.count, quiet_nan(), params.count == 0.0)); }
  return y_t(sum);
}

fn row_task(task: u32, lane: u32, width: u32) {
  let part = task / params.rows;
  let base = row_start(task - part * params.rows);
  let begin = part * params.chunk;
  let end = min(params.length, begin + params.chunk);
  let end4 = end & ~3u;
  let identity = bitcast<x_t>(params.identity);
  var sum4 = vec4<x_t>(identity);
  let step = 4u * TEAM;
  var j = begin + 4u * lane;
  // Four at a time: a loop costs software devices as much as reading. Written so that nothing overflows.
  for (; j < end4 && end4 - j > 3u * step; j += 4u * step) {
    let a = merge4(four(base, j), four(base, j + step));
    let b = merge4(four(base, j + 2u * step), four(base, j + 3u * step));
    sum4 = merge4(sum4, merge4(a, b));
  }
  for (; j < end4; j += step) { sum4 = merge4(sum4, four(base, j)); }
  var sum = merge(merge(sum4.x, sum4.y), merge(sum4.z, sum4.w));
  for (var k = end4 + lane; k < end; k += TEAM) { sum = merge(sum, one(base, k)); }
  sum = team_all(sum, lane, width);
  if (lane == 0u) { y_put(y_base(task), result(sum)); }
}
