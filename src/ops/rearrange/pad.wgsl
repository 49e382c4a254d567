// y is x with more (or, where `before` is negative, fewer) elements at the ends of its axes. The host
// joins axes where the padding allows it; axis 0 is the last.
//@ in x any
//@ out y any
//@ use flat
const AXES: u32 = 8u;  //@ spec
const MODE: u32 = 0u;  //@ spec

struct Params {
  first: u32,
  end: u32,
  value: u32,  // bits of y's type
  out: array<u32, 8>,
  length: array<i32, 8>,
  before: array<i32, 8>,
}

fn floor_mod(a: i32, n: i32) -> i32 {
  let r = a % n;
  return select(r, r + n, r < 0);
}

// The coordinate of x that is seen at coordinate c, which may lie outside; -1 for none.
fn source(c: i32, length: i32) -> i32 {
  switch MODE {
    case 1u: {  // reflect, without repeating the ends
      let period = max(2 * (length - 1), 1);
      let r = floor_mod(c, period);
      return select(r, period - r, r >= length);
    }
    case 2u: { return clamp(c, 0, length - 1); }
    case 3u: { return floor_mod(c, length); }
    default: { return select(-1, c, c >= 0 && c < length); }
  }
}

struct Walk {
  rest: u32,  // of the index over y's axes
  index: u32,  // over x's axes, in row-major order
  scale: u32,  // of the axis that comes next
  inside: bool,
}

fn origin(i: u32) -> Walk {
  var w = Walk(i, 0u, 1u, true);
  for (var axis = 0u; axis < AXES; axis++) {
    let length = params_length(axis);
    let q = w.rest / params_out(axis);
    let c = source(i32(w.rest - q * params_out(axis)) - params_before(axis), length);
    w = Walk(q, w.index + u32(max(c, 0)) * w.scale, w.scale * u32(length), w.inside && c >= 0);
  }
  return w;
}

fn element(i: u32) -> y_t {
  let w = origin(i);
  if (!w.inside) { return y_from_bits(params.value); }
  return x_get(x_base(w.index));
}
fn owns(i: u32) -> bool {
  let w = origin(i);
  return !w.inside || x_has(x_base(w.index));
}
