// Two values of a row as one, by KIND: SUM, PROD, MAX or MIN. NaN wins over every other maximum or minimum. Where the kernel
// has an operand `overflow`, sums and products of i64 are checked (lib/math/i64.wgsl).
fn is_nan_value(v: x_t) -> bool { return (bitcast<u32>(v) & 0x7fffffffu) > 0x7f800000u; }

fn merge(a: x_t, b: x_t) -> x_t {
  if (overflow_present && KIND == SUM) { return x_t(add_i64(i32(a), i32(b))); }
  if (overflow_present && KIND == PROD) { return x_t(mul_i64(i32(a), i32(b))); }
  if (KIND == SUM) { return a + b; }
  if (KIND == PROD) { return a * b; }
  let best = select(min(a, b), max(a, b), KIND == MAX);
  if (!FLOAT) { return best; }
  return select(select(best, b, is_nan_value(b)), a, is_nan_value(a));
}
