// y[row, j] = the place of x[row, j] among all values of its type: what comes first has the smaller rank. Equal values
// have equal ranks, and NaN is greater than any number. Rows of y may be longer than those of x; what is too much comes
// last.
//@ in x any
//@ out y any
//@ use flat

const FLOAT: bool = true;  //@ spec
const DESCENDING: bool = false;  //@ spec

struct Params {
  first: u32,
  end: u32,
  length: u32,
  pitch: u32,  // the length of rows of y
  sign: u32,  // of integers: their sign bit, or 0
  mask: u32,  // the bits that count
}

// Row and column; a division takes longer than all the rest, so that of a single row is left out.
fn split_index(i: u32) -> vec2u {
  var row = 0u;
  if (i >= params.pitch) { row = i / params.pitch; }
  return vec2u(row, i - row * params.pitch);
}

fn element(i: u32) -> y_t {
  let at = split_index(i);
  if (at.y >= params.length) { return y_t(0xffffffffu); }
  var bits = bitcast<u32>(x_get(x_flat(at.x * params.length + at.y)));
  if (FLOAT) {
    bits = select(bits, 0u, bits == 0x80000000u);  // -0 equals 0
    let is_number = (bits & 0x7fffffffu) <= 0x7f800000u;
    bits = select(0xffffffffu, bits ^ select(0x80000000u, 0xffffffffu, bits >= 0x80000000u), is_number);
  } else {
    bits ^= params.sign;
  }
  return y_t(select(bits, ~bits, DESCENDING) & params.mask);
}

fn owns(i: u32) -> bool {
  let at = split_index(i);
  return at.y >= params.length || x_has(x_flat(at.x * params.length + at.y));
}
