// y[j] = x[0] to x[j] of a row merged, or all before x[j] if EXCLUSIVE. A row can be cut into parts of `chunk` elements:
// task t is part t / rows of row t % rows. `base` has what comes before each task, and `total` becomes what comes before
// the next one.
//@ in x any x4
//@ in base any
//@ out y any x4
//@ out total any
//@ out overflow int atomic
//@ use team_serial four merge put_four

const TEAM: u32 = 1u;  //@ spec
const KIND: u32 = 0u;  //@ spec
const FLOAT: bool = true;  //@ spec
const EXCLUSIVE: bool = false;  //@ spec
const FOUR: bool = false;  //@ spec
const SUM: u32 = 0u;
const PROD: u32 = 1u;
const MAX: u32 = 2u;
const MIN: u32 = 3u;

struct Params {
  first: u32,
  end: u32,
  rows: u32,
  length: u32,
  chunk: u32,  // a multiple of 4 if there are several parts
  identity: u32,  // bits of what changes nothing
}

alias team_t = x_t;

fn left_range() { overflow_max(0u, 1); }

fn value_at(base: u32, j: u32, end: u32) -> x_t {
  if (j >= end) { return bitcast<x_t>(params.identity); }
  return x_get(base + x_step(j));
}

fn values(base: u32, j: u32, end: u32) -> vec4<x_t> {
  if (j + 4u <= end) { return four(base, j); }
  return vec4<x_t>(value_at(base, j, end), value_at(base, j + 1u, end), value_at(base, j + 2u, end),
                   value_at(base, j + 3u, end));
}

fn put_values(base: u32, j: u32, end: u32, v: vec4<y_t>) {
  if (j + 4u <= end) {
    put_four(base, j, v);
    return;
  }
  if (j < end) { y_put(base + y_step(j), v.x); }
  if (j + 1u < end) { y_put(base + y_step(j + 1u), v.y); }
  if (j + 2u < end) { y_put(base + y_step(j + 2u), v.z); }
}

fn row_task(task: u32, lane: u32, width: u32) {
  let part = task / params.rows;
  let row = task - part * params.rows;
  let begin = part * params.chunk;
  let end = min(params.length, begin + params.chunk);
  let none = bitcast<x_t>(params.identity);
  var before = none;
  if (base_present) { before = x_t(base_get(base_base(task))); }
  for (var tile = begin; tile < end; tile += 4u * TEAM) {
    let j = tile + 4u * lane;
    let v = values(x_base(row), j, end);
    let two = merge(v.x, v.y);
    let three = merge(two, v.z);
    let mine = merge(three, v.w);
    let team = team_scan(mine, none, lane, width);
    let start = merge(before, team.before);
    before = merge(before, team.all);
    if (!y_present) { continue; }
    let a = merge(start, v.x);
    let b = merge(start, two);
    let c = merge(start, three);
    if (EXCLUSIVE) {
      put_values(y_base(row), j, end, vec4<y_t>(vec4<x_t>(start, a, b, c)));
    } else {
      put_values(y_base(row), j, end, vec4<y_t>(vec4<x_t>(a, b, c, merge(start, mine))));
    }
  }
  if (lane != 0u) { return; }
  if (total_present) { total_put(total_base(task), total_t(before)); }
}
