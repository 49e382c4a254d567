// Matrices with ones on their diagonals and zeros elsewhere.
//@ out y any
//@ use flat

struct Params {
  first: u32,
  end: u32,
  size: u32,
}

fn element(i: u32) -> y_t { return y_t(i / params.size % params.size == i % params.size); }
