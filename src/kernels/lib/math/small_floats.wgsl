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

fn round_to_format_f32(x: f32, format: f32, saturate: f32) -> f32 {
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
