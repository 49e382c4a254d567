// y = what windows of x hold: the largest or smallest element, their sum, mean or product, or a norm. Element i of y is
// (((b * out.x + o.x) * out.y + o.y) * out.z + o.z) * out.w + c, where b counts images if channels come last; otherwise
// it counts their channels too, and there is a single c. An invocation makes four neighbours and divides for the first only.
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
const DILATED: bool = false;  //@ spec
const PADDING_COUNTS: bool = false;  //@ spec
const FOUR: bool = false;  //@ spec
const GROUP: u32 = 256u;

struct Params {
  first: u32,
  end: u32,
  nothing: u32,  // the bits of what a window without elements has
  image: u32,  // what b counts for in an index
  power: f32,
  out: vec4u,
  length: vec4i,  // of the spatial axes of x
  padded: vec4i,  // the same with the padding behind them
  before: vec4i,
  stride: vec4i,
  dilation: vec4i,
  reach: vec4i,  // from a window's first tap to past its last
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
fn after(at: Place) -> Place {
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

// The taps of a window that lie in x, from begin to before end, and what a mean divides by.
struct Window {
  begin: vec3i,
  end: vec3i,
  count: i32,
}
fn taps(begin: vec3i, end: vec3i) -> i32 {
  var n = max(end - begin, vec3i());
  if (DILATED) { n = (n + params.dilation.xyz - 1) / params.dilation.xyz; }
  return n.x * n.y * n.z;
}
fn window(o: vec3u) -> Window {
  if (bounds_present) {
    let i = 2u * vec3u(o.x, params.out.x + o.y, params.out.x + params.out.y + o.z);
    let first = vec3i(bounds_at(i.x), bounds_at(i.y), bounds_at(i.z));
    let last = vec3i(bounds_at(i.x + 1u), bounds_at(i.y + 1u), bounds_at(i.z + 1u));
    return Window(first, last, taps(first, last));
  }
  let start = vec3i(o) * params.stride.xyz - params.before.xyz;
  let end = min(start + params.reach.xyz, params.length.xyz);
  var begin = max(start, vec3i());
  if (DILATED) {
    begin = start + (begin - start + params.dilation.xyz - 1) / params.dilation.xyz * params.dilation.xyz;
  }
  if (PADDING_COUNTS) {
    return Window(begin, end, taps(start, min(start + params.reach.xyz, params.padded.xyz)));
  }
  return Window(begin, end, taps(begin, end));
}

// Four channels, or one that counts: the others are then not computed at all.
fn load(p: u32) -> vec4<x_t> {
  if (FOUR) { return x_get4(p); }
  return vec4<x_t>(x_get(p));
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

struct Found {
  all: vec4<x_t>,
  magnitude: vec4u,  // the bits of the largest, without signs: above those of infinity if one was NaN
  index: vec4u,
}
fn join(a: Found, v: vec4<x_t>, index: vec4u) -> Found {
  var f = a;
  if (KIND == MAX || KIND == MIN) {
    let magnitude = bitcast<vec4u>(v) & vec4u(0x7fffffffu);
    if (indices_present) {
      let nan = vec4<bool>(vec4u(select(0u, 1u, FLOAT))) & (magnitude > INFINITE);
      let had_nan = vec4<bool>(vec4u(select(0u, 1u, FLOAT))) & (a.magnitude > INFINITE);
      f.index = select(a.index, index, nan | (!had_nan & ((v > a.all) | (a.index == NOT_FOUND))));
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
  return f;
}

fn pooled(at: Place) -> Found {
  let w = window(at.o);
  let channel = x_base(at.b) + at.c * params.step.w;
  let lane = select(vec4u(), vec4u(0u, 1u, 2u, 3u), FOUR);
  let index = vec4u(at.b * params.image) + (at.c + lane) * params.index_step.w;
  let d = select(vec3i(1), params.dilation.xyz, DILATED);
  var f = Found(vec4<x_t>(bitcast<x_t>(params.nothing)), vec4u(), NOT_FOUND);
  for (var i = w.begin.x; i < w.end.x; i += d.x) {
    for (var j = w.begin.y; j < w.end.y; j += d.y) {
      let line = channel + u32(i) * params.step.x + u32(j) * params.step.y;
      let line_index = index + u32(i) * params.index_step.x + u32(j) * params.index_step.y;
      for (var k = w.begin.z; k < w.end.z; k += d.z) {
        f = join(f, load(line + u32(k) * params.step.z), line_index + u32(k) * params.index_step.z);
      }
    }
  }
  if (KIND == MEAN) { f.all = f.all / vec4<x_t>(x_t(max(w.count, 1))); }
  if (KIND == NORM) { f.all = root(f.all); }
  if (FLOAT && (KIND == MAX || KIND == MIN)) {
    f.all = select(f.all, vec4<x_t>(x_t(quiet_nan())), f.magnitude > INFINITE);
  }
  return f;
}

fn put(i: u32, all: vec4<x_t>, index: vec4u) {
  if (i + 4u <= params.end) {
    y_put4(i, all);
    if (indices_present) { indices_put4(i, bitcast<vec4i>(index)); }
    return;
  }
  for (var e = 0u; i + e < params.end; e++) {
    y_put(i + e, all[e]);
    if (indices_present) { indices_put(i + e, i32(index[e])); }
  }
}

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = params.first + 4u * (group_index(group, groups) * GROUP + lane);
  if (i >= params.end) { return; }
  var at = place(i);
  if (FOUR) {
    let f = pooled(at);
    put(i, f.all, f.index);
    return;
  }
  var all = vec4<x_t>();
  var index = vec4u();
  for (var e = 0u; e < 4u && i + e < params.end; e++) {
    let f = pooled(at);
    all[e] = f.all.x;
    index[e] = f.index.x;
    at = after(at);
  }
  put(i, all, index);
}
