// Mamba's selective scan: for each step, h = exp(delta a) h + delta x b and y = sum(c h), with h of each channel in the
// registers of PARTS lanes. Nothing but the steps themselves is one after the other: a dispatch may begin at any step from
// a state, or from zero, and then write the state at its end (`local`) for scan_carry to join.
//
// A workgroup makes CHANNELS neighbouring channels of one row of the batch and one chunk of steps. Lane PARTS * channel +
// part keeps the states 4 (part + PARTS i) to 4 (part + PARTS i) + 3 for i < FOURS.
//@ in x float
//@ in delta float
//@ in z float
//@ in rates float
//@ in b float x4
//@ in c float x4
//@ in initial float
//@ out state float
//@ out total float
//@ out y float
//@ use decay
//@ include selective_scan

const FOURS: u32 = 4u;  //@ spec
const PARTS: u32 = 1u;  //@ spec
const CHANNELS: u32 = 64u;  //@ spec
const WHOLE: bool = false;  //@ spec     there are 4 * FOURS * PARTS states, and b and c can be read four at a time
const RESUMES: bool = false;  //@ spec   begins with what `state` holds
const ENDS: bool = true;  //@ spec       writes the state after the last step
const NATIVE: bool = false;  //@ spec    takes the device's own exp2, a single instruction on GPUs

const LANES: u32 = CHANNELS * PARTS;
const TILE: u32 = 8u;  // steps between two meetings of the lanes that share a channel
var<workgroup> shares: array<f32, max(TILE * LANES * min(PARTS - 1u, 1u), 1u)>;

alias States = array<vec4f, FOURS>;

// The first state of a lane's four i.
fn first_of(part: u32, i: u32) -> u32 { return 4u * (part + PARTS * i); }
fn exists(first: u32) -> vec4<bool> { return vec4u(first) + vec4u(0u, 1u, 2u, 3u) < vec4u(params.states); }

fn b_four(row: u32, t: u32, first: u32) -> vec4f {
  if (WHOLE) { return b_get4(at(params.b_strides, row, t, first)); }
  var v = vec4f();
  for (var i = 0u; i < 4u; i++) {
    if (first + i < params.states) { v[i] = b_get(at(params.b_strides, row, t, first + i)); }
  }
  return v;
}
fn c_four(row: u32, t: u32, first: u32) -> vec4f {
  if (WHOLE) { return c_get4(at(params.c_strides, row, t, first)); }
  var v = vec4f();
  for (var i = 0u; i < 4u; i++) {
    if (first + i < params.states) { v[i] = c_get(at(params.c_strides, row, t, first + i)); }
  }
  return v;
}
fn rate_four(channel: u32, first: u32) -> vec4f {
  var v = vec4f();
  for (var i = 0u; i < 4u; i++) {
    if (first + i < params.states) {
      v[i] = rates_get(channel * params.rates_strides.x + (first + i) * params.rates_strides.y);
    }
  }
  return v;
}
fn state_place(row: u32, chunk: u32, channel: u32, i: u32) -> u32 {
  let s = params.state_strides;
  return row * s.x + chunk * s.y + channel * s.z + i * s.w;
}
fn begin_four(row: u32, chunk: u32, channel: u32, first: u32) -> vec4f {
  var v = vec4f();
  for (var i = 0u; i < 4u; i++) {
    if (first + i >= params.states) { break; }
    if (initial_present) {
      let s = params.initial_strides;
      v[i] = initial_get(row * s.x + channel * s.z + (first + i) * s.w);
    } else if (RESUMES) {
      v[i] = state_get(state_place(row, chunk, channel, first + i));
    }
  }
  return v;
}

fn kept(x: vec4f) -> vec4f {
  if (!NATIVE) { return decay4(x); }
  // 2^-200 is 0; where an infinity would go is not defined, nor what becomes of NaN.
  let t = clamp(x * LOG2_E, vec4f(-200.0), vec4f(200.0));
  let power = select(exp2(t), vec4f(infinity()), t >= vec4f(128.0));
  return select(power, x, (bitcast<vec4u>(x) & vec4u(0x7fffffffu)) > vec4u(0x7f800000u));
}
fn delta_at_step(row: u32, t: u32, channel: u32, bias: f32) -> f32 {
  var d = delta_get(at(params.delta_strides, row, t, channel));
  if (BIAS) { d += bias; }
  if (SOFTPLUS) { d = softplus(d); }
  return d;
}
// y from the sum of all states.
fn finish(row: u32, t: u32, channel: u32, sum: f32) {
  var v = sum;
  if (SKIP) {
    let d = rates_get(channel * params.rates_strides.x + params.states * params.rates_strides.y);
    v += d * x_get(at(params.x_strides, row, t, channel));
  }
  if (z_present) { v *= silu(z_get(at(params.z_strides, row, t, channel))); }
  y_put(at(params.y_strides, row, t, channel), v);
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let index = group_index(group, groups);
  if (index >= group_count()) { return; }  // the grid is a box and may have more
  let first_channel = index % params.tiles * CHANNELS;
  let chunk = index / params.tiles % params.chunks;
  let row = index / (params.tiles * params.chunks);
  let own = first_channel + lane / PARTS;
  let works = own < params.channels;
  let channel = min(own, params.channels - 1u);
  let part = lane % PARTS;

  var rate = States();
  var h = States();
  for (var i = 0u; i < FOURS; i++) {
    rate[i] = rate_four(channel, first_of(part, i));
    h[i] = begin_four(row, chunk, channel, first_of(part, i));
  }
  var bias = 0.0;
  if (BIAS) { bias = rates_get(channel * params.rates_strides.x + params.bias * params.rates_strides.y); }
  var passed = 0.0;  // the sum of delta

  let begin = chunk * params.chunk;
  let end = min(begin + params.chunk, params.steps);
  for (var tile = begin; tile < end; tile += TILE) {
    let tile_end = min(tile + TILE, end);
    for (var t = tile; t < tile_end; t++) {
      let delta = delta_at_step(row, t, channel, bias);
      let input = delta * x_get(at(params.x_strides, row, t, channel));
      passed += delta;
      var sum = vec4f();
      for (var i = 0u; i < FOURS; i++) {
        let first = first_of(part, i);
        var now = kept(delta * rate[i]) * h[i] + input * b_four(row, t, first);
        if (!WHOLE) { now = select(vec4f(), now, exists(first)); }  // 0 * infinity would be NaN there
        h[i] = now;
        if (y_present) { sum += now * c_four(row, t, first); }
      }
      if (y_present) {
        let all = sum.x + sum.y + sum.z + sum.w;
        if (PARTS > 1u) { shares[(t - tile) * LANES + lane] = all; }
        else if (works) { finish(row, t, channel, all); }
      }
    }
    if (y_present && PARTS > 1u) {
      workgroupBarrier();
      for (var i = lane; i < (tile_end - tile) * CHANNELS; i += LANES) {
        let column = i % CHANNELS;
        var all = 0.0;
        for (var p = 0u; p < PARTS; p++) { all += shares[i / CHANNELS * LANES + column * PARTS + p]; }
        if (first_channel + column < params.channels) { finish(row, tile + i / CHANNELS, first_channel + column, all); }
      }
      workgroupBarrier();
    }
  }

  if (!ENDS || !works) { return; }
  for (var i = 0u; i < FOURS; i++) {
    let first = first_of(part, i);
    for (var k = 0u; k < 4u; k++) {
      if (first + k < params.states) { state_put(state_place(row, chunk, channel, first + k), h[i][k]); }
    }
  }
  if (total_present && part == 0u) { total_put((row * params.chunks + chunk) * params.channels + channel, passed); }
}
