// What a state keeps in one step, e^x, mostly of x <= 0: e^-inf is 0, and NaN stays. Within 2^-23 (1 + |x|) of the value,
// which is as much as a state notices: where x is large, little is kept, and less than 2^-126 is about as little. 2^t is taken
// apart into 2^n, added to the exponent's bits, and a polynomial (minimax, 2^-26) of what is left; t = -127 and t = 128 then
// give the bits of 0 and of infinity. Comparisons keep NaN, which clamp may drop. Adding 1.5 * 2^23 rounds t to the integer n,
// which is then in the low bits; the bitwise or hides the sum from compilers, which would undo it.
const DECAY_ROUNDER: f32 = 12582912.0;
fn decay4(x: vec4f) -> vec4f {
  let scaled = x * LOG2_E;
  let capped = select(scaled, vec4f(128.0), scaled > vec4f(128.0));
  let t = select(capped, vec4f(-127.0), capped < vec4f(-127.0));
  let bits = bitcast<vec4u>(t + DECAY_ROUNDER) | vec4u(select(0u, 1u, views.group_count == 0u));
  let f = t - (bitcast<vec4f>(bits) - DECAY_ROUNDER);
  var p = fma(f, vec4f(0.000154697322), vec4f(0.00134100008));
  p = fma(f, p, vec4f(0.00961803086));
  p = fma(f, p, vec4f(0.0555029735));
  p = fma(f, p, vec4f(0.240226507));
  p = fma(f, p, vec4f(0.693147242));
  p = fma(f, p, vec4f(1.0));
  return bitcast<vec4f>(bitcast<vec4u>(p) + (bits << vec4u(23u)));
}
fn decay(x: f32) -> f32 { return decay4(vec4f(x)).x; }
