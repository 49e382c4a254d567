// y is x with more (or, where `before` is negative, fewer) elements at the ends of its axes. Axes that are not padded are
// joined by the host; axis 0 is the last.
//@ in x any
//@ out y any
//@ use flat
const AXES: u32 = 6u;  //@ spec
const MODE: u32 = 0u;  //@ spec

struct Params {
  first: u32,
  end: u32,
  value: u32,  // bits of y's type
  out0: u32,
  out1: u32,
  out2: u32,
  out3: u32,
  out4: u32,
  out5: u32,
  length0: i32,
  length1: i32,
  length2: i32,
  length3: i32,
  length4: i32,
  length5: i32,
  before0: i32,
  before1: i32,
  before2: i32,
  before3: i32,
  before4: i32,
  before5: i32,
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

fn walk(w: Walk, out: u32, length: i32, before: i32) -> Walk {
  let q = w.rest / out;
  let c = source(i32(w.rest - q * out) - before, length);
  return Walk(q, w.index + u32(max(c, 0)) * w.scale, w.scale * u32(length), w.inside && c >= 0);
}

fn origin(i: u32) -> Walk {
  var w = walk(Walk(i, 0u, 1u, true), params.out0, params.length0, params.before0);
  if (AXES > 1u) { w = walk(w, params.out1, params.length1, params.before1); }
  if (AXES > 2u) { w = walk(w, params.out2, params.length2, params.before2); }
  if (AXES > 3u) { w = walk(w, params.out3, params.length3, params.before3); }
  if (AXES > 4u) { w = walk(w, params.out4, params.length4, params.before4); }
  if (AXES > 5u) { w = walk(w, params.out5, params.length5, params.before5); }
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
