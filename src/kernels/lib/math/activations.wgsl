// The normal distribution, and activations of neural networks.

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
  let a = abs(x);
  let u = x * x;
  var p = fma(fma(fma(u, 7.85441734e-5, -0.000801038812), u, 0.00518835383), u, -0.0268538296);
  p = fma(fma(fma(p, u, 0.112835854), u, -0.37612626), u, 0.128379166);
  var value = fma(x, p, x);
  if (a >= 1.0) { value = with_sign_of(1.0 - 2.0 * normal_tail(a * SQRT_2, 0), x); }
  return select(value, x, is_nan(x));
}

fn gelu(x: f32) -> f32 {
  // Far out the tail would be subnormal where its product with x is not.
  let far = x < -8.0;
  let tail = normal_tail(abs(x), select(0, FAR_POWER, far));
  let value = x * select(1.0, FAR, far) * select(1.0 - tail, tail, x < 0.0);
  return select(value, x, is_nan(x));
}

// ---- activations ----

fn sigmoid(x: f32) -> f32 {
  let e = exp_sum(max(-abs(x), -104.0), 0.0, 0);
  return select(select(1.0, e, x < 0.0) / (1.0 + e), x, is_nan(x));
}

// x / (1 + e^-(high + low)), where high has the sign of x.
fn times_sigmoid(x: f32, high: f32, low: f32) -> f32 {
  let negative = high < 0.0;
  let far = high < -8.0;
  let unit = select(1.0, FAR, far);
  let e = exp_sum(max(-abs(high), select(-104.0, -140.0, far)), select(-low, low, negative), select(0, FAR_POWER, far));
  return select(x * unit * (select(1.0, e, negative) / fma(e, unit, 1.0)), x, is_nan(x));
}

fn silu(x: f32) -> f32 { return times_sigmoid(x, x, 0.0); }

// x * sigmoid(x (a + b x^2)), a = 2 sqrt(2 / pi), b = 0.044715 a. The argument of the sigmoid is formed as a
// sum, or the tail, where it is near -80, would be wrong by as many units in the last place.
fn gelu_approx(x: f32) -> f32 {
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
  let rest = log1p_bounded(exp_sum(max(-abs(x), -104.0), 0.0, 0));
  return select(max(x, 0.0) + rest, x, is_nan(x));
}

fn softsign(x: f32) -> f32 { return x / (1.0 + abs(x)); }
fn leaky_relu(x: f32, alpha: f32) -> f32 { return select(alpha * x, x, x > 0.0); }
fn thresholded_relu(x: f32, alpha: f32) -> f32 { return select(0.0, x, lt_f32(alpha, x)); }

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
