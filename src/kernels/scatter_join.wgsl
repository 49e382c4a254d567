// y = x, joined with slice last[slot] of the updates where that is not negative.
//@ in x any
//@ in last int
//@ in updates any
//@ out y any
//@ out overflow int atomic
//@ use flat slices
const PRODUCT: bool = false;  //@ spec

struct Params {
  first: u32,
  end: u32,
  inner: u32,  // elements of a slice
}

fn left_range() { overflow_max(0u, 1); }

fn element(i: u32) -> y_t {
  let value = x_get(x_flat(i));
  let update = last_at(slot_of(i));
  if (update < 0) { return value; }
  let joined = x_t(updates_get(update_place(update, i)));
  if (overflow_present && PRODUCT) { return y_t(mul_i64(i32(value), i32(joined))); }
  if (overflow_present) { return y_t(add_i64(i32(value), i32(joined))); }
  return y_t(select(value + joined, value * joined, PRODUCT));
}

fn owns(i: u32) -> bool {
  if (!x_has(x_flat(i)) || !last_has(last_flat(slot_of(i)))) { return false; }
  let update = last_at(slot_of(i));
  return update < 0 || updates_has(update_place(update, i));
}
