// y[b, i, k] = x[b, indices[b, i, 0], ..., indices[b, i, depth - 1], k].
//@ in x any
//@ in indices int
//@ out y any
//@ use flat
const SIGNED: bool = true;  //@ spec

struct Params {
  first: u32,
  end: u32,
  tuples: u32,  // of indices in each batch
  inner: u32,  // elements after the gathered axes
  depth: u32,
  lengths: array<u32, 8>,  // of the gathered axes
}

// Negative indices count from the end; those outside are clamped.
fn entry(at: u32, size: u32) -> u32 {
  let index = indices_get(at);
  if (!SIGNED) { return min(u32(index), size - 1u); }
  let length = i32(size);
  return u32(clamp(select(index, index + length, index < 0), 0, length - 1));
}

fn position(i: u32) -> u32 {
  let tuple = i / params.inner;
  var at = tuple / params.tuples;
  for (var d = 0u; d < params.depth; d++) {
    let size = params_lengths(d);
    at = at * size + entry(indices_flat(tuple * params.depth + d), size);
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
