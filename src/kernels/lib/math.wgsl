// Scalar functions, with errors of a few units in the last place on any device: WGSL lets its own exp, tanh
// or atan be wrong by tens or thousands of them, and promises nothing for sin of more than pi.
//
// Rules that the text obeys:
// - Polynomials are minimax fits (Remez exchange on the relative error of the whole function). Fit and
//   rounded coefficients together are wrong by less than 2^-25.5, a sixth of a unit.
// - fma() may be fused or not, so a product that must be exact has factors of few bits.
// - Compilers reassociate: lavapipe makes (x - n * high) - n * low into x - (n * high + n * low), which loses
//   34 units in exp(-72). An intermediate result that must be rounded where it stands goes through as_is().
// - NaN is found by its bits and returned at once: min, max and comparisons may drop it.

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

// x, from which the compiler can not look back: it does not know that there is always a workgroup.
fn as_is(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) | select(0u, 1u, views.group_count == 0u)); }

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

// x * 2^n for x in [0.5, 2) and |n| <= 252: in two steps, since one power of two can not reach that far.
fn power_of_two(n: i32) -> f32 { return bitcast<f32>(bitcast<u32>(n + 127) << 23u); }
fn scale_by_power(x: f32, n: i32) -> f32 {
  let half = n >> 1u;
  return x * power_of_two(half) * power_of_two(n - half);
}

fn sign_f32(x: f32) -> f32 { return select(sign(x), x, is_nan(x)); }
fn square_f32(x: f32) -> f32 { return x * x; }
fn sqrt_f32(x: f32) -> f32 { return select(sqrt(x), quiet_nan(), x < 0.0); }
fn rsqrt_f32(x: f32) -> f32 { return select(inverseSqrt(x), quiet_nan(), x < 0.0); }

// ---- comparisons ----

fn ordered(a: f32, b: f32) -> bool { return !is_nan(a) && !is_nan(b); }
fn eq_f32(a: f32, b: f32) -> bool { return ordered(a, b) && a == b; }
fn lt_f32(a: f32, b: f32) -> bool { return ordered(a, b) && a < b; }
fn le_f32(a: f32, b: f32) -> bool { return ordered(a, b) && a <= b; }

// ---- integers ----

// Functions, since a divisor or a shift that is a literal is checked when the module is compiled.
// WGSL defines x / 0 = x, x % 0 = 0 and INT_MIN / -1 = INT_MIN.
fn div_i32(a: i32, b: i32) -> i32 { return a / b; }
fn div_u32(a: u32, b: u32) -> u32 { return a / b; }
fn rem_i32(a: i32, b: i32) -> i32 { return a % b; }
fn rem_u32(a: u32, b: u32) -> u32 { return a % b; }
fn mod_i32(a: i32, b: i32) -> i32 {
  let r = a % b;
  return select(r, r + b, r != 0 && (r < 0) != (b < 0));
}
fn square_i32(x: i32) -> i32 { return x * x; }
fn square_u32(x: u32) -> u32 { return x * x; }

fn pow_u32(base: u32, exponent: u32) -> u32 {
  var result = 1u;
  var square = base;
  for (var e = exponent; e != 0u; e >>= 1u) {
    if ((e & 1u) != 0u) { result *= square; }
    square *= square;
  }
  return result;
}
fn pow_i32(base: i32, exponent: i32) -> i32 {
  if (exponent >= 0) { return bitcast<i32>(pow_u32(bitcast<u32>(base), bitcast<u32>(exponent))); }
  if (base == -1) { return select(1, -1, (exponent & 1) != 0); }
  return select(0, 1, base == 1);
}

fn shift_left_u32(a: u32, n: u32) -> u32 { return select(0u, a << (n & 31u), n < 32u); }
fn shift_left_i32(a: i32, n: i32) -> i32 {
  return bitcast<i32>(shift_left_u32(bitcast<u32>(a), bitcast<u32>(n)));
}
fn shift_right_u32(a: u32, n: u32) -> u32 { return select(0u, a >> (n & 31u), n < 32u); }
fn shift_right_i32(a: i32, n: i32) -> i32 { return a >> min(bitcast<u32>(n), 31u); }

// The upper 32 bits of a 64-bit product.
fn multiply_high(a: u32, b: u32) -> u32 {
  let a0 = a & 0xffffu;
  let a1 = a >> 16u;
  let b0 = b & 0xffffu;
  let b1 = b >> 16u;
  let middle = a1 * b0 + ((a0 * b0) >> 16u);
  let middle_low = a0 * b1 + (middle & 0xffffu);
  return a1 * b1 + (middle >> 16u) + (middle_low >> 16u);
}

// ---- remainders: exact, by long division of the mantissas ----

fn fmod_f32(x: f32, y: f32) -> f32 {
  let ax = magnitude_bits(x);
  let ay = magnitude_bits(y);
  if (ax >= 0x7f800000u || ay > 0x7f800000u || ay == 0u) { return quiet_nan(); }
  if (ax < ay) { return x; }
  let exponent = max(ay >> 23u, 1u);
  let divisor = (ay & 0x7fffffu) | select(0u, 0x800000u, ay >= 0x800000u);
  var rest = ((ax & 0x7fffffu) | select(0u, 0x800000u, ax >= 0x800000u)) % divisor;
  for (var left = max(ax >> 23u, 1u) - exponent; left > 0u && rest != 0u; left -= min(left, 8u)) {
    rest = (rest << min(left, 8u)) % divisor;
  }
  let shift = min(countLeadingZeros(rest) - 8u, exponent - 1u);  // rest = 0 gives zero in any case
  let mantissa = rest << (shift & 31u);
  let bits = (mantissa & 0x7fffffu) | select(0u, (exponent - shift) << 23u, mantissa >= 0x800000u);
  return with_sign_of(bitcast<f32>(bits), x);
}

fn mod_f32(x: f32, y: f32) -> f32 {
  let r = fmod_f32(x, y);
  if (is_nan(r)) { return r; }
  if (magnitude_bits(r) == 0u) { return with_sign_of(0.0, y); }
  return select(r, r + y, is_negative(r) != is_negative(y));
}

// ---- exponentials ----

// e^r - 1 for |r| <= ln(2) / 2.
fn expm1_small(r: f32) -> f32 {
  let q = fma(fma(fma(fma(0.00138143532, r, 0.00836883765), r, 0.0416684002), r, 0.166665196), r, 0.49999994);
  return fma(r * r, q, r);
}

// What is left of x when n times ln 2 is taken from it.
fn less_ln2(x: f32, n: f32) -> f32 { return fma(n, -LN2_LOW, as_is(fma(n, -LN2_HIGH, x))); }

// e^(high + low) * 2^k for |high| <= 140, |low| <= 1/64 and |k| <= 32. The low part is what lets a caller
// keep the last bits of a large argument.
fn exp_sum(high: f32, low: f32, k: i32) -> f32 {
  let n = round(high * LOG2_E);
  return scale_by_power(1.0 + expm1_small(less_ln2(high, n) + low), i32(n) + k);
}

fn exp_f32(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  if (x > 88.7228394) { return infinity(); }
  return exp_sum(max(x, -104.0), 0.0, 0);
}

fn exp2_f32(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  if (x >= 128.0) { return infinity(); }
  let clamped = max(x, -150.0);
  let n = round(clamped);
  return scale_by_power(1.0 + expm1_small((clamped - n) * LN2), i32(n));
}

fn expm1_f32(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  if (x > 40.0) { return exp_f32(x); }
  let clamped = max(x, -30.0);
  let n = round(clamped * LOG2_E);
  let scale = power_of_two(i32(n));
  let value = fma(scale, expm1_small(less_ln2(clamped, n)), as_is(scale - 1.0));
  return select(value, x, magnitude_bits(x) < 0x33000000u);  // below 2^-25
}

// ---- logarithms ----

// ln((1 + f) * 2^k) for 1 + f in [sqrt(1/2), sqrt(2)].
fn log_parts(f: f32, k: f32) -> f32 {
  var p = fma(f, 0.0674663708, -0.116756171);
  p = fma(f, fma(f, fma(f, p, 0.118881524), -0.124056071), 0.142195582);
  p = fma(f, fma(f, fma(f, fma(f, p, -0.166679934), 0.200021178), -0.250000089), 0.333333135);
  let square = f * f;
  return fma(k, LN2_HIGH, f + fma(k, LN2_LOW, fma(f * square, p, -0.5 * square)));
}

// The k for which a positive x / 2^k is in [sqrt(1/2), sqrt(2)).
fn near_one_exponent(x: f32) -> i32 { return (bitcast<i32>(x) - 0x3f3504f3) >> 23u; }

// A positive normal number as f and k with x = (1 + f) * 2^k.
fn near_one(x: f32) -> vec2f {
  let k = near_one_exponent(x);
  return vec2f(bitcast<f32>(bitcast<i32>(x) - (k << 23u)) - 1.0, f32(k));
}

// What log and log2 give for zero, negative numbers, infinity and NaN.
fn log_special(x: f32) -> f32 {
  if (magnitude_bits(x) == 0u) { return -infinity(); }
  return select(x, quiet_nan(), is_negative(x));
}
fn log_is_special(x: f32) -> bool { return bitcast<u32>(x) - 1u >= 0x7f7fffffu; }

fn log_f32(x: f32) -> f32 {
  if (log_is_special(x)) { return log_special(x); }
  let tiny = bitcast<u32>(x) < 0x00800000u;
  let parts = near_one(select(x, x * 16777216.0, tiny));
  return log_parts(parts.x, parts.y - select(0.0, 24.0, tiny));
}

fn log2_f32(x: f32) -> f32 {
  if (log_is_special(x)) { return log_special(x); }
  let tiny = bitcast<u32>(x) < 0x00800000u;
  let parts = near_one(select(x, x * 16777216.0, tiny));
  return fma(log_parts(parts.x, 0.0), LOG2_E, parts.y - select(0.0, 24.0, tiny));
}

// 1 + x would lose the bits of a small x: f = (1 + x) / 2^k - 1 is formed without it.
fn log1p_f32(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  if (x <= -1.0) { return log_special(1.0 + x); }
  if (x > 16777216.0) { return log_f32(x); }
  let k = near_one_exponent(1.0 + x);
  let scale = power_of_two(-k);
  return select(log_parts(fma(x, scale, as_is(scale - 1.0)), f32(k)), x, magnitude_bits(x) < 0x33000000u);
}

// ---- powers ----

// log2 of (1 + f) * 2^k as a sum of two numbers, the first of 12 bits, to about 33 bits in all:
// ln z = 2 (s + s^3 / 3 + s^5 / 5 + ...) with s = (z - 1) / (z + 1), and s itself is a sum of two.
fn log2_sum(f: f32, k: f32) -> vec2f {
  let divisor = 2.0 + f;
  let divisor_high = leading_half(divisor);
  let divisor_low = as_is(2.0 - divisor_high) + f;
  let high = leading_half(f / divisor);
  let low = fma(-high, divisor_low, as_is(fma(-high, divisor_high, f))) / divisor;
  let s = high + low;
  let u = s * s;
  let series = u * fma(fma(fma(u, 0.117917873, 0.142686203), u, 0.200001687), u, 0.333333313);
  // 2 / ln 2 = 2.8857421875 (12 bits) - 0.000352105708
  let product = high * 2.8857421875;
  let rest = fma(low, 2.8857421875, fma(s, -0.000352105708, 2.88539004 * s * series));
  let sum = leading_half(k + product + rest);
  return vec2f(sum, as_is(as_is(k - sum) + product) + rest);
}

// |x|^y for 0 < |x| < infinity.
fn pow_magnitude(x: f32, y: f32) -> f32 {
  let tiny = magnitude_bits(x) < 0x00800000u;
  let parts = near_one(select(abs(x), abs(x) * 16777216.0, tiny));
  let log = log2_sum(parts.x, parts.y - select(0.0, 24.0, tiny));
  // Beyond 2^40 every power but that of 1 over- or underflows.
  let exponent = clamp(y, -1099511627776.0, 1099511627776.0);
  let high = leading_half(exponent) * log.x;
  let low = fma(exponent - leading_half(exponent), log.x + log.y, leading_half(exponent) * log.y);
  if (high + low >= 128.0) { return infinity(); }
  if (high + low < -150.0) { return 0.0; }
  let n = round(high + low);
  return scale_by_power(1.0 + expm1_small((as_is(high - n) + low) * LN2), i32(n));
}

fn is_integral(x: f32) -> bool { return magnitude_bits(x) >= 0x4b000000u || x == trunc(x); }
fn is_odd(x: f32) -> bool {
  let small = magnitude_bits(x) < 0x4b800000u;  // 2^24: all above are even
  return small && x == trunc(x) && (i32(select(0.0, x, small)) & 1) != 0;
}

// As C's pow.
fn pow_f32(x: f32, y: f32) -> f32 {
  let ax = magnitude_bits(x);
  if (magnitude_bits(y) == 0u || bitcast<u32>(x) == 0x3f800000u) { return 1.0; }
  if (is_nan(x)) { return x; }
  if (is_nan(y)) { return y; }
  var magnitude: f32;
  if (ax == 0u || ax == 0x7f800000u) {
    magnitude = select(0.0, infinity(), (ax == 0u) == is_negative(y));
  } else {
    if (is_negative(x) && !is_integral(y)) { return quiet_nan(); }
    magnitude = pow_magnitude(x, y);
  }
  return select(magnitude, -magnitude, is_negative(x) && is_odd(y));
}

// ---- sine, cosine, tangent ----

// 2 / pi behind 32 zeros, 32 bits at a time.
fn two_over_pi_word(i: u32) -> u32 {
  switch i {
    case 1u: { return 0xa2f9836eu; }
    case 2u: { return 0x4e441529u; }
    case 3u: { return 0xfc2757d1u; }
    case 4u: { return 0xf534ddc0u; }
    case 5u: { return 0xdb629599u; }
    case 6u: { return 0x3c439041u; }
    case 7u: { return 0xfe5163abu; }
    default: { return 0u; }
  }
}

struct Angle {
  rest: f32,  // in [-pi/4, pi/4]
  quadrant: u32,  // |x| = rest + quadrant * pi/2, modulo 2 pi
}

// The angle of |x|, for x finite, after M. Payne and R. Hanek (1983): the bits of 2 / pi that give multiples
// of 4 when multiplied with x are left out, and the rest is fixed point. As exact for 1e30 as for 1.
fn reduce_angle(x: f32) -> Angle {
  let bits = magnitude_bits(x);
  if (bits <= 0x3f490fdau) { return Angle(abs(x), 0u); }
  let mantissa = (bits & 0x7fffffu) | 0x800000u;
  let skip = (bits >> 23u) - 120u;
  let word = skip >> 5u;
  let shift = skip & 31u;
  let b0 = two_over_pi_word(word);
  let b1 = two_over_pi_word(word + 1u);
  let b2 = two_over_pi_word(word + 2u);
  let b3 = two_over_pi_word(word + 3u);
  let w0 = (b0 << shift) | ((b1 >> 1u) >> (31u - shift));
  let w1 = (b1 << shift) | ((b2 >> 1u) >> (31u - shift));
  let w2 = (b2 << shift) | ((b3 >> 1u) >> (31u - shift));
  // 64 bits of |x| * 2 / pi modulo 4: two for the quadrant, 62 of fraction.
  var low = mantissa * w1;
  let carried = low + multiply_high(mantissa, w2);
  var high = mantissa * w0 + multiply_high(mantissa, w1) + select(0u, 1u, carried < low);
  low = carried;
  let quadrant = (high + 0x20000000u) >> 30u;
  high -= quadrant << 30u;
  let negative = high >= 0x80000000u;
  if (negative) {
    low = 0u - low;
    high = ~high + select(0u, 1u, low == 0u);
  }
  return Angle(fixed_to_angle(high, low, negative), quadrant & 3u);
}

// (high * 2^32 + low) / 2^62 * pi/2.
fn fixed_to_angle(high: u32, low: u32, negative: bool) -> f32 {
  let upper = select(high, low, high == 0u);
  let zeros = countLeadingZeros(upper | 1u);
  let below = select((low >> 1u) >> (31u - zeros), 0u, high == 0u);
  let leading = (upper << zeros) | below;
  let shift = zeros + select(0u, 32u, high == 0u);
  let angle = f32(multiply_high(leading, 0xc90fdaa2u)) * power_of_two(-29 - i32(shift));  // 2^32 * pi/4
  return select(angle, -angle, negative);
}

fn sin_small(r: f32) -> f32 {
  let u = r * r;
  let p = fma(fma(fma(u, 2.71811882e-6, -0.000198393114), u, 0.00833332911), u, -0.166666672);
  return fma(r * u, p, r);
}
fn cos_small(r: f32) -> f32 {
  let u = r * r;
  let p = fma(fma(u, 2.44384573e-5, -0.00138873677), u, 0.0416666456);
  return 1.0 - fma(-u * u, p, 0.5 * u);
}
fn sin_of_angle(rest: f32, quadrant: u32) -> f32 {
  let value = select(sin_small(rest), cos_small(rest), (quadrant & 1u) != 0u);
  return select(value, -value, (quadrant & 2u) != 0u);
}

fn sin_f32(x: f32) -> f32 {
  if (magnitude_bits(x) >= 0x7f800000u) { return quiet_nan(); }
  let a = reduce_angle(x);
  let value = sin_of_angle(a.rest, a.quadrant);
  return select(value, -value, is_negative(x));
}
fn cos_f32(x: f32) -> f32 {
  if (magnitude_bits(x) >= 0x7f800000u) { return quiet_nan(); }
  let a = reduce_angle(x);
  return sin_of_angle(a.rest, a.quadrant + 1u);
}
fn tan_f32(x: f32) -> f32 {
  if (magnitude_bits(x) >= 0x7f800000u) { return quiet_nan(); }
  let a = reduce_angle(x);
  let s = sin_small(a.rest);
  let c = cos_small(a.rest);
  let odd = (a.quadrant & 1u) != 0u;
  let value = select(s, -c, odd) / select(c, s, odd);
  return select(value, -value, is_negative(x));
}

// ---- inverse trigonometry ----

// arctan for x in [0, 1].
fn atan_small(x: f32) -> f32 {
  let u = x * x;
  var p = fma(fma(u, -0.00179362064, 0.0109146107), u, -0.0311778784);
  p = fma(fma(fma(p, u, 0.0579576567), u, -0.0840345621), u, 0.109521888);
  p = fma(fma(fma(p, u, -0.142642424), u, 0.199985489), u, -0.333332986);
  return fma(x * u, p, x);
}

fn atan_f32(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let a = abs(x);
  let value = atan_small(select(a, 1.0 / a, a > 1.0));
  return with_sign_of(select(value, HALF_PI - (value - HALF_PI_LOW), a > 1.0), x);
}

// The angle of the point (x, y).
// The compiler of lavapipe (Mesa 26.1) folds a chain of selects into the sign bits wrongly; as_is keeps them apart.
fn atan2_f32(y: f32, x: f32) -> f32 {
  // Division is only accurate for divisors below 2^126.
  let scale = select(1.0, 0.0625, max(abs(x), abs(y)) > 1e36);
  let ax = abs(x) * scale;
  let ay = abs(y) * scale;
  let large = max(ax, ay);
  let quotient = select(min(ax, ay) / large, 0.0, large == 0.0);
  let angle = as_is(atan_small(select(quotient, 1.0, is_inf(x) && is_inf(y))));
  let steep = as_is(select(angle, HALF_PI - (angle - HALF_PI_LOW), ay > ax));
  let whole = as_is(select(steep, PI - (steep - PI_LOW), is_negative(x)));
  if (is_nan(x)) { return x; }
  if (is_nan(y)) { return y; }
  return with_sign_of(whole, y);
}

// WGSL allows sqrt an error of 4.5 units, which arcsin would double: one step of Newton, on the exact
// residue.
fn refined_sqrt(x: f32) -> f32 {
  let root = sqrt(x);
  let square = exact_product(root, root);
  return select(root + 0.5 * (as_is(x - square.x) - square.y) / root, root, root == 0.0);
}

// arcsin for x in [0, 1/2].
fn asin_small(x: f32) -> f32 {
  let u = x * x;
  var p = fma(fma(u, 0.0375141092, 0.0144406734), u, 0.0318070538);
  p = fma(fma(fma(p, u, 0.0445170477), u, 0.0750050396), u, 0.166666597);
  return fma(x * u, p, x);
}

fn asin_f32(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let a = abs(x);
  if (a > 1.0) { return quiet_nan(); }
  if (a <= 0.5) { return with_sign_of(asin_small(a), x); }
  return with_sign_of(HALF_PI - (2.0 * asin_small(refined_sqrt(0.5 - 0.5 * a)) - HALF_PI_LOW), x);
}

fn acos_f32(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let a = abs(x);
  if (a > 1.0) { return quiet_nan(); }
  if (a <= 0.5) { return HALF_PI - (with_sign_of(asin_small(a), x) - HALF_PI_LOW); }
  let angle = 2.0 * asin_small(refined_sqrt(0.5 - 0.5 * a));
  return select(angle, PI - (angle - PI_LOW), is_negative(x));
}

// ---- hyperbolic functions ----

fn sinh_f32(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let a = abs(x);
  if (a > 89.5) { return with_sign_of(infinity(), x); }
  if (a >= 1.0) { return with_sign_of(exp_sum(a, 0.0, -1) - exp_sum(-a, 0.0, -1), x); }
  let u = x * x;
  let p = fma(fma(fma(u, 2.81695088e-6, 0.000198361595), u, 0.0083333496), u, 0.166666672);
  return fma(x * u, p, x);
}

fn cosh_f32(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let a = abs(x);
  if (a > 89.5) { return infinity(); }
  return exp_sum(a, 0.0, -1) + exp_sum(-a, 0.0, -1);
}

fn tanh_f32(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let a = min(abs(x), 10.0);
  if (a >= 0.625) { return with_sign_of(1.0 - 2.0 / (exp_sum(2.0 * a, 0.0, 0) + 1.0), x); }
  let u = x * x;
  var p = fma(fma(u, 0.00214309874, -0.00817759521), u, 0.0217008051);
  p = fma(fma(fma(p, u, -0.0539467856), u, 0.133332059), u, -0.333333313);
  return fma(x * u, p, x);
}

fn asinh_f32(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let a = abs(x);
  if (a > 4096.0) { return with_sign_of(log_f32(a) + LN2, x); }
  let square = a * a;
  return with_sign_of(log1p_f32(a + square / (1.0 + sqrt(1.0 + square))), x);
}

fn acosh_f32(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  if (x < 1.0) { return quiet_nan(); }
  if (x > 4096.0) { return log_f32(x) + LN2; }
  let above = x - 1.0;
  return log1p_f32(above + refined_sqrt(above * (x + 1.0)));
}

fn atanh_f32(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let a = abs(x);
  if (a > 1.0) { return quiet_nan(); }
  if (a == 1.0) { return with_sign_of(infinity(), x); }
  return with_sign_of(0.5 * log1p_f32(2.0 * a / (1.0 - a)), x);
}

// ---- the normal distribution ----

// The probability that a normal variable is above a >= 0, times 2^k, with relative accuracy: e^(-a^2 / 2)
// times a function that falls slowly from 1/2 to 1 / (a sqrt(2 pi)), fitted in t = (3 - a) / (3 + a) for a up
// to 15.
fn normal_tail(a: f32, k: i32) -> f32 {
  let bounded = min(a, 15.0);
  let high = leading_half(bounded);
  let decay = exp_sum(-0.5 * high * high, -0.5 * (bounded - high) * (bounded + high), k);
  let inverse = 1.0 / (3.0 + bounded);
  let t = (3.0 - bounded) * inverse;
  var p = fma(fma(t, 9.08153015e-6, -2.18883924e-5), t, -4.07883635e-5);
  p = fma(fma(fma(fma(p, t, 0.000172095621), t, 0.000170792351), t, -0.00116155192), t, -0.00174375216);
  p = fma(fma(fma(fma(p, t, 0.00787711423), t, 0.0383362845), t, 0.0848886669), t, 0.121513948);
  return decay * (6.0 * inverse * p);
}

const FAR: f32 = 2.32830643653869628906e-10;  // 2^-32
const FAR_POWER: i32 = 32;

fn erf_f32(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let a = abs(x);
  if (a >= 1.0) { return with_sign_of(1.0 - 2.0 * normal_tail(a * SQRT_2, 0), x); }
  let u = x * x;
  var p = fma(fma(fma(u, 7.85441734e-5, -0.000801038812), u, 0.00518835383), u, -0.0268538296);
  p = fma(fma(fma(p, u, 0.112835854), u, -0.37612626), u, 0.128379166);
  return fma(x, p, x);
}

fn gelu(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  // Far out the tail would be subnormal where its product with x is not.
  if (x < -8.0) { return x * FAR * normal_tail(-x, FAR_POWER); }
  let tail = normal_tail(abs(x), 0);
  return x * select(1.0 - tail, tail, x < 0.0);
}

// ---- activations ----

fn sigmoid(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let e = exp_sum(max(-abs(x), -104.0), 0.0, 0);
  return select(1.0, e, x < 0.0) / (1.0 + e);
}

// x / (1 + e^-(high + low)), where high has the sign of x.
fn times_sigmoid(x: f32, high: f32, low: f32) -> f32 {
  if (high < -8.0) {
    let e = exp_sum(max(high, -140.0), low, FAR_POWER);
    return x * FAR * (e / fma(e, FAR, 1.0));
  }
  let negative = high < 0.0;
  let e = exp_sum(max(-abs(high), -104.0), select(-low, low, negative), 0);
  return x * (select(1.0, e, negative) / (1.0 + e));
}

fn silu(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  return times_sigmoid(x, x, 0.0);
}

// x * sigmoid(x (a + b x^2)), a = 2 sqrt(2 / pi), b = 0.044715 a. The argument of the sigmoid is formed as a
// sum, or the tail, where it is near -80, would be wrong by as many units in the last place.
fn gelu_approx(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let bounded = clamp(x, -11.0, 11.0);
  let half = leading_half(bounded);
  let square = exact_product(bounded, bounded);
  let cubic = exact_product(square.x, 0.07135009765625);  // the leading 12 bits of b; a has 1.595703125
  let cubic_low = cubic.y + fma(square.x, 4.71861631e-6, square.y * 0.0713548139);
  let factor = leading_half(1.595703125 + cubic.x);
  let factor_low = as_is(as_is(1.595703125 - factor) + cubic.x) + (cubic_low + 6.59966026e-5);
  return times_sigmoid(x, half * factor, fma(bounded - half, factor, bounded * factor_low));
}

// tanh(ln(1 + e)) = e (e + 2) / (e (e + 2) + 2)
fn mish(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  if (x < -20.0) { return silu(x); }
  let e = exp_f32(min(x, 20.0));
  let n = e * (e + 2.0);
  return x * (n / (n + 2.0));
}

fn softplus(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  return max(x, 0.0) + log1p_f32(exp_f32(-abs(x)));
}

fn softsign(x: f32) -> f32 { return x / (1.0 + abs(x)); }
fn leaky_relu(x: f32, alpha: f32) -> f32 { return select(alpha * x, x, x > 0.0); }
fn thresholded_relu(x: f32, alpha: f32) -> f32 { return select(x, 0.0, le_f32(x, alpha)); }

// alpha x + beta cancels near the lower corner: the rounding error of the product is added back.
fn hard_sigmoid(x: f32, alpha: f32, beta: f32) -> f32 {
  let product = exact_product(alpha, x);
  let sum = as_is(product.x + beta);
  return min_nan(max_nan(select(sum, sum + product.y, abs(sum) < 1.0), 0.0), 1.0);
}
fn hard_swish(x: f32) -> f32 { return x * (min_nan(max_nan(x + 3.0, 0.0), 6.0) * 0.166666672); }

fn elu(x: f32, alpha: f32) -> f32 { return select(alpha * expm1_f32(x), x, x > 0.0); }
fn selu(x: f32) -> f32 { return select(1.75809932 * expm1_f32(x), 1.05070102 * x, x > 0.0); }

// e^(q + d) - 1 = e^q - 1 + d e^q, where d is the rounding error of the quotient.
fn celu(x: f32, alpha: f32) -> f32 {
  let quotient = x / alpha;
  if (x > 0.0 || magnitude_bits(quotient) < 0x33000000u) { return x; }
  // By 2^64 away from where the product overflows or its parts are subnormal.
  let up = select(1.0, 18446744073709551616.0, abs(alpha) < 1e-19);
  let scale = select(up, 5.42101086e-20, abs(alpha) > 1e19);
  let product = exact_product(quotient, alpha * scale);
  let error = (as_is(x * scale - product.x) - product.y) / (alpha * scale);
  if (quotient > 140.0) { return alpha * infinity(); }
  if (quotient > 60.0) { return alpha / FAR * exp_sum(quotient, error, -FAR_POWER); }
  let e = expm1_f32(quotient);
  return alpha * select(fma(e + 1.0, error, e), e, quotient < -30.0);
}

// ---- complex numbers: errors are relative to the absolute value of the result ----

fn complex_conj(a: vec2f) -> vec2f { return vec2f(a.x, -a.y); }
fn complex_eq(a: vec2f, b: vec2f) -> bool { return eq_f32(a.x, b.x) && eq_f32(a.y, b.y); }
fn complex_mul(a: vec2f, b: vec2f) -> vec2f { return vec2f(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }

// The divisor is brought near 1, so that its square neither overflows nor vanishes.
fn complex_div(a: vec2f, b: vec2f) -> vec2f {
  let exponent = i32(magnitude_bits(max(abs(b.x), abs(b.y))) >> 23u) - 127;
  let scale = power_of_two(-clamp(exponent, -126, 126));
  let d = b * scale;
  return complex_mul(a, complex_conj(d)) / (d.x * d.x + d.y * d.y) * scale;
}

fn complex_abs(a: vec2f) -> f32 {
  let large = max(abs(a.x), abs(a.y));
  let ratio = min(abs(a.x), abs(a.y)) / large;
  return select(large * sqrt(1.0 + ratio * ratio), large, large == 0.0 || is_inf(large));
}

fn complex_exp(a: vec2f) -> vec2f { return exp_f32(a.x) * vec2f(cos_f32(a.y), sin_f32(a.y)); }

// ln |a| near |a| = 1 comes from |a|^2 - 1 = (large - 1)(large + 1) + small^2.
fn complex_log(a: vec2f) -> vec2f {
  let large = max(abs(a.x), abs(a.y));
  let small = min(abs(a.x), abs(a.y));
  let angle = atan2_f32(a.y, a.x);
  if (large > 0.5 && large < 2.0) {
    return vec2f(0.5 * log1p_f32((large - 1.0) * (large + 1.0) + small * small), angle);
  }
  let ratio = select(small / large, 0.0, large == 0.0 || is_inf(large));
  return vec2f(log_f32(large) + 0.5 * log1p_f32(ratio * ratio), angle);
}

fn complex_sqrt(a: vec2f) -> vec2f {
  let large = sqrt(0.5 * abs(a.x) + 0.5 * complex_abs(a));
  if (large == 0.0) { return vec2f(0.0, a.y); }
  let small = 0.5 * abs(a.y) / large;
  return select(vec2f(large, with_sign_of(small, a.y)), vec2f(small, with_sign_of(large, a.y)), a.x < 0.0);
}
