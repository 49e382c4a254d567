// y[o, j, k] = x[o, indices[o, j, k], k].
//@ in x any
//@ in indices int
//@ out y any
//@ use flat clamped_index
const SIGNED: bool = true;  //@ spec

struct Params {
  first: u32,
  end: u32,
  count: u32,  // of indices along the axis
  length: u32,  // of x along the axis
  inner: u32,  // elements after it
}

fn position(i: u32) -> u32 {
  // Divisions take longer than all the rest.
  var row = i;
  if (params.inner > 1u) { row = i / params.inner; }
  var o = 0u;
  if (row >= params.count) { o = row / params.count; }
  let entry = clamped_index(indices_at(i), params.length);
  return x_flat((o * params.length + entry) * params.inner + (i - row * params.inner));
}

fn element(i: u32) -> y_t { return x_get(position(i)); }
fn owns(i: u32) -> bool { return indices_has(indices_flat(i)) && x_has(position(i)); }
