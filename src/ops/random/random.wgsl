// y[i] = a random number that depends on the seed, the stream and i, or x[i] plus such a number that depends on the row
// and on ids[i], or i's place in the row.
//@ in seed any
//@ in x float
//@ in ids any
//@ out y any
//@ use flat

const KIND: u32 = 0u;  //@ spec
const BITS: u32 = 0u;
const UNIFORM: u32 = 1u;
const NORMAL: u32 = 2u;
const GUMBEL: u32 = 3u;

struct Params {
  first: u32,
  end: u32,
  stream: u32,
  seed_words: u32,
  length: u32,  // of rows
  shift: u32,  // of words, for as many bits as the type has
  unit: f32,  // the difference of neighbours in [0, 1)
  base: f32,
  factor: f32,
  most: f32,  // no number is larger, whatever is rounded
}

fn words_at(row: u32, number: u32) -> vec2u {
  var seed = vec2u(u32(seed_at(0u)), 0u);
  if (params.seed_words > 1u) { seed.y = u32(seed_at(1u)); }
  return threefry(threefry(seed, vec2u(params.stream, 0u)), vec2u(row, number));
}

fn with_gumbel(i: u32) -> f32 {
  let value = x_at(i);
  if (is_inf(value)) { return value; }
  let row = i / params.length;
  var number = i - row * params.length;
  if (ids_present) { number = u32(ids_at(i)); }
  return value + gumbel_of(words_at(row, number).x);
}

fn element(i: u32) -> y_t {
  if (KIND == GUMBEL) { return y_t(with_gumbel(i)); }
  let words = words_at(0u, i);
  if (KIND == BITS) { return y_t(words.x); }
  if (KIND == UNIFORM) {
    let value = as_is(f32(words.x >> params.shift) * params.unit * params.factor) + params.base;
    return y_t(min(value, params.most));
  }
  return y_t(as_is(params.factor * normal_of(words)) + params.base);
}

fn owns(i: u32) -> bool {
  return (!x_present || x_has(x_flat(i))) && (!ids_present || ids_has(ids_flat(i)));
}
