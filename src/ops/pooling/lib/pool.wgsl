// What the kernels of pools share. A window holds the largest or smallest element, a sum, mean or product, or a norm;
// here four windows at once, one in each component.
//@ in x any x4
//@ out y any x4
//@ out indices int x4

const KIND: u32 = 0u;  //@ spec
const MAX: u32 = 0u;
const MIN: u32 = 1u;
const MEAN: u32 = 3u;
const PROD: u32 = 4u;
const NORM: u32 = 5u;
const POWER: u32 = 2u;  //@ spec
const FLOAT: bool = true;  //@ spec
const PADDING_COUNTS: bool = false;  //@ spec
const GROUP: u32 = 256u;

struct Params {
  first: u32,
  end: u32,
  nothing: u32,  // the bits of what a window without elements has
  image: u32,  // what the first index of x_base counts for in an index
  safe: u32,  // the position of an element that can be read
  power: f32,
  quads: u32,  // of a line of y (pool_rows)
  blocks: u32,  // of LINES lines of a plane of y (pool_rows)
  out: vec4u,
  taps: vec4u,
  length: vec4u,  // of the spatial axes of x
  padded: vec4u,  // the same with the padding on both sides
  before: vec4u,
  stride: vec4u,
  dilation: vec4u,
  step: vec4u,  // of a spatial axis or the channels in memory, modulo 2^32
  index_step: vec4u,
}

fn nothing() -> vec4<x_t> { return vec4<x_t>(bitcast<x_t>(params.nothing)); }

fn power(v: vec4<x_t>) -> vec4<x_t> {
  let a = abs(vec4f(v));
  if (POWER == 1u) { return vec4<x_t>(a); }
  if (POWER == 2u) { return v * v; }
  return vec4<x_t>(vec4f(pow_f32(a.x, params.power), pow_f32(a.y, params.power), pow_f32(a.z, params.power),
                         pow_f32(a.w, params.power)));
}
fn root(v: vec4<x_t>) -> vec4<x_t> {
  let a = vec4f(v);
  if (POWER == 1u) { return v; }
  if (POWER == 2u) { return vec4<x_t>(sqrt(a)); }
  let p = 1.0 / params.power;
  return vec4<x_t>(vec4f(pow_f32(a.x, p), pow_f32(a.y, p), pow_f32(a.z, p), pow_f32(a.w, p)));
}

const INFINITE: vec4u = vec4u(0x7f800000u);
const NOT_FOUND: vec4u = vec4u(0xffffffffu);
fn is_nan_magnitude(m: vec4u) -> vec4<bool> { return (m > INFINITE) & vec4<bool>(FLOAT); }

// What is known of some elements of the windows.
struct Found {
  all: vec4<x_t>,
  magnitude: vec4u,  // the bits of the largest, without signs: above those of infinity if one was NaN
  index: vec4u,
}
fn found_nothing() -> Found { return Found(nothing(), vec4u(), NOT_FOUND); }

// b comes after a: of equal elements the first one counts, of NaNs the last.
fn joined(a: Found, b: Found) -> Found {
  var f = a;
  if (KIND == MAX || KIND == MIN) {
    if (FLOAT) { f.magnitude = max(a.magnitude, b.magnitude); }
    if (KIND == MIN) {
      f.all = min(a.all, b.all);
    } else if (indices_present) {
      // Not max(): beside the comparison, lavapipe (LLVM 21, AVX-512, 8 lanes) returns other elements of f16.
      let larger = b.all > a.all;
      let better = is_nan_magnitude(b.magnitude) |
                   (!is_nan_magnitude(a.magnitude) & (larger | (a.index == NOT_FOUND)));
      f.index = select(a.index, b.index, better & (b.index != NOT_FOUND));
      f.all = select(a.all, b.all, larger);
    } else {
      f.all = max(a.all, b.all);
    }
  } else if (KIND == PROD) {
    f.all = a.all * b.all;
  } else {
    f.all = a.all + b.all;
  }
  return f;
}

// One element of each window, `nothing` where it is outside x.
fn with_element(a: Found, v: vec4<x_t>, inside: vec4<bool>, index: vec4u) -> Found {
  var one = Found(v, vec4u(), NOT_FOUND);
  if (KIND == NORM) { one.all = power(v); }
  if (FLOAT && (KIND == MAX || KIND == MIN)) { one.magnitude = bitcast<vec4u>(v) & vec4u(0x7fffffffu); }
  if (indices_present) { one.index = select(NOT_FOUND, index, inside); }
  return joined(a, one);
}

// How many of the taps from coordinate `start` on a mean divides by along one axis: those in x or those in x and its
// padding. `start` is modulo 2^32.
fn counted_taps(start: vec4u, length: u32, before: u32, padded: u32, dilation: u32, taps: u32) -> vec4u {
  var low = 0u;
  var high = length;
  if (PADDING_COUNTS) {
    low -= before;
    high = padded - before;
  }
  return taps_before(high - start, dilation, taps) - taps_before(low - start, dilation, taps);
}
fn taps_before(distance: vec4u, dilation: u32, taps: u32) -> vec4u {
  let d = vec4u(max(bitcast<vec4i>(distance), vec4i()));
  return min((d + dilation - 1u) / dilation, vec4u(taps));
}

// `count` is that of a mean.
fn result(f: Found, count: vec4u) -> vec4<x_t> {
  if (KIND == MEAN) { return f.all / vec4<x_t>(max(count, vec4u(1u))); }
  if (KIND == NORM) { return root(f.all); }
  if (FLOAT && (KIND == MAX || KIND == MIN)) {
    return select(f.all, vec4<x_t>(x_t(quiet_nan())), f.magnitude > INFINITE);
  }
  return f.all;
}
