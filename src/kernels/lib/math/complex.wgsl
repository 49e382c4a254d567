// Complex numbers: errors are relative to the absolute value of the result.

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
