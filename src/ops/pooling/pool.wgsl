// y = what windows of x hold. Element i of y is (((b * out.x + o.x) * out.y + o.y) * out.z + o.z) * out.w + c, where b counts
// images if channels come last; otherwise it counts their channels too, and there is a single c. An invocation makes four
// neighbours and divides for the first only. Taps outside x are read elsewhere and not used: a branch costs more.
//@ include pool
//@ in bounds int

const FOUR: bool = false;  //@ spec
// Loops over few taps are unrolled; 0 where they are many.
const TAPS_Y: u32 = 0u;  //@ spec
const TAPS_Z: u32 = 0u;  //@ spec

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
fn count(a: Axis, length: u32, before: u32, padded: u32, dilation: u32, taps: u32) -> vec4u {
  if (bounds_present) { return a.end - a.start; }
  return counted_taps(a.start, length, before, padded, dilation, taps);
}

fn load(p: vec4u, inside: vec4<bool>) -> vec4<x_t> {
  let at = select(vec4u(params.safe), p, inside);
  if (FOUR) { return select(nothing(), x_get4(at.x), inside); }
  return select(nothing(), vec4<x_t>(x_get(at.x), x_get(at.y), x_get(at.z), x_get(at.w)), inside);
}

struct Pooled {
  y: vec4<x_t>,
  index: vec4u,
}
fn pooled(at: Places) -> Pooled {
  let ax = axis(at.x, params.stride.x, params.before.x, params.length.x, 0u);
  let ay = axis(at.y, params.stride.y, params.before.y, params.length.y, params.out.x);
  let az = axis(at.z, params.stride.z, params.before.z, params.length.z, params.out.x + params.out.y);
  var channel = vec4u(x_base(at.b.x));
  if (!FOUR) { channel = vec4u(channel.x, x_base(at.b.y), x_base(at.b.z), x_base(at.b.w)); }
  channel += at.c * params.step.w;
  let index = at.b * params.image + at.c * params.index_step.w;
  let taps_y = select(TAPS_Y, params.taps.y, TAPS_Y == 0u);
  let taps_z = select(TAPS_Z, params.taps.z, TAPS_Z == 0u);
  var f = found_nothing();
  for (var tx = 0u; tx < params.taps.x; tx++) {
    let i = ax.start + tx * params.dilation.x;
    for (var ty = 0u; ty < taps_y; ty++) {
      let j = ay.start + ty * params.dilation.y;
      let line_inside = (i < ax.end) & (j < ay.end);
      let line = channel + i * params.step.x + j * params.step.y;
      let line_index = index + i * params.index_step.x + j * params.index_step.y;
      for (var tz = 0u; tz < taps_z; tz++) {
        let k = az.start + tz * params.dilation.z;
        let inside = line_inside & (k < az.end);
        let v = load(line + k * params.step.z, inside);
        f = with_element(f, v, inside, line_index + k * params.index_step.z);
      }
    }
  }
  var counted = vec4u();
  if (KIND == MEAN) {
    counted = count(ax, params.length.x, params.before.x, params.padded.x, params.dilation.x, params.taps.x) *
              count(ay, params.length.y, params.before.y, params.padded.y, params.dilation.y, params.taps.y) *
              count(az, params.length.z, params.before.z, params.padded.z, params.dilation.z, params.taps.z);
  }
  return Pooled(result(f, counted), f.index);
}

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = params.first + 4u * (group_index(group, groups) * GROUP + lane);
  if (i >= params.end) { return; }
  let p = pooled(places(i));
  if (i + 4u <= params.end) {
    y_put4(i, p.y);
    if (indices_present) { indices_put4(i, bitcast<vec4i>(p.index)); }
    return;
  }
  for (var e = 0u; i + e < params.end; e++) {
    y_put(i + e, p.y[e]);
    if (indices_present) { indices_put(i + e, i32(p.index[e])); }
  }
}
