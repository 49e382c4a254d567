// y = x with the pairs of each head rotated by the angle of their position.
//@ in x float
//@ in cosines float
//@ in sines float
//@ in positions int
//@ out y float
//@ use flat

const INTERLEAVED: bool = false;  //@ spec

struct Params {
  first: u32,
  end: u32,
  length: u32,
  width: u32,
  head: u32,
  pairs: u32,
  first_position: u32,
  last_position: i32,
}

fn position(row: u32) -> u32 {
  if (!positions_present) { return min(params.first_position + row % params.length, u32(params.last_position)); }
  return u32(clamp(positions_get(positions_flat(row)), 0, params.last_position));
}

fn element(i: u32) -> y_t {
  let here = x_get(x_flat(i));
  let dim = (i % params.width) % params.head;
  if (dim >= 2u * params.pairs) { return here; }
  // The first of a pair becomes a cos - b sin, the second b cos + a sin.
  let second = select(dim >= params.pairs, dim % 2u == 1u, INTERLEAVED);
  let pair = select(dim - select(0u, params.pairs, second), dim / 2u, INTERLEAVED);
  let apart = select(params.pairs, 1u, INTERLEAVED);
  let other = x_get(x_flat(select(i + apart, i - apart, second)));
  let t = position(i / params.width) * params.pairs + pair;
  let turned = other * sines_get(sines_flat(t));
  return fma(here, cosines_get(cosines_flat(t)), select(-turned, turned, second));
}
