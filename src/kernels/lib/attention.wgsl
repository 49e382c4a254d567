// What attention kernels share. They have the operand `mask`, the spec constants CAUSAL, CAPPED and KEEP, and in their
// parameters keys, shift, window, soft_cap and mask_key.

// The keys that the query number i may see, without the mask input: [first_key, end_key).
fn end_key(i: u32) -> u32 {
  if (!CAUSAL) { return params.keys; }
  return u32(clamp(i32(i) + params.shift + 1, 0, i32(params.keys)));
}
fn first_key(i: u32) -> u32 {
  if (!CAUSAL) { return 0u; }
  return u32(clamp(i32(i) + params.shift - params.window, 0, i32(params.keys)));
}

// A score from the scaled product; mask_at is the position of the query's row in the mask.
fn masked_score(product: f32, mask_at: u32, key: u32) -> f32 {
  var s = product;
  if (CAPPED) { s = params.soft_cap * tanh_f32(s / params.soft_cap); }
  if (mask_present) {
    let m = f32(mask_get(mask_at + key * params.mask_key));
    if (KEEP) { s = select(-infinity(), s, m != 0.0); } else { s += m; }
  }
  return s;
}

// e^x for x <= 0, without branches; NaN stays. As good as exp_f32, which also has to overflow.
fn weight(x: f32) -> f32 { return select(exp_sum(max(x, -104.0), 0.0, 0), x, is_nan(x)); }

// What scores are compared with while only excluded keys have been seen: -inf - -inf would be NaN.
fn finite_or_zero(most: f32) -> f32 { return select(most, 0.0, is_inf(most) && most < 0.0); }
