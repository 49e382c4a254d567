// Every element of y is the same.
//@ out y any
//@ use flat
struct Params {
  first: u32,
  end: u32,
  value: u32,  // bits of y's type
}
fn element(i: u32) -> y_t { return y_from_bits(params.value); }
