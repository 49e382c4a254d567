// y[i] = x[source[i]], or 0 where that is negative.
//@ in source int
//@ in x any
//@ out y any
//@ use flat

struct Params {
  first: u32,
  end: u32,
}

fn element(i: u32) -> y_t {
  let s = source_at(i);
  if (s < 0) { return y_from_bits(0u); }
  return x_get(x_flat(u32(s)));
}
fn owns(i: u32) -> bool {
  let s = source_at(i);
  return s < 0 || x_has(x_flat(u32(s)));
}
