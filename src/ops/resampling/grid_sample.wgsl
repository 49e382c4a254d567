// y[n, c, p] = x[n, c] at the place that the grid has for p. x has three spatial axes here; those that the op's x does
// not have come first, with length 1. An invocation computes one p of several channels.
//@ in x float
//@ in grid float
//@ out y float
const AXES: u32 = 2u;  //@ spec          of the grid
const TAPS: u32 = 2u;  //@ spec          1: nearest, 2: linear, 4: cubic
const PADDING: u32 = 0u;  //@ spec       0: zeros, 1: border, 2: reflection
const CORNERS: bool = false;  //@ spec
const IN_ELEMENTS: bool = false;  //@ spec
const ADDS: bool = false;  //@ spec      to what y has: of the first axis, only `rows` elements from `row` on are seen

const GROUP: u32 = 64u;
const A: f32 = -0.75;  // of the cubic weights

struct Params {
  tasks: u32,
  places: u32,  // of one batch entry
  blocks: u32,  // of channels
  block: u32,  // channels in one
  channels: u32,
  row: u32,
  rows: u32,
  x_channel: u32,  // how far apart channels are
  y_channel: u32,
  length: array<i32, 4>,
  stride: array<u32, 4>,
}

// What an axis contributes: where its taps are, with which weights, and whether they are taken at all.
struct Taps {
  at: vec4u,
  weight: vec4f,
  taken: vec4<bool>,
}

// From one border to the other and back, as often as it takes.
fn reflected(x: f32, length: i32) -> f32 {
  let low = select(-0.5, 0.0, CORNERS);
  let span = f32(length) - select(0.0, 1.0, CORNERS);
  if (span <= 0.0) { return 0.0; }
  let distance = abs(x - low);
  let times = floor(distance / span);
  let rest = distance - times * span;
  let odd = times - 2.0 * floor(0.5 * times) == 1.0;
  return clamp(low + select(rest, span - rest, odd), 0.0, f32(length - 1));
}

fn padded(x: f32, length: i32) -> f32 {
  if (PADDING == 1u) { return clamp(x, 0.0, f32(length - 1)); }
  if (PADDING == 2u) { return reflected(x, length); }
  return x;
}

fn cubic(ratio: f32) -> vec4f {
  let far = vec2f(1.0 + ratio, 2.0 - ratio);
  let near = vec2f(ratio, 1.0 - ratio);
  let outer = ((A * far - 5.0 * A) * far + 8.0 * A) * far - 4.0 * A;
  let inner = ((A + 2.0) * near - (A + 3.0)) * near * near + 1.0;
  return vec4f(outer.x, inner.x, inner.y, outer.y);
}

fn taps_of(axis: u32, g: f32) -> Taps {
  let length = params_length(axis);
  let size = f32(length);
  var x = select(((g + 1.0) * size - 1.0) * 0.5, (g + 1.0) * 0.5 * (size - 1.0), CORNERS);
  if (IN_ELEMENTS) { x = g; }
  if (TAPS < 4u) { x = padded(x, length); }
  var taps = Taps(vec4u(), vec4f(1.0, 0.0, 0.0, 0.0), vec4<bool>());
  var first = floor(x);
  if (TAPS == 1u) { first = round(x); }
  if (TAPS == 2u) { taps.weight = vec4f(1.0 - (x - first), x - first, 0.0, 0.0); }
  if (TAPS == 4u) {
    taps.weight = cubic(x - first);
    first -= 1.0;
  }
  for (var t = 0u; t < TAPS; t++) {
    var place = first + f32(t);
    if (TAPS == 4u) { place = padded(place, length); }
    var taken = place >= 0.0 && place <= size - 1.0;
    let index = u32(clamp(f32_to_i32(place), 0, length - 1));
    let cut = ADDS && axis == 3u - AXES;
    if (cut) { taken = taken && index - params.row < params.rows; }
    taps.at[t] = select(select(0u, params.row, cut), index, taken) * params_stride(axis);
    taps.taken[t] = taken;
  }
  return taps;
}

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let task = group_index(group, groups) * GROUP + lane;
  if (task >= params.tasks) { return; }
  let rest = task / params.places;
  let place = task - rest * params.places;
  let n = rest / params.blocks;
  let first = (rest - n * params.blocks) * params.block;
  let end = min(first + params.block, params.channels);

  // The grid's coordinates begin with that of the last axis.
  let at = grid_base(n * params.places + place);
  var taps: array<Taps, 3>;
  taps[0] = Taps(vec4u(), vec4f(1.0), vec4<bool>(true));
  taps[1] = taps[0];
  for (var axis = 3u - AXES; axis < 3u; axis++) { taps[axis] = taps_of(axis, grid_get(at + grid_step(2u - axis))); }

  let taps0 = select(1u, TAPS, AXES > 2u);
  let taps1 = select(1u, TAPS, AXES > 1u);
  for (var c = first; c < end; c++) {
    let base = x_base(n) + c * params.x_channel;
    let to = y_base(n) + c * params.y_channel + y_step(place);
    var sum = 0.0;
    for (var i = 0u; i < taps0; i++) {
      for (var j = 0u; j < taps1; j++) {
        for (var k = 0u; k < TAPS; k++) {
          let v = x_get(base + taps[0].at[i] + taps[1].at[j] + taps[2].at[k]);
          let w = taps[0].weight[i] * taps[1].weight[j] * taps[2].weight[k];
          sum += select(0.0, v * w, taps[0].taken[i] && taps[1].taken[j] && taps[2].taken[k]);
        }
      }
    }
    if (ADDS) { sum += y_get(to); }
    y_put(to, sum);
  }
}
