// Discrete Fourier transforms of columns in workgroup memory. A row of n elements has `row_columns` columns, each of
// `length` elements that lie `row_columns` apart; `before` is the product of the lengths of earlier passes over the row.
// The first elements of all columns come first in memory, and so do results: pass after pass sorts them (Stockham).
//@ in x float
//@ in roots float
//@ in pre float
//@ in post float
//@ out y float

const GROUP: u32 = 64u;  //@ spec
const TILE: u32 = 1024u;  //@ spec
const COMPLEX_IN: bool = true;  //@ spec     x has pairs of real and imaginary parts
const MIRROR: bool = false;  //@ spec        x has the bins 0 .. n / 2; the others are their conjugates
const REAL_OUT: bool = false;  //@ spec      only real parts are wanted
const READ_ACROSS: bool = false;  //@ spec   neighbours in memory belong to neighbouring columns
const WRITE_ACROSS: bool = false;  //@ spec
const BLOCK: bool = false;  //@ spec         x and y have only some columns, [length, block]

struct Params {
  first: u32,  // row
  end: u32,
  signal: u32,  // elements of a row that x stands for; the others are zero
  length: u32,
  row_columns: u32,
  columns: u32,  // of a workgroup
  before: u32,
  first_column: u32,
  block: u32,
  x_length: u32,  // elements of a row that x has; the others are zero too
  y_length: u32,  // elements of a row that are wanted
  low_roots: u32,  // a power of two: roots of all before * length are products of one of these and a high one
  scale: f32,
  turn: f32,  // -1, or 1 for the inverse
  steps: u32,
  radices: array<u32, 12>,
}

var<workgroup> tile: array<vec2f, 2u * TILE>;

fn pair_of_roots(i: u32) -> vec2f { return vec2f(roots_at(2u * i), roots_at(2u * i + 1u)); }

// exp(turn 2 pi i t / (before * length)); after the roots of `length`, the table has low and high ones.
fn far_root(t: u32) -> vec2f {
  let low = t & (params.low_roots - 1u);
  let high = t / params.low_roots;
  let base = params.length;
  return complex_mul(pair_of_roots(base + low), pair_of_roots(base + params.low_roots + high));
}

fn element_at(row: u32, index: u32) -> vec2f {
  var i = index;
  let mirrored = MIRROR && 2u * i > params.signal;
  if (mirrored) { i = params.signal - i; }
  if (index >= params.signal || i >= params.x_length) { return vec2f(); }
  var v = vec2f();
  if (COMPLEX_IN) {
    let p = x_base(row) + x_step(2u * i);
    v = vec2f(x_get(p), x_get(p + 1u));
  } else {
    v.x = x_get(x_base(row) + x_step(i));
  }
  if (MIRROR) {
    if (i == 0u || 2u * i == params.signal) { v.y = 0.0; }
    if (mirrored) { v.y = -v.y; }
  }
  if (pre_present) { v = complex_mul(v, vec2f(pre_at(2u * index), pre_at(2u * index + 1u))); }
  return v;
}

fn put_element(row: u32, i: u32, value: vec2f) {
  if (i >= params.y_length) { return; }
  var v = value;
  if (post_present) { v = complex_mul(v, vec2f(post_at(2u * i), post_at(2u * i + 1u))); }
  v *= params.scale;
  if (REAL_OUT) {
    y_put(y_base(row) + y_step(i), v.x);
  } else {
    let p = y_base(row) + y_step(2u * i);
    y_put(p, v.x);
    y_put(p + 1u, v.y);
  }
}

// The row of a column of this workgroup, and its place there; params.end if there is none.
fn place(index: u32, column: u32) -> vec2u {
  if (params.row_columns == 1u) { return vec2u(min(params.first + index * params.columns + column, params.end), 0u); }
  let count = select(params.row_columns, params.block, BLOCK);
  let groups = (count + params.columns - 1u) / params.columns;
  let j = (index % groups) * params.columns + column;
  return vec2u(select(params.end, params.first + index / groups, j < count), j + params.first_column);
}

// Four elements of a column to four, with the roots that the product `before` of earlier radices asks for.
fn four_step(from_tile: u32, to_tile: u32, before: u32, lane: u32) {
  let quarter = params.length / 4u;
  let unit = params.length / (4u * before);
  for (var i = lane; i < params.columns * quarter; i += GROUP) {
    let column = i / quarter;
    let b = i - column * quarter;
    let low = b % before;
    let p = from_tile + column * params.length + b;
    let v0 = tile[p];
    let v1 = complex_mul(tile[p + quarter], pair_of_roots(low * unit));
    let v2 = complex_mul(tile[p + 2u * quarter], pair_of_roots(2u * low * unit));
    let v3 = complex_mul(tile[p + 3u * quarter], pair_of_roots(3u * low * unit));
    let even = v0 + v2;
    let odd = v1 + v3;
    let even_difference = v0 - v2;
    let d = v1 - v3;
    let odd_difference = params.turn * vec2f(-d.y, d.x);
    let q = to_tile + column * params.length + 4u * (b - low) + low;
    tile[q] = even + odd;
    tile[q + before] = even_difference + odd_difference;
    tile[q + 2u * before] = even - odd;
    tile[q + 3u * before] = even_difference - odd_difference;
  }
}

// The same for any radix, one result after the other.
fn any_step(radix: u32, from_tile: u32, to_tile: u32, before: u32, lane: u32) {
  let part = params.length / radix;
  let unit = params.length / (radix * before);
  for (var i = lane; i < params.columns * params.length; i += GROUP) {
    let column = i / params.length;
    let o = i - column * params.length;
    let low = o % before;
    let k = (o / before) % radix;
    let p = from_tile + column * params.length + o / (before * radix) * before + low;
    let turn = (low + before * k) * unit;
    var sum = tile[p];
    var at = 0u;
    for (var e = 1u; e < radix; e++) {
      at += turn;
      if (at >= params.length) { at -= params.length; }
      sum += complex_mul(tile[p + e * part], pair_of_roots(at));
    }
    tile[to_tile + i] = sum;
  }
}

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let index = group_index(group, groups);
  if (index >= group_count()) { return; }
  let length = params.length;
  let count = params.columns * length;
  for (var i = lane; i < count; i += GROUP) {
    let column = select(i / length, i % params.columns, READ_ACROSS);
    let e = select(i % length, i / params.columns, READ_ACROSS);
    let at = place(index, column);
    var v = vec2f();
    if (at.x < params.end) {
      v = element_at(at.x, select(e * params.row_columns + at.y, e * params.block + at.y - params.first_column, BLOCK));
      if (params.before > 1u) { v = complex_mul(v, far_root(e * (at.y % params.before))); }
    }
    tile[column * length + e] = v;
  }
  var from_tile = 0u;
  var before = 1u;
  for (var step = 0u; step < params.steps; step++) {
    workgroupBarrier();
    let radix = params_radices(step);
    if (radix == 4u) {
      four_step(from_tile, TILE - from_tile, before, lane);
    } else {
      any_step(radix, from_tile, TILE - from_tile, before, lane);
    }
    from_tile = TILE - from_tile;
    before *= radix;
  }
  workgroupBarrier();
  for (var i = lane; i < count; i += GROUP) {
    let column = select(i / length, i % params.columns, WRITE_ACROSS);
    let k = select(i % length, i / params.columns, WRITE_ACROSS);
    let at = place(index, column);
    if (at.x >= params.end) { continue; }
    let low = at.y % params.before;
    let whole = (at.y - low) * length + low + k * params.before;
    put_element(at.x, select(whole, k * params.block + at.y - params.first_column, BLOCK), tile[from_tile + column * length + k]);
  }
}
