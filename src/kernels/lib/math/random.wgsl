// Random words, and numbers made of them.

fn mixed(x: vec2u, by: u32) -> vec2u {
  let sum = x.x + x.y;
  return vec2u(sum, ((x.y << by) | (x.y >> (32u - by))) ^ sum);
}
fn mixed_even(x: vec2u) -> vec2u { return mixed(mixed(mixed(mixed(x, 13u), 15u), 26u), 6u); }
fn mixed_odd(x: vec2u) -> vec2u { return mixed(mixed(mixed(mixed(x, 17u), 29u), 16u), 24u); }

// Threefry-2x32 with 20 rounds (J. Salmon and others, 2011).
fn threefry(key: vec2u, counter: vec2u) -> vec2u {
  let third = key.x ^ key.y ^ 0x1bd11bdau;
  var x = mixed_even(counter + key) + vec2u(key.y, third + 1u);
  x = mixed_odd(x) + vec2u(third, key.x + 2u);
  x = mixed_even(x) + vec2u(key.x, key.y + 3u);
  x = mixed_odd(x) + vec2u(key.y, third + 4u);
  return mixed_even(x) + vec2u(third, key.x + 5u);
}

// -ln u for u = (word + 1/2) / 2^32: an exponential distribution. Near 1, u is known by its distance from 1.
fn exponential_of(word: u32) -> f32 {
  if (word >= 0x80000000u) { return -log1p_f32(-(f32(~word) + 0.5) * 0x1p-32); }
  return -log_f32((f32(word) + 0.5) * 0x1p-32);
}

fn gumbel_of(word: u32) -> f32 { return -log_f32(exponential_of(word)); }

// By the method of G. Box and M. Muller (1958). The angle is 2 pi words.y / 2^32.
fn normal_of(words: vec2u) -> f32 {
  let quadrant = (words.y + 0x20000000u) >> 30u;
  let rest = f32(bitcast<i32>(words.y - (quadrant << 30u))) * (HALF_PI * 0x1p-30);
  return sqrt(2.0 * exponential_of(words.x)) * sin_of_angle(rest, quadrant + 1u);
}
