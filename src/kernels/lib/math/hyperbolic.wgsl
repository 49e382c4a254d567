// Hyperbolic functions and their inverses.

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
  let a = min(abs(x), 10.0);
  let u = a * a;
  var p = fma(fma(u, 0.00214309874, -0.00817759521), u, 0.0217008051);
  p = fma(fma(fma(p, u, -0.0539467856), u, 0.133332059), u, -0.333333313);
  var value = fma(x * u, p, x);
  if (a >= 0.625) { value = with_sign_of(1.0 - 2.0 / (exp_near(2.0 * a) + 1.0), x); }
  return select(value, x, is_nan(x));
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
