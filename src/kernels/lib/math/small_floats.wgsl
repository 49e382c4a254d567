// Rounding to floats of 8 and 4 bits, and quotients that are rounded to integers.

// a / b as a correctly rounded division gives it: WGSL's own may be off by a few units, and what is a tie or lies next to
// one would then go to the wrong side.
fn exact_quotient(a: f32, b: f32) -> f32 {
  let q = a / b;
  let magnitude = magnitude_bits(q);
  if (magnitude >= 0x7f000000u || magnitude < 0x01000000u) { return q; }
  let p = exact_product(q, b);
  return q + ((a - p.x) - p.y) / b;
}
fn round_div_f32(a: f32, b: f32) -> f32 { return round(exact_quotient(a, b)); }
// The fraction is exact, which x + 0.5 would not be.
fn round_div_away_f32(a: f32, b: f32) -> f32 {
  let q = exact_quotient(a, b);
  let whole = trunc(q);
  return select(whole, whole + sign(q), abs(q - whole) >= 0.5);
}

// round(a / b) + zero between low and high, for ranges of bytes; NaN becomes 0. The quotient lies between an integer k and
// k + 1, and what a exceeds (k + 1/2) b by says which is nearer: it is exact, since k + 1/2 and each half of b have 12 bits.
// Beyond 2^11 it is not, which does not matter. A quotient that differs from k + 1/2 by less than half a unit is a tie,
// as it is rounded to one.
fn round_to_range_f32(a: f32, b: f32, zero: f32, low: f32, high: f32) -> f32 {
  let q = a / b;
  let half = floor(q) + 0.5;
  let bh = leading_half(b);
  let rest = as_is(a - half * bh) - half * (b - bh);
  let half_unit = bitcast<f32>(bitcast<u32>(max(abs(q), 0.5)) & 0x7f800000u) * 5.9604645e-8;
  let side = bitcast<f32>(0x3e800000u | ((bitcast<u32>(rest) ^ bitcast<u32>(b)) & 0x80000000u));  // a quarter
  let nearest = round(half + select(side, 0.0, abs(rest) <= abs(b) * half_unit));
  return select(clamp(nearest + round(zero), low, high), clamp(0.0, low, high), is_nan(q));
}

// What a format has: bits after the point, the least exponent of a normal number, the largest number, and what is beyond.
struct SmallFloat {
  bits: i32,
  low: i32,
  largest: f32,
  infinite: bool,  // has infinities
  unsigned_zero: bool,
}
fn small_float(format: f32) -> SmallFloat {
  switch i32(format) {
    case 1: { return SmallFloat(3, -7, 240.0, false, true); }
    case 2: { return SmallFloat(2, -14, 57344.0, true, false); }
    case 3: { return SmallFloat(2, -15, 57344.0, false, true); }
    case 4: { return SmallFloat(1, 0, 6.0, false, false); }
    default: { return SmallFloat(3, -6, 448.0, false, false); }
  }
}

// To a power of two, as float8e8m0 has them: the next above (mode 0), the next below (1) or the nearest (2).
fn round_to_power(x: f32, mode: i32, saturate: f32) -> f32 {
  let m = magnitude_bits(x);
  let fraction = m & 0x7fffffu;
  var exponent = m >> 23u;
  let half = select(0x400001u, 0x400000u, exponent > 0u);
  if (exponent < 255u && ((mode == 0 && fraction > 0u) || (mode == 2 && fraction >= half))) {
    exponent += 1u;
    if (exponent == 255u && saturate != 0.0) { exponent = 254u; }
  }
  return e8m0_value(exponent);
}

fn round_to_format_f32(x: f32, format: f32, saturate: f32) -> f32 {
  if (format >= 5.0) { return round_to_power(x, i32(format) - 5, saturate); }
  let f = small_float(format);
  let m = magnitude_bits(x);
  if (m > 0x7f800000u) { return select(x, bitcast<f32>(0x80000000u), i32(format) == 4); }
  var r = f.largest * 2.0;
  if (m < 0x7f800000u) {
    let exponent = max(i32(m >> 23u) - 127, f.low);
    // Scaled by a power of two, so exact. What is below the least step is far below half of it.
    r = round(bitcast<f32>(m) * power_of_two(f.bits - exponent)) * power_of_two(exponent - f.bits);
  }
  if (r > f.largest) {
    if (saturate == 0.0 && i32(format) != 4) { r = select(quiet_nan(), infinity(), f.infinite); }
    else { r = f.largest; }
  }
  if (r == 0.0 && f.unsigned_zero) { return 0.0; }
  return with_sign_of(r, x);
}

// The numbers that small floats stand for, from the low bits of a word. Subnormal ones are products, since devices may
// take subnormal bits of an f32 for zero.
fn e4m3_value(code: u32) -> f32 {
  let magnitude = code & 0x7fu;
  let small = f32(i32(magnitude)) * 0.001953125;
  let value = select(bitcast<f32>((magnitude << 20u) + 0x3c000000u), small, magnitude < 8u);
  if (magnitude == 0x7fu) { return quiet_nan(); }
  return select(value, -value, (code & 0x80u) != 0u);
}
fn e5m2_value(code: u32) -> f32 {
  let magnitude = code & 0x7fu;
  let small = f32(i32(magnitude)) * 1.52587890625e-5;
  let value = select(bitcast<f32>((magnitude << 21u) + 0x38000000u), small, magnitude < 4u);
  if (magnitude > 0x7cu) { return quiet_nan(); }
  return with_sign_of(select(value, infinity(), magnitude == 0x7cu), bitcast<f32>(code << 24u));
}
fn e2m1_value(code: u32) -> f32 {
  let value = 0.5 * f32(i32((0xc8643210u >> (4u * (code & 7u))) & 15u));
  return select(value, -value, (code & 8u) != 0u);
}
// A power of two, of which 0 is the least, 2^-127.
fn e8m0_value(code: u32) -> f32 {
  if ((code & 0xffu) == 0xffu) { return quiet_nan(); }
  return bitcast<f32>(select((code & 0xffu) << 23u, 0x00400000u, (code & 0xffu) == 0u));
}
