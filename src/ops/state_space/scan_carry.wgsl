// Joins chunks of a scan that began with zero: `chunks` holds the state after each, and gets the state before each. What a
// chunk keeps of the state before it is `kept`, or exp(rates * kept) if there are rates. `state` holds the state before the
// first chunk, and gets the one after the last.
//@ in rates float
//@ in kept float
//@ out chunks float
//@ out state float
//@ use decay

struct Params {
  rows: u32,             // of the batch and heads
  count: u32,            // chunks
  width: u32,            // elements along the two axes of a state
  height: u32,
  chunk_strides: vec4u,  // row, chunk, and the two axes
  kept_strides: vec4u,
  state_strides: vec4u,  // row, nothing, and the two axes
  rates_strides: vec4u,  // nothing, nothing, and the two axes
}

const GROUP: u32 = 64u;

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = group_index(group, groups) * GROUP + lane;
  if (group_index(group, groups) >= group_count() || i >= params.rows * params.height * params.width) { return; }
  let place = vec4u(i / (params.width * params.height), 0u, i / params.width % params.height, i % params.width);
  let state_place = dot(place, params.state_strides);
  var rate = 0.0;
  if (rates_present) { rate = rates_get(dot(place, params.rates_strides)); }
  var h = state_get(state_place);
  for (var k = 0u; k < params.count; k++) {
    let here = place + vec4u(0u, k, 0u, 0u);
    let at = dot(here, params.chunk_strides);
    var keeps = kept_get(dot(here, params.kept_strides));
    if (rates_present) { keeps = decay(rate * keeps); }
    let local = chunks_get(at);
    chunks_put(at, h);
    // Nothing stays nothing, even if a product of decays is infinite.
    h = select(keeps * h, 0.0, h == 0.0) + local;
  }
  state_put(state_place, h);
}
