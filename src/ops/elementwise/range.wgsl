// y[i] = start + i * step
//@ out y any
//@ use flat
struct Params {
  first: u32,
  end: u32,
  start: i32,
  step: i32,
}
fn element(i: u32) -> y_t { return y_t(params.start + i32(i) * params.step); }
