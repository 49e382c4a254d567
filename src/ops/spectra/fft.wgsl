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
const PACKED: bool = false;  //@ spec        pairs of neighbouring floats of x are real and imaginary parts
const PAIRS_OUT: bool = false;  //@ spec     real and imaginary parts are pairs of neighbouring floats of y
const POWERS: bool = false;  //@ spec        length, columns, before and radices are powers of two; 16 is a radix

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

// Divisions take longer than the sums of a butterfly.
fn quotient(a: u32, b: u32) -> u32 {
  if (POWERS) { return a >> firstTrailingBit(b); }
  return a / b;
}
fn remainder(a: u32, b: u32) -> u32 {
  if (POWERS) { return a & (b - 1u); }
  return a % b;
}

fn pair_of_roots(i: u32) -> vec2f { return vec2f(roots_at(2u * i), roots_at(2u * i + 1u)); }

// exp(turn 2 pi i t / (before * length)); after the roots of `length`, the table has low and high ones.
fn far_root(t: u32) -> vec2f {
  let low = t & (params.low_roots - 1u);
  let high = t >> firstTrailingBit(params.low_roots);
  let base = params.length;
  return complex_mul(pair_of_roots(base + low), pair_of_roots(base + params.low_roots + high));
}

fn element_at(row: u32, index: u32) -> vec2f {
  if (PACKED) {
    let base = x_base(row);
    var pair = vec2f();
    if (2u * index < params.x_length) { pair.x = x_get(base + x_step(2u * index)); }
    if (2u * index + 1u < params.x_length) { pair.y = x_get(base + x_step(2u * index + 1u)); }
    return pair;
  }
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
  if (PAIRS_OUT) {
    y_put(y_base(row) + y_step(2u * i), v.x);
    y_put(y_base(row) + y_step(2u * i + 1u), v.y);
  } else if (REAL_OUT) {
    y_put(y_base(row) + y_step(i), v.x);
  } else {
    let p = y_base(row) + y_step(2u * i);
    y_put(p, v.x);
    y_put(p + 1u, v.y);
  }
}

// The first row of this workgroup, and its first column there.
fn first_place(index: u32) -> vec2u {
  if (params.row_columns == 1u) { return vec2u(params.first + index * params.columns, 0u); }
  let count = select(params.row_columns, params.block, BLOCK);
  let groups = quotient(count + params.columns - 1u, params.columns);
  let row = index / groups;
  return vec2u(params.first + row, (index - row * groups) * params.columns);
}

// The row of a column of this workgroup, and its place there; params.end if there is none.
fn place(first: vec2u, column: u32) -> vec2u {
  if (params.row_columns == 1u) { return vec2u(min(first.x + column, params.end), 0u); }
  let j = first.y + column;
  let count = select(params.row_columns, params.block, BLOCK);
  return vec2u(select(params.end, first.x, j < count), j + params.first_column);
}

// The discrete Fourier transform of four elements.
fn four(a: vec2f, b: vec2f, c: vec2f, d: vec2f) -> array<vec2f, 4> {
  let even = a + c;
  let odd = b + d;
  let even_difference = a - c;
  let o = b - d;
  let odd_difference = params.turn * vec2f(-o.y, o.x);
  return array<vec2f, 4>(even + odd, even_difference + odd_difference, even - odd, even_difference - odd_difference);
}

fn turned(at: u32, root: u32) -> vec2f { return complex_mul(tile[at], pair_of_roots(root)); }

// Four elements of a column to four, with the roots that the product `before` of earlier radices asks for.
fn four_step(from_tile: u32, to_tile: u32, before: u32, lane: u32) {
  let part = params.length / 4u;
  let unit = params.length / (4u * before);
  for (var i = lane; i < params.columns * part; i += GROUP) {
    let column = quotient(i, part);
    let b = i - column * part;
    let low = remainder(b, before);
    let p = from_tile + column * params.length + b;
    let t = low * unit;
    let v = four(tile[p], turned(p + part, t), turned(p + 2u * part, 2u * t), turned(p + 3u * part, 3u * t));
    let q = to_tile + column * params.length + 4u * (b - low) + low;
    tile[q] = v[0];
    tile[q + before] = v[1];
    tile[q + 2u * before] = v[2];
    tile[q + 3u * before] = v[3];
  }
}

// exp(turn 2 pi i t / 16) for t = 1, 2, 3; the others that are needed are products of these.
fn sixteenths() -> array<vec2f, 3> {
  return array<vec2f, 3>(vec2f(0.92387953, params.turn * 0.38268343), vec2f(0.70710678, params.turn * 0.70710678),
                         vec2f(0.38268343, params.turn * 0.92387953));
}

// Sixteen elements to sixteen, four by four: twice as far between two barriers.
fn sixteen_step(from_tile: u32, to_tile: u32, before: u32, lane: u32) {
  let part = params.length / 16u;
  let unit = params.length / (16u * before);
  let w = sixteenths();
  let quarter_turn = vec2f(0.0, params.turn);
  let w6 = vec2f(-w[1].x, w[1].y);
  for (var i = lane; i < params.columns * part; i += GROUP) {
    let column = quotient(i, part);
    let b = i - column * part;
    let low = remainder(b, before);
    let p = from_tile + column * params.length + b;
    let t = low * unit;
    let r0 = four(tile[p], turned(p + 4u * part, 4u * t), turned(p + 8u * part, 8u * t),
                  turned(p + 12u * part, 12u * t));
    let r1 = four(turned(p + part, t), turned(p + 5u * part, 5u * t), turned(p + 9u * part, 9u * t),
                  turned(p + 13u * part, 13u * t));
    let r2 = four(turned(p + 2u * part, 2u * t), turned(p + 6u * part, 6u * t), turned(p + 10u * part, 10u * t),
                  turned(p + 14u * part, 14u * t));
    let r3 = four(turned(p + 3u * part, 3u * t), turned(p + 7u * part, 7u * t), turned(p + 11u * part, 11u * t),
                  turned(p + 15u * part, 15u * t));
    let s0 = four(r0[0], r1[0], r2[0], r3[0]);
    let s1 = four(r0[1], complex_mul(r1[1], w[0]), complex_mul(r2[1], w[1]), complex_mul(r3[1], w[2]));
    let s2 = four(r0[2], complex_mul(r1[2], w[1]), complex_mul(r2[2], quarter_turn), complex_mul(r3[2], w6));
    let s3 = four(r0[3], complex_mul(r1[3], w[2]), complex_mul(r2[3], w6), complex_mul(r3[3], -w[0]));
    let q = to_tile + column * params.length + 16u * (b - low) + low;
    let next = 4u * before;
    tile[q] = s0[0];
    tile[q + next] = s0[1];
    tile[q + 2u * next] = s0[2];
    tile[q + 3u * next] = s0[3];
    tile[q + before] = s1[0];
    tile[q + before + next] = s1[1];
    tile[q + before + 2u * next] = s1[2];
    tile[q + before + 3u * next] = s1[3];
    tile[q + 2u * before] = s2[0];
    tile[q + 2u * before + next] = s2[1];
    tile[q + 2u * before + 2u * next] = s2[2];
    tile[q + 2u * before + 3u * next] = s2[3];
    tile[q + 3u * before] = s3[0];
    tile[q + 3u * before + next] = s3[1];
    tile[q + 3u * before + 2u * next] = s3[2];
    tile[q + 3u * before + 3u * next] = s3[3];
  }
}

// The same for any radix, one result after the other.
fn any_step(radix: u32, from_tile: u32, to_tile: u32, before: u32, lane: u32) {
  let part = params.length / radix;
  let unit = params.length / (radix * before);
  for (var i = lane; i < params.columns * params.length; i += GROUP) {
    let column = quotient(i, params.length);
    let o = i - column * params.length;
    let low = remainder(o, before);
    let k = remainder(quotient(o, before), radix);
    let p = from_tile + column * params.length + quotient(o, before * radix) * before + low;
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
  let first = first_place(index);
  let length = params.length;
  let count = params.columns * length;
  for (var i = lane; i < count; i += GROUP) {
    let across = select(length, params.columns, READ_ACROSS);
    let major = quotient(i, across);
    let minor = i - major * across;
    let column = select(major, minor, READ_ACROSS);
    let e = select(minor, major, READ_ACROSS);
    let at = place(first, column);
    var v = vec2f();
    if (at.x < params.end) {
      v = element_at(at.x, select(e * params.row_columns + at.y, e * params.block + at.y - params.first_column, BLOCK));
      if (params.before > 1u) { v = complex_mul(v, far_root(e * remainder(at.y, params.before))); }
    }
    tile[column * length + e] = v;
  }
  var from_tile = 0u;
  var before = 1u;
  for (var step = 0u; step < params.steps; step++) {
    workgroupBarrier();
    let radix = params_radices(step);
    if (POWERS && radix == 16u) {
      sixteen_step(from_tile, TILE - from_tile, before, lane);
    } else if (radix == 4u) {
      four_step(from_tile, TILE - from_tile, before, lane);
    } else {
      any_step(radix, from_tile, TILE - from_tile, before, lane);
    }
    from_tile = TILE - from_tile;
    before *= radix;
  }
  workgroupBarrier();
  for (var i = lane; i < count; i += GROUP) {
    let across = select(length, params.columns, WRITE_ACROSS);
    let major = quotient(i, across);
    let minor = i - major * across;
    let column = select(major, minor, WRITE_ACROSS);
    let k = select(minor, major, WRITE_ACROSS);
    let at = place(first, column);
    if (at.x >= params.end) { continue; }
    let low = remainder(at.y, params.before);
    let whole = (at.y - low) * length + low + k * params.before;
    put_element(at.x, select(whole, k * params.block + at.y - params.first_column, BLOCK), tile[from_tile + column * length + k]);
  }
}
