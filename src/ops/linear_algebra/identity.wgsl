// Matrices with ones on their diagonals and zeros elsewhere.
//@ out y any
//@ use flat

struct Params {
  first: u32,
  end: u32,
  rows: u32,
  columns: u32,
}

fn element(i: u32) -> y_t { return y_t(i / params.columns % params.rows == i % params.columns); }
