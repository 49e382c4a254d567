// y = x with the pairs of each head rotated by the angle of their position.
//@ in x float
//@ in cosines float
//@ in sines float
//@ in positions int
//@ out y float
//@ use flat
//@ include rope

struct Params {
  first: u32,
  end: u32,
  length: u32,
  width: u32,
  head: u32,
  pairs: u32,
  last_position: i32,
}

fn position(row: u32) -> u32 {
  if (!positions_present) { return min(row % params.length, u32(params.last_position)); }
  return u32(clamp(positions_get(positions_flat(row)), 0, params.last_position));
}

fn element(i: u32) -> y_t { return rotated(i); }
