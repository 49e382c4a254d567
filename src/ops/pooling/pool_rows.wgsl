// y = what windows of x hold, of images whose channels come first. An invocation makes LINES lines of four neighbouring
// windows. It walks down x: what a line of x holds for the four is found once, from at most twelve elements, and joined to
// all windows that reach over the line.
//@ include pool

const LINES: u32 = 1u;  //@ spec
const DEPTH: bool = false;  //@ spec      there is a third spatial axis
const TAPS_Y: u32 = 1u;  //@ spec
const TAPS_Z: u32 = 1u;  //@ spec
const STRIDE_Y: u32 = 1u;  //@ spec
const STRIDE_Z: u32 = 1u;  //@ spec
// How far the first tap of a window, whose number is a multiple of four, lies after a multiple of four, if X4.
const SHIFT: u32 = 0u;  //@ spec
const X4: bool = false;  //@ spec         lines of x are vectors
const Y4: bool = false;  //@ spec         likewise those of y

const NEEDED: u32 = SHIFT + TAPS_Z + 3u * STRIDE_Z;  // elements of a line of x, less than twelve
// The lines of windows that a line of x can belong to, and how many of its lines a window shares with the one before.
const HELD: u32 = select(1u, (TAPS_Y + STRIDE_Y - 1u) / STRIDE_Y, LINES > 1u);
const SHARED: u32 = select(0u, max(TAPS_Y, STRIDE_Y) - STRIDE_Y, LINES > 1u);

struct Task {
  x: u32,  // the position of the channel
  index: u32,
  o: vec3u,
}

// Four elements from coordinate k on of a line of x.
fn load(line: u32, inside: bool, k: u32) -> vec4<x_t> {
  if (X4) {
    let has = inside && k < params.length.z;
    return select(nothing(), x_get4(select(params.safe, line + k, has)), has);
  }
  let ks = k + vec4u(0u, 1u, 2u, 3u);
  let has = vec4<bool>(inside) & (ks < vec4u(params.length.z));
  let at = select(vec4u(params.safe), line + ks * params.step.z, has);
  return select(nothing(), vec4<x_t>(x_get(at.x), x_get(at.y), x_get(at.z), x_get(at.w)), has);
}

// What the elements of line j of x are to the four windows.
fn found_in_line(t: Task, j: u32) -> Found {
  let start = t.o.z * STRIDE_Z - params.before.z;
  var f = found_nothing();
  for (var tx = 0u; tx < select(1u, params.taps.x, DEPTH); tx++) {
    let i = t.o.x * params.stride.x - params.before.x + tx * params.dilation.x;
    let inside = i < params.length.x && j < params.length.y;
    let line = t.x + i * params.step.x + j * params.step.y;
    let index = t.index + i * params.index_step.x + j * params.index_step.y;
    let p = load(line, inside, start - SHIFT);
    var q = nothing();
    var r = nothing();
    if (NEEDED > 4u) { q = load(line, inside, start - SHIFT + 4u); }
    if (NEEDED > 8u) { r = load(line, inside, start - SHIFT + 8u); }
    let row = array<x_t, 12>(p.x, p.y, p.z, p.w, q.x, q.y, q.z, q.w, r.x, r.y, r.z, r.w);
    for (var tz = 0u; tz < TAPS_Z; tz++) {
      let n = SHIFT + tz;
      let v = vec4<x_t>(row[n], row[n + STRIDE_Z], row[n + 2u * STRIDE_Z], row[n + 3u * STRIDE_Z]);
      let k = start + tz + vec4u(0u, 1u, 2u, 3u) * STRIDE_Z;
      f = with_element(f, v, vec4<bool>(inside) & (k < vec4u(params.length.z)), index + k * params.index_step.z);
    }
  }
  return f;
}

// Windows of one line.
fn count(t: Task, o_y: u32) -> vec4u {
  let o_z = t.o.z + vec4u(0u, 1u, 2u, 3u);
  var n = counted_taps(vec4u(o_y * STRIDE_Y - params.before.y), params.length.y, params.before.y, params.padded.y, 1u,
                       TAPS_Y) *
          counted_taps(o_z * STRIDE_Z - params.before.z, params.length.z, params.before.z, params.padded.z, 1u, TAPS_Z);
  if (DEPTH) {
    n *= counted_taps(vec4u(t.o.x * params.stride.x - params.before.x), params.length.x, params.before.x,
                      params.padded.x, params.dilation.x, params.taps.x);
  }
  return n;
}

fn store(to: u32, o_z: u32, v: vec4<x_t>, index: vec4i) {
  if (Y4) {
    y_put4(to, v);
    if (indices_present) { indices_put4(to, index); }
    return;
  }
  for (var e = 0u; e < 4u && o_z + e < params.out.z; e++) {
    y_put(to + e, v[e]);
    if (indices_present) { indices_put(to + e, index[e]); }
  }
}

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let task = group_index(group, groups) * GROUP + lane;
  let block = params.first + task / params.quads;
  if (block >= params.end) { return; }
  let plane = block / params.blocks;
  var b = plane;
  if (DEPTH) { b = plane / params.out.x; }
  let o = vec3u(plane - b * params.out.x, (block - plane * params.blocks) * LINES, task % params.quads * 4u);
  let t = Task(x_base(b), b * params.image, vec3u(select(0u, o.x, DEPTH), o.y, o.z));
  var held: array<Found, HELD>;
  for (var m = 0u; m < HELD; m++) { held[m] = found_nothing(); }
  let top = t.o.y * STRIDE_Y - params.before.y;
  for (var s = 0u; s < SHARED; s++) {
    let f = found_in_line(t, top + s);
    for (var m = 0u; m < HELD; m++) {
      if (m * STRIDE_Y <= s) { held[m] = joined(held[m], f); }
    }
  }
  for (var n = 0u; n < LINES; n++) {
    let o_y = t.o.y + n;
    if (o_y >= params.out.y) { break; }
    for (var s = SHARED; s < TAPS_Y; s++) {
      let f = found_in_line(t, top + n * STRIDE_Y + s);
      for (var m = 0u; m < HELD; m++) {
        if (m * STRIDE_Y <= s) { held[m] = joined(held[m], f); }
      }
    }
    var counted = vec4u();
    if (KIND == MEAN) { counted = count(t, o_y); }
    store((plane * params.out.y + o_y) * params.out.z + t.o.z, t.o.z, result(held[0], counted),
          bitcast<vec4i>(held[0].index));
    for (var m = 1u; m < HELD; m++) { held[m - 1u] = held[m]; }
    held[HELD - 1u] = found_nothing();
  }
}
