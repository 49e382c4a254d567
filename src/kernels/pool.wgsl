// y = what windows of x hold: the largest or smallest element, their sum, mean or product, or a norm. Element i of y is
// (((b * out.x + o.x) * out.y + o.y) * out.z + o.z) * out.w + c, where b counts images if channels come last; otherwise
// it counts their channels too, and there is a single c. An invocation makes four neighbours, one in each component, and
// divides for the first only. Taps outside x are read elsewhere and not used: a branch costs more.
//@ in x any x4
//@ in bounds int
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
const FOUR: bool = false;  //@ spec
// Loops over few taps are unrolled; 0 where they are many.
const TAPS_Y: u32 = 0u;  //@ spec
const TAPS_Z: u32 = 0u;  //@ spec
// If the four windows lie in one line of x, this far apart, three vectors hold what they need of it: the first tap comes
// this many elements after the begin of the first vector.
const ROW_STRIDE: u32 = 0u;  //@ spec
const ROW_SHIFT: u32 = 0u;  //@ spec
const GROUP: u32 = 256u;

struct Params {
  first: u32,
  end: u32,
  nothing: u32,  // the bits of what a window without elements has
  image: u32,  // what b counts for in an index
  safe: u32,  // the position of an element that can be read
  power: f32,
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

struct Place {
  b: u32,
  o: vec3u,
  c: u32,
}
fn place(i: u32) -> Place {
  let pixel = i / params.out.w;
  let line = pixel / params.out.z;
  let slice = line / params.out.y;
  let b = slice / params.out.x;
  let o = vec3u(slice - b * params.out.x, line - slice * params.out.y, pixel - line * params.out.z);
  return Place(b, o, i - pixel * params.out.w);
}
// The one behind, if element i is before the end.
fn after(at: Place, i: u32) -> Place {
  if (i >= params.end) { return at; }
  var next = at;
  next.c += 1u;
  if (next.c < params.out.w) { return next; }
  next.c = 0u;
  next.o.z += 1u;
  if (next.o.z < params.out.z) { return next; }
  next.o.z = 0u;
  next.o.y += 1u;
  if (next.o.y < params.out.y) { return next; }
  next.o.y = 0u;
  next.o.x += 1u;
  if (next.o.x < params.out.x) { return next; }
  next.o.x = 0u;
  next.b += 1u;
  return next;
}

// The same for four; if FOUR, they are channels of one window.
struct Places {
  b: vec4u,
  x: vec4u,
  y: vec4u,
  z: vec4u,
  c: vec4u,
}
fn places(i: u32) -> Places {
  let p = place(i);
  if (FOUR) { return Places(vec4u(p.b), vec4u(p.o.x), vec4u(p.o.y), vec4u(p.o.z), p.c + vec4u(0u, 1u, 2u, 3u)); }
  let q = after(p, i + 1u);
  let r = after(q, i + 2u);
  let s = after(r, i + 3u);
  return Places(vec4u(p.b, q.b, r.b, s.b), vec4u(p.o.x, q.o.x, r.o.x, s.o.x), vec4u(p.o.y, q.o.y, r.o.y, s.o.y),
                vec4u(p.o.z, q.o.z, r.o.z, s.o.z), vec4u(p.c, q.c, r.c, s.c));
}

// Along one axis: the coordinate of the first tap, modulo 2^32, so that what lies before x is a large number, and where
// the elements end.
struct Axis {
  start: vec4u,
  end: vec4u,
}
fn bound(i: vec4u) -> vec4u { return vec4u(vec4i(bounds_at(i.x), bounds_at(i.y), bounds_at(i.z), bounds_at(i.w))); }
fn axis(o: vec4u, stride: u32, before: u32, length: u32, first_bound: u32) -> Axis {
  if (bounds_present) { return Axis(bound(2u * (first_bound + o)), bound(2u * (first_bound + o) + 1u)); }
  return Axis(o * stride - before, vec4u(length));
}

fn load(p: vec4u) -> vec4<x_t> {
  if (FOUR) { return x_get4(p.x); }
  return vec4<x_t>(x_get(p.x), x_get(p.y), x_get(p.z), x_get(p.w));
}

// The four elements of a line from coordinate k on, which are all in x or all outside.
fn load_row(line: u32, inside: bool, k: u32) -> vec4<x_t> {
  return x_get4(select(params.safe, line + k, inside && k < params.length.z));
}

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
// Also of what is no element.
fn is_nan_magnitude(m: vec4u) -> vec4<bool> { return (m > INFINITE) & vec4<bool>(FLOAT); }

struct Found {
  all: vec4<x_t>,
  magnitude: vec4u,  // the bits of the largest, without signs: above those of infinity if one was NaN
  index: vec4u,
  count: vec4u,  // of what a mean divides by
}
fn join(a: Found, given: vec4<x_t>, inside: vec4<bool>, index: vec4u) -> Found {
  var f = a;
  let v = select(vec4<x_t>(bitcast<x_t>(params.nothing)), given, inside);
  if (KIND == MAX || KIND == MIN) {
    let magnitude = bitcast<vec4u>(v) & vec4u(0x7fffffffu);
    if (indices_present) {
      let better = is_nan_magnitude(magnitude) |
                   (!is_nan_magnitude(a.magnitude) & ((v > a.all) | (a.index == NOT_FOUND)));
      f.index = select(a.index, index, inside & better);
    }
    if (FLOAT) { f.magnitude = max(a.magnitude, magnitude); }
    if (KIND == MAX) { f.all = max(a.all, v); } else { f.all = min(a.all, v); }
  } else if (KIND == PROD) {
    f.all = a.all * v;
  } else if (KIND == NORM) {
    f.all = a.all + power(v);
  } else {
    f.all = a.all + v;
  }
  if (KIND == MEAN && !PADDING_COUNTS) { f.count = a.count + select(vec4u(), vec4u(1u), inside); }
  return f;
}

// How many taps from coordinate `start` on lie in x or its padding.
fn padded_taps(start: vec4u, padded: u32, before: u32, dilation: u32, taps: u32) -> vec4u {
  return min((padded - (start + before) + dilation - 1u) / dilation, vec4u(taps));
}

fn pooled(at: Places) -> Found {
  let ax = axis(at.x, params.stride.x, params.before.x, params.length.x, 0u);
  let ay = axis(at.y, params.stride.y, params.before.y, params.length.y, params.out.x);
  let az = axis(at.z, params.stride.z, params.before.z, params.length.z, params.out.x + params.out.y);
  var channel = vec4u(x_base(at.b.x));
  if (!FOUR) { channel = vec4u(channel.x, x_base(at.b.y), x_base(at.b.z), x_base(at.b.w)); }
  channel += at.c * params.step.w;
  let index = at.b * params.image + at.c * params.index_step.w;
  let taps_y = select(TAPS_Y, params.taps.y, TAPS_Y == 0u);
  let taps_z = select(TAPS_Z, params.taps.z, TAPS_Z == 0u);
  var f = Found(vec4<x_t>(bitcast<x_t>(params.nothing)), vec4u(), NOT_FOUND, vec4u());
  for (var tx = 0u; tx < params.taps.x; tx++) {
    let i = ax.start + tx * params.dilation.x;
    for (var ty = 0u; ty < taps_y; ty++) {
      let j = ay.start + ty * params.dilation.y;
      let line_inside = (i < ax.end) & (j < ay.end);
      let line = channel + i * params.step.x + j * params.step.y;
      let line_index = index + i * params.index_step.x + j * params.index_step.y;
      var row = array<x_t, 12>();
      if (ROW_STRIDE > 0u) {
        let first = az.start.x - ROW_SHIFT;
        let p = load_row(line.x, line_inside.x, first);
        let q = load_row(line.x, line_inside.x, first + 4u);
        let r = load_row(line.x, line_inside.x, first + 8u);
        row = array<x_t, 12>(p.x, p.y, p.z, p.w, q.x, q.y, q.z, q.w, r.x, r.y, r.z, r.w);
      }
      for (var tz = 0u; tz < taps_z; tz++) {
        let k = az.start + tz * params.dilation.z;
        let inside = line_inside & (k < az.end);
        var v: vec4<x_t>;
        if (ROW_STRIDE > 0u) {
          let n = ROW_SHIFT + tz;
          v = vec4<x_t>(row[n], row[n + ROW_STRIDE], row[n + 2u * ROW_STRIDE], row[n + 3u * ROW_STRIDE]);
        } else {
          v = load(select(vec4u(params.safe), line + k * params.step.z, inside));
        }
        f = join(f, v, inside, line_index + k * params.index_step.z);
      }
    }
  }
  if (KIND == MEAN) {
    if (PADDING_COUNTS) {
      f.count = padded_taps(ax.start, params.padded.x, params.before.x, params.dilation.x, params.taps.x) *
                padded_taps(ay.start, params.padded.y, params.before.y, params.dilation.y, params.taps.y) *
                padded_taps(az.start, params.padded.z, params.before.z, params.dilation.z, params.taps.z);
    }
    f.all = f.all / vec4<x_t>(max(f.count, vec4u(1u)));
  }
  if (KIND == NORM) { f.all = root(f.all); }
  if (FLOAT && (KIND == MAX || KIND == MIN)) {
    f.all = select(f.all, vec4<x_t>(x_t(quiet_nan())), f.magnitude > INFINITE);
  }
  return f;
}

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = params.first + 4u * (group_index(group, groups) * GROUP + lane);
  if (i >= params.end) { return; }
  let f = pooled(places(i));
  if (i + 4u <= params.end) {
    y_put4(i, f.all);
    if (indices_present) { indices_put4(i, bitcast<vec4i>(f.index)); }
    return;
  }
  for (var e = 0u; i + e < params.end; e++) {
    y_put(i + e, f.all[e]);
    if (indices_present) { indices_put(i + e, i32(f.index[e])); }
  }
}
