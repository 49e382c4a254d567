// y[i] = where element i of the updates goes: its place in a tensor with these strides, in which its index along `axis` is
// indices[i].
//@ in indices int
//@ out y any
//@ use flat
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

// Negative indices count from the end; those outside are clamped.
fn entry(i: u32) -> u32 {
  let index = indices_at(i);
  if (!SIGNED) { return min(u32(index), params.length - 1u); }
  let length = i32(params.length);
  return u32(clamp(select(index, index + length, index < 0), 0, length - 1));
}

fn element(i: u32) -> y_t {
  var rest = i;
  var place = 0u;
  for (var a = params.rank - 1u; a > 0u; a--) {
    let dim = params_dims(a);
    let quotient = rest / dim;
    place += select(rest - quotient * dim, entry(i), a == params.axis) * params_strides(a);
    rest = quotient;
  }
  return y_t(place + select(rest, entry(i), params.axis == 0u) * params_strides(0u));
}
fn owns(i: u32) -> bool { return indices_has(indices_flat(i)); }
