// y = (s - mean) / sqrt(variance + eps) * gamma + beta over rows of s = x + residual + bias, each sum rounded, or, for the
// root-mean-square norm, s / sqrt(mean(s^2) + eps) * gamma + beta; an absent gamma is 1. The mean comes first,
// then the squares of the differences from it: one pass with E[s^2] - mean^2 loses all digits where the mean is large.
// An f32 holds a mean of 1e5 only to 1/256, and a sum over a row is worse: the mean of the differences is its error.
//@ in x float x4
//@ in residual float x4
//@ in bias float x4
//@ in gamma float x4
//@ in beta float x4
//@ out y float x4
//@ out total float x4
//@ use team_serial

const TEAM: u32 = 1u;  //@ spec
const CENTERED: bool = true;  //@ spec
const ROUNDED: u32 = 0u;  //@ spec          the type that sums are rounded to (held_as)
const FOUR: bool = false;  //@ spec

struct Params {
  first: u32,
  end: u32,
  length: u32,
  eps: f32,
}

alias team_t = vec2f;
fn merge(a: vec2f, b: vec2f) -> vec2f { return a + b; }

// The mean is pivot + rest; for the root-mean-square norm both are 0.
struct Mean {
  pivot: f32,
  rest: f32,
}
// Both differences are rounded right there, or they would become s - (pivot + rest).
fn centered(s: f32, mean: Mean) -> f32 {
  if (!CENTERED) { return s; }
  return as_is(s - mean.pivot) - mean.rest;
}

struct Row {
  x: u32,
  residual: u32,
}

fn one(row: Row, j: u32) -> f32 {
  var s = x_get(row.x + x_step(j));
  if (residual_present) { s = held_as(ROUNDED, s + residual_get(row.residual + residual_step(j))); }
  if (bias_present) { s = held_as(ROUNDED, s + bias_get(bias_step(j))); }
  return s;
}

fn rounded4(v: vec4f) -> vec4f {
  return vec4f(held_as(ROUNDED, v.x), held_as(ROUNDED, v.y), held_as(ROUNDED, v.z), held_as(ROUNDED, v.w));
}

fn four(row: Row, j: u32) -> vec4f {
  if (!FOUR) { return vec4f(one(row, j), one(row, j + 1u), one(row, j + 2u), one(row, j + 3u)); }
  var s = x_get4(row.x + j);
  if (residual_present) { s = rounded4(s + residual_get4(row.residual + j)); }
  if (bias_present) { s = rounded4(s + bias_get4(j)); }
  return s;
}

fn sum_of(row: Row, lane: u32) -> f32 {
  let end4 = params.length & ~3u;
  var sum = vec4f(0.0);
  for (var j = 4u * lane; j < end4; j += 4u * TEAM) { sum += four(row, j); }
  var all = (sum.x + sum.y) + (sum.z + sum.w);
  for (var j = end4 + lane; j < params.length; j += TEAM) { all += one(row, j); }
  return all;
}

// The sum of the differences from the pivot, and that of their squares.
fn sums_of_differences(row: Row, pivot: f32, lane: u32) -> vec2f {
  let end4 = params.length & ~3u;
  var sum = vec4f(0.0);
  var squares = vec4f(0.0);
  for (var j = 4u * lane; j < end4; j += 4u * TEAM) {
    let d = four(row, j) - pivot;
    if (CENTERED) { sum += d; }
    squares += d * d;
  }
  var all = vec2f((sum.x + sum.y) + (sum.z + sum.w), (squares.x + squares.y) + (squares.z + squares.w));
  for (var j = end4 + lane; j < params.length; j += TEAM) {
    let d = one(row, j) - pivot;
    all += vec2f(d, d * d);
  }
  return all;
}

fn put_one(row: u32, to: u32, j: u32, s: f32, mean: Mean, scale: f32) {
  if (total_present) { total_put(total_base(row) + total_step(j), s); }
  var factor = 1.0;
  if (gamma_present) { factor = gamma_get(gamma_step(j)); }
  y_put(to + y_step(j), fma(centered(s, mean) * scale, factor, beta_get(beta_step(j))));
}

fn row_task(index: u32, lane: u32, width: u32) {
  let row = Row(x_base(index), residual_base(index));
  let count = f32(params.length);
  var mean = Mean(0.0, 0.0);
  if (CENTERED) { mean.pivot = team_all(vec2f(sum_of(row, lane), 0.0), lane, width).x / count; }
  let sums = team_all(sums_of_differences(row, mean.pivot, lane), lane, width) / count;
  var variance = sums.y;
  if (CENTERED) {
    mean.rest = sums.x;
    let shifted = sums.y - sums.x * sums.x;
    variance = select(shifted, 0.0, shifted < 0.0);  // NaN stays
  }
  let scale = 1.0 / sqrt(variance + params.eps);
  let to = y_base(index);
  let end4 = params.length & ~3u;
  for (var j = 4u * lane; j < end4; j += 4u * TEAM) {
    let s = four(row, j);
    if (FOUR) {
      if (total_present) { total_put4(total_base(index) + j, s); }
      let d = vec4f(centered(s.x, mean), centered(s.y, mean), centered(s.z, mean), centered(s.w, mean));
      var factor = vec4f(1.0);
      if (gamma_present) { factor = gamma_get4(j); }
      y_put4(to + j, fma(d * scale, factor, beta_get4(j)));
    } else {
      put_one(index, to, j, s.x, mean, scale);
      put_one(index, to, j + 1u, s.y, mean, scale);
      put_one(index, to, j + 2u, s.z, mean, scale);
      put_one(index, to, j + 3u, s.w, mean, scale);
    }
  }
  for (var j = end4 + lane; j < params.length; j += TEAM) { put_one(index, to, j, one(row, j), mean, scale); }
}
