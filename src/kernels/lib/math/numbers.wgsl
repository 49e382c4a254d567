// Scalar functions, with errors of a few units in the last place on any device: WGSL lets its own exp, tanh
// or atan be wrong by tens or thousands of them, and promises nothing for sin of more than pi.
//
// Rules for this code:
// - Polynomials are minimax fits (Remez exchange on the relative error of the whole function). Fit and
//   rounded coefficients together are wrong by less than 2^-25.5, a sixth of a unit.
// - fma() may be fused or not, so a product that must be exact has factors of few bits.
// - Compilers reassociate: lavapipe turns (x - n * high) - n * low into x - (n * high + n * low), which loses
//   34 units in exp(-72). An intermediate result that must be rounded right there goes through as_is().
// - NaN is found by its bits and selected at the end: min, max and comparisons may drop it.
// - What models call most has no early returns, which would make all that follows conditional: software devices compute
//   that under masks. A rare case that costs much is an `if` at the end, which is skipped where no lane has it.

// ---- parts of numbers ----

const LN2: f32 = 0.693147182;
const LN2_HIGH: f32 = 0.693145751953125;  // 15 bits: exact when multiplied with an exponent
const LN2_LOW: f32 = 1.42860677e-6;
const LOG2_E: f32 = 1.44269502;
const PI: f32 = 3.14159274;
const PI_LOW: f32 = -8.74227766e-8;  // pi - PI
const HALF_PI: f32 = 1.57079637;
const HALF_PI_LOW: f32 = -4.37113883e-8;
const SQRT_2: f32 = 1.41421354;

fn magnitude_bits(x: f32) -> u32 { return bitcast<u32>(x) & 0x7fffffffu; }
fn is_negative(x: f32) -> bool { return bitcast<u32>(x) >= 0x80000000u; }  // also -0
fn with_sign_of(magnitude: f32, sign: f32) -> f32 {
  return bitcast<f32>(magnitude_bits(magnitude) | (bitcast<u32>(sign) & 0x80000000u));
}

// x, but opaque to the compiler, which does not know that group_count is never 0.
fn as_is(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) | select(0u, 1u, views.group_count == 0u)); }

fn complex_as_is(z: vec2f) -> vec2f { return vec2f(as_is(z.x), as_is(z.y)); }

// The leading 12 of the 24 bits: products of two such numbers are exact, and so is x - leading_half(x).
fn leading_half(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) & 0xfffff000u); }

// a * b as a sum of two numbers (T. J. Dekker 1971, with a mask for the split): every step below is exact.
fn exact_product(a: f32, b: f32) -> vec2f {
  let ah = leading_half(a);
  let bh = leading_half(b);
  let al = a - ah;
  let bl = b - bh;
  let p = as_is(a * b);
  return vec2f(p, fma(al, bl, as_is(fma(al, bh, as_is(fma(ah, bl, as_is(fma(ah, bh, -p))))))));
}

fn power_of_two(n: i32) -> f32 { return bitcast<f32>(bitcast<u32>(n + 127) << 23u); }
// x * 2^n for x in [0.5, 2) and |n| <= 252: in two steps, since one power of two cannot reach that far.
fn scale_by_power(x: f32, n: i32) -> f32 {
  let half = n >> 1u;
  return x * power_of_two(half) * power_of_two(n - half);
}

// Steps at 0, on whose right side subnormals are even if the device takes them for 0.
fn is_subnormal(x: f32) -> bool { return magnitude_bits(x) - 1u < 0x007fffffu; }
fn sign_f32(x: f32) -> f32 { return select(with_sign_of(1.0, x), x, is_nan(x) || magnitude_bits(x) == 0u); }
fn floor_f32(x: f32) -> f32 { return select(floor(x), with_sign_of(select(0.0, 1.0, is_negative(x)), x), is_subnormal(x)); }
fn ceil_f32(x: f32) -> f32 { return select(ceil(x), with_sign_of(select(1.0, 0.0, is_negative(x)), x), is_subnormal(x)); }
fn square_f32(x: f32) -> f32 { return x * x; }
fn sqrt_f32(x: f32) -> f32 { return select(sqrt(x), quiet_nan(), x < 0.0); }
fn rsqrt_f32(x: f32) -> f32 { return select(inverseSqrt(x), quiet_nan(), x < 0.0); }

// ---- comparisons ----

// Numbers in the order of the floats, by their bits: devices may take subnormals for 0 where they compare floats. Both
// zeros are 0.
fn place_in_order(x: f32) -> i32 {
  let bits = bitcast<i32>(x);
  return select(bits, (-2147483647 - 1) - bits, bits < 0);
}
fn ordered(a: f32, b: f32) -> bool { return !is_nan(a) && !is_nan(b); }
fn eq_f32(a: f32, b: f32) -> bool { return ordered(a, b) && place_in_order(a) == place_in_order(b); }
fn lt_f32(a: f32, b: f32) -> bool { return ordered(a, b) && place_in_order(a) < place_in_order(b); }
fn le_f32(a: f32, b: f32) -> bool { return ordered(a, b) && place_in_order(a) <= place_in_order(b); }
