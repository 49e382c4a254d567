// The rotation of pairs, for kernels that have `x`, `cosines`, `sines`, the parameters width, head and pairs, and a
// function position(row) that gives a row of the tables.
const INTERLEAVED: bool = false;  //@ spec
const ROUNDED: u32 = 0u;  //@ spec          the type that products are rounded to (held_as)

// Element i of x, rotated with the other one of its pair.
fn rotated(i: u32) -> f32 {
  let here = x_get(x_flat(i));
  let dim = (i % params.width) % params.head;
  if (dim >= 2u * params.pairs) { return here; }
  // The first of a pair becomes a cos - b sin, the second b cos + a sin.
  let second = select(dim >= params.pairs, dim % 2u == 1u, INTERLEAVED);
  let pair = select(dim - select(0u, params.pairs, second), dim / 2u, INTERLEAVED);
  let apart = select(params.pairs, 1u, INTERLEAVED);
  let other = x_get(x_flat(select(i + apart, i - apart, second)));
  let t = position(i / params.width) * params.pairs + pair;
  // Both products are rounded, as they are where exporters write them out as nodes (passes/fuse_rope.cpp).
  let kept = held_as(ROUNDED, as_is(here * cosines_get(cosines_flat(t))));
  let turned = held_as(ROUNDED, as_is(other * sines_get(sines_flat(t))));
  return kept + select(-turned, turned, second);
}
