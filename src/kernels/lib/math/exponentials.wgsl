// Exponentials, logarithms and powers.

// ---- exponentials ----

// 1.5 * 2^23: a number that it is added to is rounded to an integer, which is then in the low bits of the sum. A cast
// to i32 would cost several comparisons, since WGSL wants it to saturate.
const ROUNDER: f32 = 12582912.0;
const ROUNDER_BITS: i32 = 0x4b400000;

// e^r - 1 for |r| <= ln(2) / 2.
fn expm1_small(r: f32) -> f32 {
  let q = fma(fma(fma(fma(0.00138143532, r, 0.00836883765), r, 0.0416684002), r, 0.166665196), r, 0.49999994);
  return fma(r * r, q, r);
}

// What is left of x when n times ln 2 is subtracted.
fn less_ln2(x: f32, n: f32) -> f32 { return fma(n, -LN2_LOW, as_is(fma(n, -LN2_HIGH, x))); }

// e^(high + low) * 2^k for |high| <= 140, |low| <= 1/64 and |k| <= 32. The low part is what lets a caller
// keep the last bits of a large argument.
fn exp_sum(high: f32, low: f32, k: i32) -> f32 {
  let shifted = as_is(high * LOG2_E + ROUNDER);
  let power = bitcast<i32>(shifted) - ROUNDER_BITS + k;
  return scale_by_power(1.0 + expm1_small(less_ln2(high, shifted - ROUNDER) + low), power);
}
// e^x for |x| <= 86: neither the result nor the power of two in it is subnormal or infinite.
fn exp_near(x: f32) -> f32 {
  let shifted = as_is(x * LOG2_E + ROUNDER);
  let power = power_of_two(bitcast<i32>(shifted) - ROUNDER_BITS);
  return (1.0 + expm1_small(less_ln2(x, shifted - ROUNDER))) * power;
}

fn exp_f32(x: f32) -> f32 {
  let e = exp_sum(clamp(x, -104.0, 89.0), 0.0, 0);
  return select(select(e, infinity(), x > 88.7228394), x, is_nan(x));
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
// The same of any positive number: a subnormal is a whole number of 2^-149, even if the device takes it for 0.
fn near_one_of_any(x: f32) -> vec2f {
  let tiny = bitcast<u32>(x) < 0x00800000u;
  let parts = near_one(select(x, f32(bitcast<u32>(x)), tiny));
  return vec2f(parts.x, parts.y - select(0.0, 149.0, tiny));
}

// What log and log2 return for zero, negative numbers, infinity and NaN.
fn log_special(x: f32) -> f32 {
  if (magnitude_bits(x) == 0u) { return -infinity(); }
  return select(x, quiet_nan(), is_negative(x));
}
fn log_is_special(x: f32) -> bool { return bitcast<u32>(x) - 1u >= 0x7f7fffffu; }

fn log_f32(x: f32) -> f32 {
  if (log_is_special(x)) { return log_special(x); }
  let parts = near_one_of_any(x);
  return log_parts(parts.x, parts.y);
}

fn log2_f32(x: f32) -> f32 {
  if (log_is_special(x)) { return log_special(x); }
  let parts = near_one_of_any(x);
  return fma(log_parts(parts.x, 0.0), LOG2_E, parts.y);
}

fn log1p_f32(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  if (x <= -1.0) { return log_special(1.0 + x); }
  if (x > 16777216.0) { return log_f32(x); }
  return log1p_bounded(x);
}

// ln(1 + x) for x in (-1, 2^24]. 1 + x would lose the bits of a small x: f = (1 + x) / 2^k - 1 is formed without it.
fn log1p_bounded(x: f32) -> f32 {
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
  let parts = near_one_of_any(bitcast<f32>(magnitude_bits(x)));
  let log = log2_sum(parts.x, parts.y);
  // Beyond 2^40 every power but that of 1 over- or underflows.
  let exponent = clamp(y, -1099511627776.0, 1099511627776.0);
  let high = leading_half(exponent) * log.x;
  let low = fma(exponent - leading_half(exponent), log.x + log.y, leading_half(exponent) * log.y);
  if (high + low >= 128.0) { return infinity(); }
  if (high + low < -150.0) { return 0.0; }
  let n = round(high + low);
  return scale_by_power(1.0 + expm1_small((as_is(high - n) + low) * LN2), i32(n));
}

fn is_integral(x: f32) -> bool { return magnitude_bits(x) >= 0x4b000000u || (x == trunc(x) && !is_subnormal(x)); }
fn is_odd(x: f32) -> bool {
  let small = magnitude_bits(x) < 0x4b800000u;  // 2^24: all above are even
  return small && x == trunc(x) && (i32(select(0.0, x, small)) & 1) != 0;
}

// Like C's pow.
fn pow_f32(x: f32, y: f32) -> f32 {
  let ax = magnitude_bits(x);
  if (magnitude_bits(y) == 0u || bitcast<u32>(x) == 0x3f800000u) { return 1.0; }
  if (is_nan(x)) { return x; }
  if (is_nan(y)) { return y; }
  // The exponents of most models: a product has less error than a logarithm, and none if x^y is a number of f32.
  if (y == 1.0) { return x; }
  if (y == 2.0) { return x * x; }
  if (y == 3.0) { return x * x * x; }
  if (y == -1.0) { return 1.0 / x; }
  var magnitude: f32;
  if (ax == 0u || ax == 0x7f800000u) {
    magnitude = select(0.0, infinity(), (ax == 0u) == is_negative(y));
  } else {
    if (is_negative(x) && !is_integral(y)) { return quiet_nan(); }
    magnitude = pow_magnitude(x, y);
  }
  return select(magnitude, -magnitude, is_negative(x) && is_odd(y));
}
