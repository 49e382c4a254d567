// Mamba's selective scan as in selective_scan.wgsl, all steps one after the other, with four neighbouring channels in each
// lane: what belongs to a step is read four channels at a time, and b and c once for all four. For CPUs, where the lanes of
// a vector load one after the other, so that loads and not exponentials would take most of the time. From one step to the
// next lie all channels, which is too far for the prefetchers of CPUs, so the kernel itself reads ahead.
//@ in x float x4
//@ in delta float x4
//@ in z float x4
//@ in rates float
//@ in b float x4
//@ in c float x4
//@ in initial float
//@ out state float
//@ out y float x4
//@ use decay
//@ include selective_scan

const FOURS: u32 = 4u;  //@ spec         of states, at most eight

const LANES: u32 = 16u;

// Four states of four channels; a column is a state.
fn four_rates(channel: u32, first: u32) -> mat4x4f {
  var m = mat4x4f();
  for (var s = 0u; s < 4u; s++) { m[s] = rate_column(channel, first + s); }
  return m;
}
fn rate_column(channel: u32, column: u32) -> vec4f {
  let at = channel * params.rates_strides.x + column * params.rates_strides.y;
  let step = params.rates_strides.x;
  return vec4f(rates_get(at), rates_get(at + step), rates_get(at + 2u * step), rates_get(at + 3u * step));
}
fn four_begins(row: u32, channel: u32, first: u32) -> mat4x4f {
  var m = mat4x4f();
  if (!initial_present) { return m; }
  let strides = params.initial_strides;
  for (var s = 0u; s < 4u; s++) {
    let at = row * strides.x + channel * strides.z + (first + s) * strides.w;
    m[s] = vec4f(initial_get(at), initial_get(at + strides.z), initial_get(at + 2u * strides.z),
                 initial_get(at + 3u * strides.z));
  }
  return m;
}
fn put_four(row: u32, channel: u32, first: u32, h: mat4x4f) {
  for (var s = 0u; s < 4u; s++) {
    for (var k = 0u; k < 4u; k++) {
      state_put(row * params.state_strides.x + (channel + k) * params.state_strides.z +
                (first + s) * params.state_strides.w, h[s][k]);
    }
  }
}

fn advance(h: mat4x4f, rate: mat4x4f, delta: vec4f, input: vec4f, b: vec4f) -> mat4x4f {
  return mat4x4f(fma(decay4(delta * rate[0]), h[0], input * b.x), fma(decay4(delta * rate[1]), h[1], input * b.y),
                 fma(decay4(delta * rate[2]), h[2], input * b.z), fma(decay4(delta * rate[3]), h[3], input * b.w));
}

// Reads what the workgroup needs of AHEAD steps, one value of each cache line, so that all of them are fetched at once. The
// indices are the same in all lanes, which makes each a single load. Returns something that depends on all of them.
const AHEAD: u32 = 8u;
const LINE: u32 = 16u;  // channels in 64 bytes
fn read_ahead(row: u32, t: u32, first: u32) -> u32 {
  var bits = 0u;
  for (var i = 0u; i < AHEAD; i++) {
    for (var j = 0u; j < 4u * LANES; j += LINE) {
      let channel = min(first + j, params.channels - 4u);
      bits |= bitcast<u32>(delta_get4(at(params.delta_strides, row, t + i, channel)).x);
      bits |= bitcast<u32>(x_get4(at(params.x_strides, row, t + i, channel)).x);
      if (z_present) { bits |= bitcast<u32>(z_get4(at(params.z_strides, row, t + i, channel)).x); }
    }
  }
  return bits;
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let index = group_index(group, groups);
  if (index >= group_count()) { return; }  // the grid is a box and may have more
  let first = 4u * LANES * (index % params.tiles);
  let channel = first + 4u * lane;
  let row = index / params.tiles;
  if (channel >= params.channels) { return; }

  // Indices are written out: in a loop they would keep the arrays in memory, where the loop is too long to be unrolled.
  var rate = array<mat4x4f, 8>();
  var h = array<mat4x4f, 8>();
  if (FOURS > 0u) { rate[0] = four_rates(channel, 0u); h[0] = four_begins(row, channel, 0u); }
  if (FOURS > 1u) { rate[1] = four_rates(channel, 4u); h[1] = four_begins(row, channel, 4u); }
  if (FOURS > 2u) { rate[2] = four_rates(channel, 8u); h[2] = four_begins(row, channel, 8u); }
  if (FOURS > 3u) { rate[3] = four_rates(channel, 12u); h[3] = four_begins(row, channel, 12u); }
  if (FOURS > 4u) { rate[4] = four_rates(channel, 16u); h[4] = four_begins(row, channel, 16u); }
  if (FOURS > 5u) { rate[5] = four_rates(channel, 20u); h[5] = four_begins(row, channel, 20u); }
  if (FOURS > 6u) { rate[6] = four_rates(channel, 24u); h[6] = four_begins(row, channel, 24u); }
  if (FOURS > 7u) { rate[7] = four_rates(channel, 28u); h[7] = four_begins(row, channel, 28u); }
  var bias = vec4f();
  if (BIAS) { bias = rate_column(channel, params.bias); }
  var skip = vec4f();
  if (SKIP) { skip = rate_column(channel, 4u * FOURS); }

  var ahead = 0u;
  for (var t = 0u; t < params.steps; t++) {
    if (t % AHEAD == 0u && t + 2u * AHEAD <= params.steps) { ahead |= read_ahead(row, t + AHEAD, first); }
    var delta = delta_get4(at(params.delta_strides, row, t, channel));
    if (BIAS) { delta += bias; }
    if (SOFTPLUS) { delta = vec4f(softplus(delta.x), softplus(delta.y), softplus(delta.z), softplus(delta.w)); }
    let x = x_get4(at(params.x_strides, row, t, channel));
    let input = delta * x;
    let b = at(params.b_strides, row, t, 0u);
    let c = at(params.c_strides, row, t, 0u);
    var sum = vec4f();
    if (FOURS > 0u) { h[0] = advance(h[0], rate[0], delta, input, b_get4(b)); sum += h[0] * c_get4(c); }
    if (FOURS > 1u) { h[1] = advance(h[1], rate[1], delta, input, b_get4(b + 4u)); sum += h[1] * c_get4(c + 4u); }
    if (FOURS > 2u) { h[2] = advance(h[2], rate[2], delta, input, b_get4(b + 8u)); sum += h[2] * c_get4(c + 8u); }
    if (FOURS > 3u) { h[3] = advance(h[3], rate[3], delta, input, b_get4(b + 12u)); sum += h[3] * c_get4(c + 12u); }
    if (FOURS > 4u) { h[4] = advance(h[4], rate[4], delta, input, b_get4(b + 16u)); sum += h[4] * c_get4(c + 16u); }
    if (FOURS > 5u) { h[5] = advance(h[5], rate[5], delta, input, b_get4(b + 20u)); sum += h[5] * c_get4(c + 20u); }
    if (FOURS > 6u) { h[6] = advance(h[6], rate[6], delta, input, b_get4(b + 24u)); sum += h[6] * c_get4(c + 24u); }
    if (FOURS > 7u) { h[7] = advance(h[7], rate[7], delta, input, b_get4(b + 28u)); sum += h[7] * c_get4(c + 28u); }
    if (SKIP) { sum += skip * x; }
    if (z_present) {
      let z = z_get4(at(params.z_strides, row, t, channel));
      sum *= z / (1.0 + decay4(-z));
    }
    y_put4(at(params.y_strides, row, t, channel), sum);
  }

  // The channel, always; but a compiler does not know that, and would leave out loads that nobody uses.
  let end = channel + select(0u, ahead, views.group_count == 0u);
  if (FOURS > 0u) { put_four(row, end, 0u, h[0]); }
  if (FOURS > 1u) { put_four(row, end, 4u, h[1]); }
  if (FOURS > 2u) { put_four(row, end, 8u, h[2]); }
  if (FOURS > 3u) { put_four(row, end, 12u, h[3]); }
  if (FOURS > 4u) { put_four(row, end, 16u, h[4]); }
  if (FOURS > 5u) { put_four(row, end, 20u, h[5]); }
  if (FOURS > 6u) { put_four(row, end, 24u, h[6]); }
  if (FOURS > 7u) { put_four(row, end, 28u, h[7]); }
}
