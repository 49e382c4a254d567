// The further forms of attention, each of which is an operand that may be absent: batches with their own numbers of
// keys, caches in pages or rings or of 8-bit integers, scores that fall with the distance, a score without a value
// (sink), and the logarithm of the sum as a second result.
//@ in lengths int
//@ in start int
//@ in pages int
//@ in sinks float
//@ in slopes float
//@ in k_scale float
//@ in v_scale float
//@ out log_sum float

const IN_PLACES: bool = true;

// The keys of a batch, among those of all dispatches. One lane reads it: loops with barriers end there, which must be
// the same for all lanes, and WGSL does not believe that of memory that may be written.
var<workgroup> shared_count: i32;
fn key_count(outer: u32, lane: u32) -> i32 {
  if (!lengths_present) { return i32(params.total); }
  if (lane == 0u) { shared_count = clamp(lengths_get(lengths_base(outer)), 0, i32(params.total)); }
  return workgroupUniformLoad(&shared_count);
}
// The key, among those of this dispatch, that query i stands at.
fn own_key(count: i32, i: u32) -> i32 { return i32(i) + params.shift + count; }
fn end_key(count: i32, i: u32) -> u32 {
  let end = select(count - i32(params.skipped), own_key(count, i) + 1, CAUSAL);
  return u32(clamp(end, 0, i32(params.keys)));
}
fn first_key(count: i32, i: u32) -> u32 {
  if (!CAUSAL) { return 0u; }
  return u32(clamp(own_key(count, i) - params.window, 0, i32(params.keys)));
}

// The row of the cache, counted over all of the batch's pages.
fn cache_row(outer: u32, key: u32) -> u32 {
  if (!start_present) { return key; }
  let n = i32(params.total);
  let begin = start_get(start_base(outer)) % n;
  return (u32(select(begin, begin + n, begin < 0)) + key) % params.total;
}
// The index over pages and heads. Pages outside of the cache are the nearest ones.
fn page_outer(outer: u32, row: u32) -> u32 {
  let page = clamp(pages_get(pages_base(outer) + pages_step(row / params.page)), 0, i32(params.last_page));
  return u32(page) * params.kv_heads + outer % params.kv_heads;
}
fn k_place(base: u32, outer: u32, key: u32) -> u32 {
  let row = cache_row(outer, key);
  if (!pages_present) { return base + row * params.k_row; }
  return k_base(page_outer(outer, row)) + row % params.page * params.k_row;
}
fn v_place(base: u32, outer: u32, key: u32) -> u32 {
  let row = cache_row(outer, key);
  if (!pages_present) { return base + row * params.v_row; }
  return v_base(page_outer(outer, row)) + row % params.page * params.v_row;
}
fn of_key(product: f32, outer: u32, key: u32) -> f32 {
  if (!k_scale_present) { return product; }
  let row = cache_row(outer, key);
  if (!pages_present) { return product * k_scale_get(k_scale_base(outer) + k_scale_step(row)); }
  return product * k_scale_get(k_scale_base(page_outer(outer, row)) + k_scale_step(row % params.page));
}
fn v_factor(outer: u32, key: u32) -> f32 {
  if (!v_scale_present) { return 1.0; }
  let row = cache_row(outer, key);
  if (!pages_present) { return v_scale_get(v_scale_base(outer) + v_scale_step(row)); }
  return v_scale_get(v_scale_base(page_outer(outer, row)) + v_scale_step(row % params.page));
}
fn at_distance(score: f32, r: Row, key: u32) -> f32 {
  if (!slopes_present) { return score; }
  let distance = abs(own_key(r.count, r.query) - i32(key));
  return score - slopes_get(slopes_base(r.outer) + slopes_step(r.member)) * f32(distance);
}

fn first_score(r: Row) -> f32 {
  if (!sinks_present) { return -infinity(); }
  return sinks_get(sinks_base(r.outer) + sinks_step(r.member));
}
// 1 for a sink; 0 if it is -inf, NaN if it is NaN.
fn first_total(r: Row) -> f32 {
  if (!sinks_present) { return 0.0; }
  let score = first_score(r);
  return weight(score - finite_or_zero(score));
}
fn put_log_sum(r: Row, most: f32, total: f32) {
  if (!log_sum_present) { return; }
  let at = log_sum_base(r.outer) + log_sum_step(r.member * params.queries + r.query);
  log_sum_put(at, finite_or_zero(most) + log_f32(total));
}
