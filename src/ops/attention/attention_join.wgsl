// y = the results of attention for parts of the keys (SPLIT in lib/attention_blocked_loop), joined: for each row and part
// `carry` has the sums, their total weight and the largest score, with which the parts are brought to the largest of all.
//@ in carry float
//@ out y float
//@ out log_sum float
//@ use each

struct Params {
  first: u32,
  end: u32,
  parts: u32,
  value: u32,  // the size of a head of values
  rows: u32,  // queries of the heads that share keys
  queries: u32,
  y_member: u32,
  y_row: u32,
  empty_share: f32,
}

// As in lib/attention.
fn weight(x: f32) -> f32 { return select(exp_sum(max(x, -104.0), 0.0, 0), x, is_nan(x)); }
fn finite_or_zero(most: f32) -> f32 { return select(most, 0.0, is_inf(most) && most < 0.0); }

// A task is an element of a row.
fn task(i: u32) {
  let row = i / params.value;
  let d = i - row * params.value;
  let stride = params.value + 2u;
  let at = row * params.parts * stride;
  var most = -infinity();
  for (var part = 0u; part < params.parts; part++) {
    most = max_nan(most, carry_get(at + part * stride + params.value + 1u));
  }
  let base = finite_or_zero(most);
  var sum = 0.0;
  var total = 0.0;
  for (var part = 0u; part < params.parts; part++) {
    let p = at + part * stride;
    let fade = weight(carry_get(p + params.value + 1u) - base);
    sum = fma(fade, carry_get(p + d), sum);
    total = fma(fade, carry_get(p + params.value), total);
  }
  let outer = row / params.rows;
  let r = row - outer * params.rows;
  let member = r / params.queries;
  let query = r - member * params.queries;
  let share = select(1.0 / total, params.empty_share, total == 0.0);
  y_put(y_base(outer) + member * params.y_member + query * params.y_row + d, sum * share);
  if (log_sum_present && d == 0u) { log_sum_put(log_sum_base(outer) + log_sum_step(r), base + log_f32(total)); }
}
