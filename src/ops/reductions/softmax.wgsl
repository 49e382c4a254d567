// y = softmax (or its logarithm) of rows of x. One pass finds the maximum and the sum of exp(x - maximum), rescaled
// where the maximum grows; the other writes. In f32 whatever the types are.
//@ in x float x4
//@ out y float x4
//@ use team_serial four put_four

const TEAM: u32 = 1u;  //@ spec
const LOG: bool = false;  //@ spec
const FOUR: bool = false;  //@ spec

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
  let to = anchor(maximum);
  return vec2f(maximum, a.y * exp_below(anchor(a.x) - to) + b.y * exp_below(anchor(b.x) - to));
}

fn statistics(base: u32, lane: u32) -> vec2f {
  let end4 = params.length & ~3u;
  var maximum = -infinity();
  var sum = vec4f(0.0);
  var magnitude = vec4u(0u);  // of all elements; more than infinity's: there is a NaN
  for (var j = 4u * lane; j < end4; j += 4u * TEAM) {
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
  for (var j = end4 + lane; j < params.length; j += TEAM) {
    all = merge(all, vec2f(x_get(base + x_step(j)), 1.0));
  }
  return all;
}

// Rows with NaN or +inf, and rows of nothing but -inf, are NaN.
fn result4(v: vec4f, maximum: f32, scale: f32) -> vec4f {
  if (LOG) { return (v - maximum) - scale; }
  return exp_below4(v - maximum) * scale;
}

fn row_task(row: u32, lane: u32, width: u32) {
  let base = x_base(row);
  let all = team_all(statistics(base, lane), lane, width);
  let maximum = anchor(all.x);
  let finite = (bitcast<u32>(all.x) & 0x7fffffffu) < 0x7f800000u;
  let scale = select(quiet_nan(), select(1.0 / all.y, log_f32(all.y), LOG), finite);
  let to = y_base(row);
  let end4 = params.length & ~3u;
  for (var j = 4u * lane; j < end4; j += 4u * TEAM) { put_four(to, j, result4(four(base, j), maximum, scale)); }
  for (var j = end4 + lane; j < params.length; j += TEAM) {
    y_put(to + y_step(j), result4(vec4f(x_get(base + x_step(j))), maximum, scale).x);
  }
}
