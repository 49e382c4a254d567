// Where quantiles lie in rows of which only the first elements, in ascending order, are numbers: y[row, j] is (m - 1) q[j]
// for a row of m, as the element below, the one above, or what lies between. m is `length` less missing[row].
//@ in missing int
//@ in q any
//@ out y any
//@ use flat

const MODE: u32 = 0u;  //@ spec
const LINEAR: u32 = 0u;
const LOWER: u32 = 1u;
const NEAREST: u32 = 3u;
const MIDPOINT: u32 = 4u;
const WHAT: u32 = 0u;  //@ spec
const BELOW: u32 = 0u;
const ABOVE: u32 = 1u;
const BETWEEN: u32 = 2u;

struct Params {
  first: u32,
  end: u32,
  length: u32,
  count: u32,  // of quantiles
}

// q has 32 bits behind the point, in two words of 16 and more: whole and fraction of last * q, to the nearest that an
// error of half a bit of q allows to be whole.
fn place(last: u32, q: vec2u) -> vec2u {
  let high = last >> 16u;
  let low = last & 0xffffu;
  let across = low * q.x;
  let bottom = low * q.y;
  let middle = high * q.y + (across & 0xffffu) + (bottom >> 16u);
  var whole = high * q.x + (across >> 16u) + (middle >> 16u);
  var fraction = (middle << 16u) | (bottom & 0xffffu);
  let slack = (last + 1u) / 2u;
  if (fraction > 0xffffffffu - slack) {
    whole += 1u;
    fraction = 0u;
  } else if (fraction <= slack) {
    fraction = 0u;
  }
  return vec2u(whole, fraction);
}

fn element(i: u32) -> y_t {
  let row = i / params.count;
  let j = i - row * params.count;
  let missing = min(u32(missing_at(row)), params.length - 1u);  // of a row without numbers, the first element
  let at = place(params.length - missing - 1u, vec2u(u32(q_at(2u * j)), u32(q_at(2u * j + 1u))));
  var up = at.y > 0u;
  if (WHAT == BETWEEN) { return y_t(select(f32(at.y) * (1.0 / 4294967296.0), select(0.0, 0.5, up), MODE == MIDPOINT)); }
  if (MODE == NEAREST) { up = at.y > 0x80000000u || (at.y == 0x80000000u && (at.x & 1u) == 1u); }
  if (MODE == LOWER || (WHAT == BELOW && (MODE == LINEAR || MODE == MIDPOINT))) { up = false; }
  return y_t(at.x + select(0u, 1u, up));
}
