// gather for entries that lie in fours: four neighbours of y are of one entry.
//@ in table any x4
//@ in indices int
//@ out y any x4
//@ use each clamped_index
const SIGNED: bool = true;  //@ spec

struct Params {
  first: u32,
  end: u32,
  count: u32,  // of indices
  length: u32,  // of the gathered axis
  inner: u32,  // elements after it
  inverse_inner: f32,  // 1 / inner
}

fn task(q: u32) {
  let i = 4u * q;
  let row = quotient_by(i, params.inner, params.inverse_inner);
  var o = 0u;
  if (row >= params.count) { o = row / params.count; }
  let entry = clamped_index(indices_at(row - o * params.count), params.length);
  y_put4(i, table_get4(table_base(o * params.length + entry) + table_step(i - row * params.inner)));
}
