// Slices of `inner` elements each, one for each slot: which slot element i is in, and which element of `updates` comes there.
fn slot_of(i: u32) -> u32 {
  if (params.inner == 1u) { return i; }
  return i / params.inner;
}

fn update_place(update: i32, i: u32) -> u32 {
  return updates_flat(u32(update) * params.inner + (i - slot_of(i) * params.inner));
}
