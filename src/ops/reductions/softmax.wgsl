// y = softmax (or its logarithm) of rows of x, in f32 whatever the types are. If HELD, a lane keeps that many fours of its
// row in registers, so that each element is read once and its exponential computed once. Else one pass finds the maximum
// and the sum of exp(x - maximum), rescaled where the maximum grows; the other writes.
//@ in x float x4
//@ out y float x4
//@ use team_serial four put_four

const TEAM: u32 = 1u;  //@ spec
const LOG: bool = false;  //@ spec
const FOUR: bool = false;  //@ spec
const HELD: u32 = 0u;  //@ spec

struct Params {
  first: u32,
  end: u32,
  length: u32,
}

alias team_t = vec2f;  // maximum, sum

const LOWEST: f32 = -0x1.fffffep+127;
const SIGN_OFF: vec4u = vec4u(0x7fffffffu);

// The value to subtract as the maximum: rows of -inf (a maximum that is not finite yet) must not make NaN on the way.
fn anchor(maximum: f32) -> f32 { return max(maximum, LOWEST); }

// exp(x) for x <= 0, 0 below 2^-125: nothing overflows, and rows with NaN are known from their maximum. 2^t is taken
// apart into 2^n, added to the exponent's bits, and a polynomial (minimax, 2^-26) of what is left. ROUNDER
// (lib/math/exponentials.wgsl) rounds t to the integer n; the bitwise or hides the sum from compilers, which would undo it.
fn exp_below4(x: vec4f) -> vec4f {
  let t = max(x * LOG2_E, vec4f(-125.0));
  let bits = bitcast<vec4u>(t + ROUNDER) | vec4u(select(0u, 1u, views.group_count == 0u));
  let f = t - (bitcast<vec4f>(bits) - ROUNDER);
  var p = fma(f, vec4f(0.000154697322), vec4f(0.00134100008));
  p = fma(f, p, vec4f(0.00961803086));
  p = fma(f, p, vec4f(0.0555029735));
  p = fma(f, p, vec4f(0.240226507));
  p = fma(f, p, vec4f(0.693147242));
  p = fma(f, p, vec4f(1.0));
  return select(bitcast<vec4f>(bitcast<vec4u>(p) + (bits << vec4u(23u))), vec4f(0.0), t == vec4f(-125.0));
}
fn exp_below(x: f32) -> f32 { return exp_below4(vec4f(x)).x; }

fn merge(a: vec2f, b: vec2f) -> vec2f {
  let maximum = max_nan(a.x, b.x);
  if (HELD > 0u) { return vec2f(maximum, a.y + b.y); }  // there are no sums before the maximum is known
  let to = anchor(maximum);
  return vec2f(maximum, a.y * exp_below(anchor(a.x) - to) + b.y * exp_below(anchor(b.x) - to));
}

fn statistics(base: u32, lane: u32) -> vec2f {
  let end4 = params.length & ~3u;
  var maximum = -infinity();
  var sum = vec4f(0.0);
  var magnitude = vec4u(0u);  // of all elements; more than infinity's: there is a NaN
  let step = 4u * TEAM;
  var j = 4u * lane;
  // Four at a time: a loop costs software devices as much as reading. Written so that nothing overflows.
  for (; j < end4 && end4 - j > 3u * step; j += 4u * step) {
    let a = four(base, j);
    let b = four(base, j + step);
    let c = four(base, j + 2u * step);
    let d = four(base, j + 3u * step);
    magnitude = max(magnitude, max(max(bitcast<vec4u>(a) & SIGN_OFF, bitcast<vec4u>(b) & SIGN_OFF),
                                   max(bitcast<vec4u>(c) & SIGN_OFF, bitcast<vec4u>(d) & SIGN_OFF)));
    let most = max(max(a, b), max(c, d));
    let top = max(max(most.x, most.y), max(most.z, most.w));
    if (top > maximum) {
      sum *= exp_below(anchor(maximum) - anchor(top));
      maximum = top;
    }
    let to = anchor(maximum);
    sum += (exp_below4(a - to) + exp_below4(b - to)) + (exp_below4(c - to) + exp_below4(d - to));
  }
  for (; j < end4; j += step) {
    let v = four(base, j);
    magnitude = max(magnitude, bitcast<vec4u>(v) & SIGN_OFF);
    let top = max(max(v.x, v.y), max(v.z, v.w));
    if (top > maximum) {
      sum *= exp_below(anchor(maximum) - anchor(top));
      maximum = top;
    }
    sum += exp_below4(v - anchor(maximum));
  }
  var all = vec2f(maximum, sum.x + sum.y + sum.z + sum.w);
  if (any(magnitude > vec4u(0x7f800000u))) { all.x = quiet_nan(); }
  for (var k = end4 + lane; k < params.length; k += TEAM) {
    all = merge(all, vec2f(x_get(base + x_step(k)), 1.0));
  }
  return all;
}

// Rows with NaN or +inf, and rows of nothing but -inf, are NaN.
fn result4(v: vec4f, maximum: f32, scale: f32) -> vec4f {
  if (LOG) { return (v - maximum) - scale; }
  return exp_below4(v - maximum) * scale;
}

// The logarithm or the inverse of the sum, or what makes a row NaN.
fn last_term(maximum: f32, sum: f32) -> f32 {
  let finite = (bitcast<u32>(maximum) & 0x7fffffffu) < 0x7f800000u;
  return select(quiet_nan(), select(1.0 / sum, log_f32(sum), LOG), finite);
}

// Rows of whole fours; lanes past the end read the last four again, as -inf.
fn held_row(row: u32, lane: u32, width: u32) {
  let base = x_base(row);
  var held: array<vec4f, max(HELD, 1u)>;
  var magnitude = vec4u(0u);
  var top = vec4f(-infinity());
  for (var i = 0u; i < HELD; i++) {
    let j = 4u * (i * TEAM + lane);
    let v = four(base, min(j, params.length - 4u));
    magnitude = max(magnitude, bitcast<vec4u>(v) & SIGN_OFF);
    held[i] = select(vec4f(-infinity()), v, j < params.length);
    top = max(top, held[i]);
  }
  var mine = max(max(top.x, top.y), max(top.z, top.w));
  if (any(magnitude > vec4u(0x7f800000u))) { mine = quiet_nan(); }
  let most = team_all(vec2f(mine, 0.0), lane, width).x;
  let maximum = anchor(most);
  var sum = vec4f(0.0);
  for (var i = 0u; i < HELD; i++) {
    let e = exp_below4(held[i] - maximum);
    if (!LOG) { held[i] = e; }
    sum += e;
  }
  let last = last_term(most, team_all(vec2f(most, (sum.x + sum.y) + (sum.z + sum.w)), lane, width).y);
  let to = y_base(row);
  for (var i = 0u; i < HELD; i++) {
    let j = 4u * (i * TEAM + lane);
    if (j < params.length) { put_four(to, j, select(held[i] * last, (held[i] - maximum) - last, LOG)); }
  }
}

fn row_task(row: u32, lane: u32, width: u32) {
  if (HELD > 0u) {
    held_row(row, lane, width);
    return;
  }
  let base = x_base(row);
  let all = team_all(statistics(base, lane), lane, width);
  let maximum = anchor(all.x);
  let scale = last_term(all.x, all.y);
  let to = y_base(row);
  let end4 = params.length & ~3u;
  for (var j = 4u * lane; j < end4; j += 4u * TEAM) { put_four(to, j, result4(four(base, j), maximum, scale)); }
  for (var j = end4 + lane; j < params.length; j += TEAM) {
    y_put(to + y_step(j), result4(vec4f(x_get(base + x_step(j))), maximum, scale).x);
  }
}
