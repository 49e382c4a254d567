// i64 has 32 bits on the device. These functions report a result that needs more; a kernel that calls them has
// `fn left_range()` and an operand to write to (Lowering::overflow).

fn add_i64(a: i32, b: i32) -> i32 {
  let sum = a + b;
  if (((a ^ sum) & (b ^ sum)) < 0) { left_range(); }
  return sum;
}
fn sub_i64(a: i32, b: i32) -> i32 {
  let difference = a - b;
  if (((a ^ b) & (a ^ difference)) < 0) { left_range(); }
  return difference;
}
fn mul_i64(a: i32, b: i32) -> i32 {
  let x = bitcast<u32>(abs(a));
  let y = bitcast<u32>(abs(b));
  let largest = select(0x7fffffffu, 0x80000000u, (a < 0) != (b < 0));
  if (multiply_high(x, y) != 0u || x * y > largest) { left_range(); }
  return a * b;
}
fn neg_i64(x: i32) -> i32 { return sub_i64(0, x); }
fn abs_i64(x: i32) -> i32 { return select(x, sub_i64(0, min(x, 0)), x < 0); }
fn square_i64(x: i32) -> i32 { return mul_i64(x, x); }
fn div_i64(a: i32, b: i32) -> i32 {
  if (b == -1) { return neg_i64(a); }
  return a / b;
}
fn pow_i64(base: i32, exponent: i32) -> i32 {
  if (exponent < 0) { return pow_i32(base, exponent); }
  var result = 1;
  var square = base;
  for (var e = exponent; e != 0; e >>= 1u) {
    if ((e & 1) != 0) { result = mul_i64(result, square); }
    if (e > 1) { square = mul_i64(square, square); }
  }
  return result;
}
// 64 is the width of the type: all bits are shifted out there, as they should be.
fn shift_left_i64(a: i32, n: i32) -> i32 {
  if (n < 0 || n > 63) { return 0; }
  let shifted = shift_left_i32(a, n);
  if (shift_right_i32(shifted, n) != a) { left_range(); }
  return shifted;
}
// What 64 bits cannot hold either is no loss: infinities become the ends of the range. (T5 takes the logarithm of 0, casts it, and
// selects another value in its place.)
fn f32_to_i64(x: f32) -> i32 {
  if ((x >= 2147483648.0 || x < -2147483648.0) && abs(x) < 9223372036854775808.0) { left_range(); }
  return f32_to_i32(x);
}
fn u32_to_i64(x: u32) -> i32 {
  if (x > 0x7fffffffu) { left_range(); }
  return bitcast<i32>(x);
}
