// y[row, j] = how many elements of a row in ascending order are less than values[row, j], or not greater if RIGHT; and
// those in `others`, parts of the row that were bound before.
//@ in sorted any
//@ in values any
//@ in others int
//@ out y int
//@ use flat
const RIGHT: bool = false;  //@ spec
const FLOAT: bool = true;  //@ spec

struct Params {
  first: u32,
  end: u32,
  length: u32,  // of sorted rows
  count: u32,  // of the values of a row
}

// NaN is greater than any number.
fn is_less(a: values_t, b: values_t) -> bool {
  if (FLOAT) {
    let a_is_nan = (bitcast<u32>(a) & 0x7fffffffu) > 0x7f800000u;
    let b_is_nan = (bitcast<u32>(b) & 0x7fffffffu) > 0x7f800000u;
    if (a_is_nan || b_is_nan) { return !a_is_nan; }
    return lt_f32(bitcast<f32>(a), bitcast<f32>(b));
  }
  return a < b;
}

fn element(i: u32) -> y_t {
  let value = values_at(i);
  let base = sorted_base(i / params.count);
  var low = 0u;
  var high = params.length;
  while (low < high) {
    let middle = (low + high) / 2u;
    let there = values_t(sorted_get(base + sorted_step(middle)));
    let goes_on = select(is_less(there, value), !is_less(value, there), RIGHT);
    if (goes_on) { low = middle + 1u; } else { high = middle; }
  }
  if (others_present) { low += u32(others_at(i)); }
  return y_t(low);
}
