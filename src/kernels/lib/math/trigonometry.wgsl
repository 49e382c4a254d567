// Trigonometric functions and their inverses.

// ---- sine, cosine, tangent ----

// 2 / pi after 32 zeros, 32 bits at a time.
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

// The compiler of lavapipe (Mesa 26.1) folds a chain of selects into the sign bits wrongly, with vectors of 512 bits
// also a single one; as_is keeps them apart, here and in atan2.
fn atan_f32(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let a = abs(x);
  let value = atan_small(select(a, 1.0 / a, a > 1.0));
  return with_sign_of(as_is(select(value, HALF_PI - (value - HALF_PI_LOW), a > 1.0)), x);
}

// The angle of the point (x, y).
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
