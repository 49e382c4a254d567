// y[batch, head, key, dim] = keys or values of a cache in pages, as a ring, or of integers with scales: for devices that
// cannot bind the cache together with all else that attention reads.
//@ in x any
//@ in start int
//@ in pages int
//@ in scale float
//@ out y float
//@ use flat
struct Params {
  first: u32,
  end: u32,
  keys: u32,
  kv_heads: u32,
  page: u32,  // rows of the cache in a page
  last_page: u32,
  head: u32,
  row: u32,  // strides of x
  dim: u32,
}

fn cache_row(outer: u32, key: u32) -> u32 {
  if (!start_present) { return key; }
  let n = i32(params.keys);
  let begin = start_get(start_base(outer)) % n;
  return (u32(select(begin, begin + n, begin < 0)) + key) % params.keys;
}
// The index over batches or pages, and heads.
fn cache_outer(outer: u32, row: u32) -> u32 {
  if (!pages_present) { return outer; }
  let page = clamp(pages_get(pages_base(outer) + pages_step(row / params.page)), 0, i32(params.last_page));
  return u32(page) * params.kv_heads + outer % params.kv_heads;
}

fn row_of(i: u32) -> u32 { return cache_row(i / params.head / params.keys, i / params.head % params.keys); }
fn outer_of(i: u32, row: u32) -> u32 { return cache_outer(i / params.head / params.keys, row); }
fn position(i: u32) -> u32 {
  let row = row_of(i);
  return x_base(outer_of(i, row)) + row % params.page * params.row + i % params.head * params.dim;
}

fn element(i: u32) -> y_t {
  let x = f32(x_get(position(i)));
  if (!scale_present) { return x; }
  let row = row_of(i);
  return x * scale_get(scale_base(outer_of(i, row)) + scale_step(row % params.page));
}
fn owns(i: u32) -> bool { return x_has(position(i)); }
