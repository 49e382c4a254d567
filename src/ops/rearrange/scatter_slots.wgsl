// y[i] = where element i of the updates goes: its place in a tensor with these strides, in which its index along `axis` is
// indices[i].
//@ in indices int
//@ out y any
//@ use flat clamped_index
const SIGNED: bool = true;  //@ spec

struct Params {
  first: u32,
  end: u32,
  rank: u32,
  axis: u32,
  length: u32,  // of the tensor along the axis
  dims: array<u32, 8>,  // of the updates
  strides: array<u32, 8>,  // of the tensor
}

fn element(i: u32) -> y_t {
  let entry = clamped_index(indices_at(i), params.length);
  var rest = i;
  var place = 0u;
  for (var a = params.rank - 1u; a > 0u; a--) {
    let dim = params_dims(a);
    let quotient = rest / dim;
    place += select(rest - quotient * dim, entry, a == params.axis) * params_strides(a);
    rest = quotient;
  }
  return y_t(place + select(rest, entry, params.axis == 0u) * params_strides(0u));
}
fn owns(i: u32) -> bool { return indices_has(indices_flat(i)); }
