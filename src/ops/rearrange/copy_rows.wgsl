// The rows of x into a window of those of y, four elements at a time.
//@ in x any x4
//@ out y any x4
//@ use each

struct Params {
  first: u32,
  end: u32,
  length: u32,  // of a row of x
  inverse_length: f32,  // 1 / length
  begin: u32,  // of the window in a row of y
  skipped: u32,  // elements of a row of y that are not in the window
}

fn task(q: u32) {
  let i = 4u * q;
  y_put4(i + quotient_by(i, params.length, params.inverse_length) * params.skipped + params.begin, x_get4(i));
}
