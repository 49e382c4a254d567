// Between floats and integers of the same order: y = the key of x, or the float that has key x. NaN comes last, or first
// if it shall be the smallest.
//@ in x any
//@ out y any
//@ use flat
const BACK: bool = false;  //@ spec
const NAN_LAST: bool = true;  //@ spec

struct Params {
  first: u32,
  end: u32,
}

fn element(i: u32) -> y_t {
  let bits = bitcast<u32>(x_get(x_flat(i)));
  let nan_key = select(0u, 0xffffffffu, NAN_LAST);
  if (BACK) {
    let value = select(~bits, bits ^ 0x80000000u, bits >= 0x80000000u);
    return bitcast<y_t>(select(value, bitcast<u32>(quiet_nan()), bits == nan_key));
  }
  let key = bits ^ select(0x80000000u, 0xffffffffu, bits >= 0x80000000u);
  return bitcast<y_t>(select(key, nan_key, (bits & 0x7fffffffu) > 0x7f800000u));
}
fn owns(i: u32) -> bool { return x_has(x_flat(i)); }
