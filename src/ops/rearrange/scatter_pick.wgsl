// y = x, or slice last[slot] of the updates where that is not negative.
//@ in x any
//@ in last int
//@ in updates any
//@ out y any
//@ use flat slices

struct Params {
  first: u32,
  end: u32,
  inner: u32,  // elements of a slice
}

fn element(i: u32) -> y_t {
  let update = last_at(slot_of(i));
  if (update < 0) { return x_get(x_flat(i)); }
  return updates_get(update_place(update, i));
}

fn owns(i: u32) -> bool {
  if (!last_has(last_flat(slot_of(i)))) { return false; }
  let update = last_at(slot_of(i));
  if (update < 0) { return x_has(x_flat(i)); }
  return updates_has(update_place(update, i));
}
