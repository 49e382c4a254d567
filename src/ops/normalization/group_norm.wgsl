// y = (x - mean) / sqrt(variance + eps) * gamma + beta over rows of x, in which an element's channel is its index divided
// by `run`, or if LAST what remains. Mean and variance come from one walk: those of sixteen elements are joined to those
// before (Chan, Golub, LeVeque 1979). All are differences from the first element of the row, so that a mean of 1e5, which an
// f32 holds to 1/256, costs no digits.
//
// Few long rows are cut into parts of `chunk` elements, so that all of the device has work: one dispatch (PHASE MOMENTS) finds
// the statistics of every part, another (APPLY) joins those of a row and writes its parts. Task t is part t / rows of row
// t % rows.
//@ in x float x4
//@ in gamma float
//@ in beta float
//@ out moments float
//@ out y float x4
//@ use team_serial

const TEAM: u32 = 1u;  //@ spec
const FOUR: bool = false;  //@ spec
const LAST: bool = false;  //@ spec
const PHASE: u32 = 0u;  //@ spec
const WHOLE: u32 = 0u;
const MOMENTS: u32 = 1u;
const APPLY: u32 = 2u;

struct Params {
  first: u32,
  end: u32,
  rows: u32,
  length: u32,
  chunk: u32,  // a multiple of 4, or the length
  run: u32,
  eps: f32,
}

alias team_t = vec4f;  // count, mean, sum of squared differences from it
fn merge(a: vec4f, b: vec4f) -> vec4f {
  let count = a.x + b.x;
  if (count == 0.0) { return a; }
  let part = b.x / count;
  let d = b.y - a.y;
  return vec4f(count, a.y + d * part, a.z + b.z + d * d * (a.x * part), 0.0);
}

struct Row {
  x: u32,
  pivot: f32,
}

// Rounded right there, or x - pivot - mean would become x - (pivot + mean).
fn one(row: Row, j: u32) -> f32 { return as_is(x_get(row.x + x_step(j)) - row.pivot); }

fn four(row: Row, j: u32) -> vec4f {
  if (!FOUR) { return vec4f(one(row, j), one(row, j + 1u), one(row, j + 2u), one(row, j + 3u)); }
  let d = x_get4(row.x + j) - row.pivot;
  return vec4f(as_is(d.x), as_is(d.y), as_is(d.z), as_is(d.w));
}

fn total(v: vec4f) -> f32 { return (v.x + v.y) + (v.z + v.w); }

fn statistics(row: Row, begin: u32, end: u32, lane: u32) -> vec4f {
  let end4 = end & ~3u;
  let step = 4u * TEAM;
  var all = vec4f();
  var j = begin + 4u * lane;
  // Written so that nothing overflows: j + 3 steps < end4.
  while (j < end4 && end4 - j > 3u * step) {
    let a = four(row, j);
    let b = four(row, j + step);
    let c = four(row, j + 2u * step);
    let d = four(row, j + 3u * step);
    let mean = total((a + b) + (c + d)) / 16.0;
    let squares = (a - mean) * (a - mean) + (b - mean) * (b - mean) + (c - mean) * (c - mean) + (d - mean) * (d - mean);
    all = merge(all, vec4f(16.0, mean, total(squares), 0.0));
    j += 4u * step;
  }
  for (; j < end4; j += step) {
    let a = four(row, j);
    let mean = total(a) / 4.0;
    all = merge(all, vec4f(4.0, mean, total((a - mean) * (a - mean)), 0.0));
  }
  for (var k = end4 + lane; k < end; k += TEAM) { all = merge(all, vec4f(1.0, one(row, k), 0.0, 0.0)); }
  return all;
}

// The place of an element in its run, and which run that is. It goes on without a division.
struct Place {
  run: u32,
  within: u32,
}
fn place(j: u32) -> Place { return Place(j / params.run, j % params.run); }
fn ahead(p: Place, by: Place) -> Place {
  let within = p.within + by.within;
  if (within < params.run) { return Place(p.run + by.run, within); }
  return Place(p.run + by.run + 1u, within - params.run);
}

// A factor and what is then added, for the differences from the pivot.
fn terms(row: u32, p: Place, scale: f32) -> vec2f {
  let channel = select(p.run, p.within, LAST);
  var factor = scale;
  if (gamma_present) { factor *= gamma_get(gamma_base(row) + gamma_step(channel)); }
  return vec2f(factor, beta_get(beta_base(row) + beta_step(channel)));
}

// What MOMENTS leaves of a part: count, mean, sum of squares, and the row's pivot, so that APPLY reads no element of x that
// another invocation may have written over.
fn put_moments(task: u32, v: vec4f) {
  for (var i = 0u; i < 4u; i++) { moments_put(moments_flat(4u * task + i), v[i]); }
}
fn moment(task: u32, i: u32) -> f32 { return moments_get(moments_flat(4u * task + i)); }
fn joined_moments(index: u32) -> vec4f {
  var all = vec4f();
  for (var task = index; task < params.end; task += params.rows) {
    all = merge(all, vec4f(moment(task, 0u), moment(task, 1u), moment(task, 2u), 0.0));
  }
  return all;
}

fn row_task(task: u32, lane: u32, width: u32) {
  let part = task / params.rows;
  let index = task - part * params.rows;
  let begin = part * params.chunk;
  let end = min(params.length, begin + params.chunk);
  var row = Row(x_base(index), 0.0);
  var all: vec4f;
  if (PHASE == APPLY) {
    row.pivot = moment(index, 3u);
    all = joined_moments(index);
  } else {
    row.pivot = x_get(row.x + x_step(0u));
    all = team_all(statistics(row, begin, end, lane), lane, width);
  }
  if (PHASE == MOMENTS) {
    if (lane == 0u) { put_moments(task, vec4f(all.xyz, row.pivot)); }
    return;
  }
  let mean = all.y;
  let scale = 1.0 / sqrt(all.z / f32(params.length) + params.eps);
  let to = y_base(index);
  let end4 = end & ~3u;
  let step = place(4u * TEAM);
  let next = place(1u);
  var p = place(begin + 4u * lane);
  for (var j = begin + 4u * lane; j < end4; j += 4u * TEAM) {
    let d = four(row, j) - mean;
    let p1 = ahead(p, next);
    let p2 = ahead(p1, next);
    let p3 = ahead(p2, next);
    let t = terms(index, p, scale);
    var factor = vec4f(t.x);
    var shift = vec4f(t.y);
    if (LAST || p3.run != p.run) {
      let t1 = terms(index, p1, scale);
      let t2 = terms(index, p2, scale);
      let t3 = terms(index, p3, scale);
      factor = vec4f(t.x, t1.x, t2.x, t3.x);
      shift = vec4f(t.y, t1.y, t2.y, t3.y);
    }
    let v = fma(d, factor, shift);
    if (FOUR) {
      y_put4(to + j, v);
    } else {
      y_put(to + y_step(j), v.x);
      y_put(to + y_step(j + 1u), v.y);
      y_put(to + y_step(j + 2u), v.z);
      y_put(to + y_step(j + 3u), v.w);
    }
    p = ahead(p, step);
  }
  for (var j = end4 + lane; j < end; j += TEAM) {
    let t = terms(index, place(j), scale);
    y_put(to + y_step(j), fma(one(row, j) - mean, t.x, t.y));
  }
}
