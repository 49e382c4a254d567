// y = x, x read through any view.
//@ in x any
//@ out y any
//@ use flat

struct Params {
  first: u32,
  end: u32,
}

fn element(i: u32) -> y_t { return x_get(x_flat(i)); }
fn owns(i: u32) -> bool { return x_has(x_flat(i)); }
