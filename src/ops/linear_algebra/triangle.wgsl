// One triangle of each matrix [rows, columns] of x, zeros in the other. Where there is `info` and it is not 0, NaN.
//@ in x float
//@ in info int
//@ out y float
//@ use flat

const UPPER: bool = false;  //@ spec

struct Params {
  first: u32,
  end: u32,
  rows: u32,
  columns: u32,
}

fn element(i: u32) -> y_t {
  let row = i / params.columns % params.rows;
  let column = i % params.columns;
  if (info_present) {
    if (info_at(i / params.columns / params.rows) != 0) { return quiet_nan(); }
  }
  if (select(column > row, column < row, UPPER)) { return 0.0; }
  return x_at(i);
}
