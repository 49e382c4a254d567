// y[o, j, k] = table[o, indices[j], k]. The axes of the table up to and including the gathered one are its outer ones.
//@ in table any
//@ in indices int
//@ out y any
//@ use flat clamped_index
const SIGNED: bool = true;  //@ spec

struct Params {
  first: u32,
  end: u32,
  count: u32,  // of indices
  length: u32,  // of the gathered axis
  inner: u32,  // elements after it
}

fn position(i: u32) -> u32 {
  // Divisions take longer than all the rest.
  var row = i;
  if (params.inner > 1u) { row = i / params.inner; }
  var o = 0u;
  if (row >= params.count) { o = row / params.count; }
  let entry = clamped_index(indices_at(row - o * params.count), params.length);
  return table_base(o * params.length + entry) + table_step(i - row * params.inner);
}

fn element(i: u32) -> y_t { return table_get(position(i)); }
fn owns(i: u32) -> bool {
  return indices_has(indices_flat(i / params.inner % params.count)) && table_has(position(i));
}
