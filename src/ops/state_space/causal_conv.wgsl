// A short convolution of each channel along the steps: y[t] = sum of w[i] x[t - WIDTH + 1 + i]. What lies before x is
// `initial`, or zero. An invocation makes STRIP steps of one channel, so that it reads x about once, and neighbours read
// neighbouring channels. The first strips also write the last steps as the state.
//@ in x float
//@ in w float
//@ in bias float
//@ in initial float
//@ out y float
//@ out state float

const WIDTH: u32 = 4u;  //@ spec
const SILU: bool = false;  //@ spec

const STRIP: u32 = 8u;
const GROUP: u32 = 64u;

struct Params {
  invocations: u32,
  steps: u32,
  strips: u32,
  channels: u32,
  x_strides: vec4u,  // batch, step, channel
  initial_strides: vec4u,
  y_strides: vec4u,
  state_strides: vec4u,
  w_strides: vec4u,  // channel, tap
  bias_stride: u32,
}

fn place(strides: vec4u, row: u32, t: u32, channel: u32) -> u32 {
  return row * strides.x + t * strides.y + channel * strides.z;
}
// Step t - WIDTH + 1.
fn step_before(row: u32, t: u32, channel: u32) -> f32 {
  if (t + 1u >= WIDTH) { return x_get(place(params.x_strides, row, t + 1u - WIDTH, channel)); }
  if (initial_present) { return initial_get(place(params.initial_strides, row, t, channel)); }
  return 0.0;
}

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let index = group_index(group, groups);
  let i = index * GROUP + lane;
  if (index >= group_count() || i >= params.invocations) { return; }
  let channel = i % params.channels;
  let strip = i / params.channels % params.strips;
  let row = i / (params.channels * params.strips);

  let begin = strip * STRIP;
  let end = min(begin + STRIP, params.steps);
  if (begin < end) {
    var taps: array<f32, WIDTH>;
    var window: array<f32, WIDTH>;
    for (var k = 0u; k < WIDTH; k++) {
      taps[k] = w_get(channel * params.w_strides.x + k * params.w_strides.y);
      if (k + 1u < WIDTH) { window[k + 1u] = step_before(row, begin + k, channel); }
    }
    var shift = 0.0;
    if (bias_present) { shift = bias_get(channel * params.bias_stride); }
    for (var t = begin; t < end; t++) {
      for (var k = 0u; k + 1u < WIDTH; k++) { window[k] = window[k + 1u]; }
      window[WIDTH - 1u] = x_get(place(params.x_strides, row, t, channel));
      var sum = shift;
      for (var k = 0u; k < WIDTH; k++) { sum += taps[k] * window[k]; }
      if (SILU) { sum = silu(sum); }
      y_put(place(params.y_strides, row, t, channel), sum);
    }
  }
  if (state_present && strip == 0u) {
    for (var k = 0u; k + 1u < WIDTH; k++) {
      state_put(place(params.state_strides, row, k, channel), step_before(row, params.steps + k, channel));
    }
  }
}
