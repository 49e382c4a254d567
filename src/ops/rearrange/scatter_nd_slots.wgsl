// y[i] = the number of the slice that tuple i of indices names.
//@ in indices int
//@ out y any
//@ use flat clamped_index
const SIGNED: bool = true;  //@ spec

struct Params {
  first: u32,
  end: u32,
  depth: u32,
  lengths: array<u32, 8>,
}

fn element(i: u32) -> y_t {
  var slot = 0u;
  for (var d = 0u; d < params.depth; d++) {
    let size = params_lengths(d);
    slot = slot * size + clamped_index(indices_get(indices_flat(i * params.depth + d)), size);
  }
  return y_t(slot);
}
fn owns(i: u32) -> bool {
  for (var d = 0u; d < params.depth; d++) {
    if (!indices_has(indices_flat(i * params.depth + d))) { return false; }
  }
  return true;
}
