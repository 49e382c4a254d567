// The indices of all elements of some chunks of each row: y[row, j] is element j % chunk of chunk chunks[row, j / chunk].
//@ in chunks any
//@ out y any
//@ use flat

struct Params {
  first: u32,
  end: u32,
  chunk: u32,
}

fn element(i: u32) -> y_t {
  return y_t(u32(chunks_at(i / params.chunk)) * params.chunk + i % params.chunk);
}
fn owns(i: u32) -> bool { return chunks_has(chunks_flat(i / params.chunk)); }
