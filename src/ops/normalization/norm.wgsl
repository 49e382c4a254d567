// y = (s - mean) / sqrt(variance + eps) * gamma + beta over rows of s = x + residual + bias, each sum rounded, then clamped to
// [-limit, limit], or, for the root-mean-square norm, s / sqrt(mean(s^2) + eps) * gamma + beta; an absent gamma is 1. The mean
// comes first, then the squares of the differences from it: one pass with E[s^2] - mean^2 loses all digits where the mean is
// large. An f32 holds a mean of 1e5 only to 1/256, and a sum over a row is worse: the mean of the differences is its error.
// If HELD, a lane keeps that many fours of its row in registers, so that each is read once.
//@ in x float x4
//@ in residual float x4
//@ in bias float x4
//@ in gamma float x4
//@ in beta float x4
//@ in limit float
//@ out y float x4
//@ out total float x4
//@ use team_serial

const TEAM: u32 = 1u;  //@ spec
const CENTERED: bool = true;  //@ spec
const ROUNDED: u32 = 0u;  //@ spec          the type that sums are rounded to (held_as)
const SCALED: u32 = 0u;  //@ spec          the same of what gamma is multiplied with, and the product
const CENTER: u32 = 0u;  //@ spec          the same of the mean, and of the differences from it
const EACH: u32 = 0u;  //@ spec          the same of squares and all that becomes of them
const FOUR: bool = false;  //@ spec
const HELD: u32 = 0u;  //@ spec

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
  if (CENTER != 0u) { return difference(s, mean.pivot); }
  return as_is(s - mean.pivot) - mean.rest;
}
fn difference(s: f32, pivot: f32) -> f32 { return held_as(CENTER, s - pivot); }
fn differences(s: vec4f, pivot: f32) -> vec4f {
  let d = s - pivot;
  return vec4f(held_as(CENTER, d.x), held_as(CENTER, d.y), held_as(CENTER, d.z), held_as(CENTER, d.w));
}
fn squares_of(d: vec4f) -> vec4f {
  let s = d * d;
  return vec4f(held_as(EACH, s.x), held_as(EACH, s.y), held_as(EACH, s.z), held_as(EACH, s.w));
}

struct Row {
  x: u32,
  residual: u32,
}

fn limited(s: f32) -> f32 {
  if (!limit_present) { return s; }
  let most = held_as(ROUNDED, limit_get(limit_flat(0u)));
  return select(clamp(s, -most, most), s, is_nan(s));
}

fn one(row: Row, j: u32) -> f32 {
  var s = x_get(row.x + x_step(j));
  if (residual_present) { s = held_as(ROUNDED, s + residual_get(row.residual + residual_step(j))); }
  if (bias_present) { s = held_as(ROUNDED, s + bias_get(bias_step(j))); }
  return limited(s);
}

fn rounded4(v: vec4f) -> vec4f {
  return vec4f(held_as(ROUNDED, v.x), held_as(ROUNDED, v.y), held_as(ROUNDED, v.z), held_as(ROUNDED, v.w));
}

fn four(row: Row, j: u32) -> vec4f {
  if (!FOUR) { return vec4f(one(row, j), one(row, j + 1u), one(row, j + 2u), one(row, j + 3u)); }
  var s = x_get4(row.x + j);
  if (residual_present) { s = rounded4(s + residual_get4(row.residual + j)); }
  if (bias_present) { s = rounded4(s + bias_get4(j)); }
  if (limit_present) { s = vec4f(limited(s.x), limited(s.y), limited(s.z), limited(s.w)); }
  return s;
}

fn total_of(v: vec4f) -> f32 { return (v.x + v.y) + (v.z + v.w); }

fn sum_of(row: Row, lane: u32) -> f32 {
  let end4 = params.length & ~3u;
  var sum = vec4f(0.0);
  for (var j = 4u * lane; j < end4; j += 4u * TEAM) { sum += four(row, j); }
  var all = total_of(sum);
  for (var j = end4 + lane; j < params.length; j += TEAM) { all += one(row, j); }
  return all;
}

// The sum of the differences from the pivot, and that of their squares.
fn sums_of_differences(row: Row, pivot: f32, lane: u32) -> vec2f {
  let end4 = params.length & ~3u;
  var sum = vec4f(0.0);
  var squares = vec4f(0.0);
  for (var j = 4u * lane; j < end4; j += 4u * TEAM) {
    let d = differences(four(row, j), pivot);
    if (CENTERED) { sum += d; }
    squares += squares_of(d);
  }
  var all = vec2f(total_of(sum), total_of(squares));
  for (var j = end4 + lane; j < params.length; j += TEAM) {
    let d = difference(one(row, j), pivot);
    all += vec2f(d, held_as(EACH, d * d));
  }
  return all;
}

fn scaled(d: f32, factor: f32, shift: f32) -> f32 {
  if (SCALED == 0u) { return fma(d, factor, shift); }
  return held_as(SCALED, held_as(SCALED, d) * factor) + shift;
}
fn scaled4(d: vec4f, factor: vec4f, shift: vec4f) -> vec4f {
  if (SCALED == 0u) { return fma(d, factor, shift); }
  return vec4f(scaled(d.x, factor.x, shift.x), scaled(d.y, factor.y, shift.y), scaled(d.z, factor.z, shift.z),
               scaled(d.w, factor.w, shift.w));
}

fn put_one(row: u32, to: u32, j: u32, s: f32, mean: Mean, scale: f32) {
  if (total_present) { total_put(total_base(row) + total_step(j), s); }
  var factor = 1.0;
  if (gamma_present) { factor = gamma_get(gamma_step(j)); }
  y_put(to + y_step(j), scaled(normalised(centered(s, mean), scale), factor, beta_get(beta_step(j))));
}

fn put_four(row: u32, to: u32, j: u32, s: vec4f, mean: Mean, scale: f32) {
  if (FOUR) {
    if (total_present) { total_put4(total_base(row) + j, s); }
    let d = vec4f(centered(s.x, mean), centered(s.y, mean), centered(s.z, mean), centered(s.w, mean));
    var factor = vec4f(1.0);
    if (gamma_present) { factor = gamma_get4(j); }
    y_put4(to + j, scaled4(normalised4(d, scale), factor, beta_get4(j)));
  } else {
    put_one(row, to, j, s.x, mean, scale);
    put_one(row, to, j + 1u, s.y, mean, scale);
    put_one(row, to, j + 2u, s.z, mean, scale);
    put_one(row, to, j + 3u, s.w, mean, scale);
  }
}

// What gamma is multiplied with. Where each step is rounded, `scale` is what a layer norm divides by.
fn normalised(d: f32, scale: f32) -> f32 { return select(d * scale, d / scale, CENTERED && EACH != 0u); }
fn normalised4(d: vec4f, scale: f32) -> vec4f { return select(d * scale, d / scale, CENTERED && EACH != 0u); }

// The mean and the factor of a row, of the pivot and the means of the differences from it and of their squares.
fn finished(pivot: f32, means: vec2f) -> Mean {
  if (!CENTERED) { return Mean(0.0, 0.0); }
  return Mean(pivot, means.x);
}
fn factor_of(means: vec2f) -> f32 {
  if (EACH != 0u) {
    let root = held_as(EACH, sqrt(held_as(EACH, held_as(EACH, means.y) + params.eps)));
    return select(held_as(EACH, 1.0 / root), root, CENTERED);
  }
  let shifted = means.y - means.x * means.x;
  let variance = select(means.y, select(shifted, 0.0, shifted < 0.0), CENTERED && CENTER == 0u);  // NaN stays
  return 1.0 / sqrt(variance + params.eps);
}

// Rows of whole fours; lanes past the end read the last four again, and have zeros.
fn held_row(index: u32, lane: u32, width: u32) {
  let row = Row(x_base(index), residual_base(index));
  let count = f32(params.length);
  var held: array<vec4f, max(HELD, 1u)>;
  var sum = vec4f(0.0);
  for (var i = 0u; i < HELD; i++) {
    let j = 4u * (i * TEAM + lane);
    held[i] = select(vec4f(0.0), four(row, min(j, params.length - 4u)), j < params.length);
    sum += held[i];
  }
  var pivot = 0.0;
  if (CENTERED) { pivot = held_as(CENTER, team_all(vec2f(total_of(sum), 0.0), lane, width).x / count); }
  sum = vec4f(0.0);
  var squares = vec4f(0.0);
  for (var i = 0u; i < HELD; i++) {
    let d = select(vec4f(0.0), differences(held[i], pivot), 4u * (i * TEAM + lane) < params.length);
    sum += d;
    squares += squares_of(d);
  }
  let means = team_all(vec2f(total_of(sum), total_of(squares)), lane, width) / count;
  let mean = finished(pivot, means);
  let scale = factor_of(means);
  let to = y_base(index);
  for (var i = 0u; i < HELD; i++) {
    let j = 4u * (i * TEAM + lane);
    if (j < params.length) { put_four(index, to, j, held[i], mean, scale); }
  }
}

fn row_task(index: u32, lane: u32, width: u32) {
  if (HELD > 0u) {
    held_row(index, lane, width);
    return;
  }
  let row = Row(x_base(index), residual_base(index));
  let count = f32(params.length);
  var pivot = 0.0;
  if (CENTERED) { pivot = held_as(CENTER, team_all(vec2f(sum_of(row, lane), 0.0), lane, width).x / count); }
  let means = team_all(sums_of_differences(row, pivot, lane), lane, width) / count;
  let mean = finished(pivot, means);
  let scale = factor_of(means);
  let to = y_base(index);
  let end4 = params.length & ~3u;
  for (var j = 4u * lane; j < end4; j += 4u * TEAM) { put_four(index, to, j, four(row, j), mean, scale); }
  for (var j = end4 + lane; j < params.length; j += TEAM) { put_one(index, to, j, one(row, j), mean, scale); }
}
