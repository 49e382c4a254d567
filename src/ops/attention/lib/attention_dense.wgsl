// Keys and values of attention that lie one after the other, and all count.
const IN_PLACES: bool = false;

// The keys of a batch, if they differ.
fn key_count(outer: u32, lane: u32) -> i32 { return 0; }
// The keys that query i may see, without the mask input: [first_key, end_key).
fn end_key(count: i32, i: u32) -> u32 {
  if (!CAUSAL) { return params.keys; }
  return u32(clamp(i32(i) + params.shift + 1, 0, i32(params.keys)));
}
fn first_key(count: i32, i: u32) -> u32 {
  if (!CAUSAL) { return 0u; }
  return u32(clamp(i32(i) + params.shift - params.window, 0, i32(params.keys)));
}

// Positions; `base` is that of the first one.
fn k_place(base: u32, outer: u32, key: u32) -> u32 { return base + key * params.k_row; }
fn v_place(base: u32, outer: u32, key: u32) -> u32 { return base + key * params.v_row; }
fn of_key(product: f32, outer: u32, key: u32) -> f32 { return product; }
fn v_factor(outer: u32, key: u32) -> f32 { return 1.0; }
fn at_distance(score: f32, r: Row, key: u32) -> f32 { return score; }

// The score that a row begins with, before any key.
fn first_score(r: Row) -> f32 { return -infinity(); }
fn first_total(r: Row) -> f32 { return 0.0; }
fn put_log_sum(r: Row, most: f32, total: f32) {}
