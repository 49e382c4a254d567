// Integers, and exact remainders of floats.

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
