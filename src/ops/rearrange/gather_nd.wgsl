// y[b, i, k] = x[b, indices[b, i, 0], ..., indices[b, i, depth - 1], k].
//@ in x any
//@ in indices int
//@ out y any
//@ use flat clamped_index
const SIGNED: bool = true;  //@ spec

struct Params {
  first: u32,
  end: u32,
  tuples: u32,  // of indices in each batch
  inner: u32,  // elements after the gathered axes
  depth: u32,
  lengths: array<u32, 8>,  // of the gathered axes
}

fn position(i: u32) -> u32 {
  let tuple = i / params.inner;
  var at = tuple / params.tuples;
  for (var d = 0u; d < params.depth; d++) {
    let size = params_lengths(d);
    at = at * size + clamped_index(indices_get(indices_flat(tuple * params.depth + d)), size);
  }
  return x_flat(at * params.inner + (i - tuple * params.inner));
}

fn has_indices(i: u32) -> bool {
  let tuple = i / params.inner;
  for (var d = 0u; d < params.depth; d++) {
    if (!indices_has(indices_flat(tuple * params.depth + d))) { return false; }
  }
  return true;
}

fn element(i: u32) -> y_t { return x_get(position(i)); }
fn owns(i: u32) -> bool { return has_indices(i) && x_has(position(i)); }
