// What linear attention does within chunks of CHUNK steps, all of them at once.
//
// The delta rule, if there is a beta: with d = beta (v - S^T k) of each step, before which S has decayed, the steps of a chunk
// that begins with S obey (1 + L) D = beta (V - decay K S), where L[t, i] = beta[t] decay(i, t) k[t] k[i] for i < t. Here are
// both parts of the solution: D = u - w S, with (1 + L) u = beta V and (1 + L) w = beta decay K, row after row. Without the delta
// rule D is V. linear_attention_join puts the chunks together.
//
// `weights` has for each chunk decay(i, t) q[t] k[i] for i <= t, then a row of decays from the begin of the chunk to each step,
// and one from each step to its end. Decays are exponentials of sums over the steps between, not of differences: infinite
// ones stay right.
//@ in q float x4
//@ in k float x4
//@ in v float
//@ in g float
//@ in beta float
//@ out u float
//@ out w float
//@ out weights float
//@ use decay

const WHOLE: bool = false;  //@ spec   q and k can be read four at a time

const CHUNK: u32 = 32u;
const GROUP: u32 = 64u;

struct Params {
  steps: u32,
  chunks: u32,
  heads: u32,
  shared_by: u32,    // neighbouring heads that have the same keys
  keys: u32,
  values: u32,
  q_strides: vec4u,  // batch, step, head, key or value
  k_strides: vec4u,
  v_strides: vec4u,
  g_strides: vec4u,
  beta_strides: vec4u,
}

var<workgroup> gates: array<f32, CHUNK>;
var<workgroup> betas: array<f32, CHUNK>;
var<workgroup> starts: array<f32, CHUNK>;  // decays from the begin of the chunk
var<workgroup> lower: array<f32, CHUNK * CHUNK>;
var<workgroup> solved: array<f32, CHUNK * GROUP>;

fn at(strides: vec4u, row: u32, t: u32, head: u32, i: u32) -> u32 { return dot(strides, vec4u(row, t, head, i)); }

// What is left after the steps `first` to `last` of the chunk.
fn left_after(first: u32, last: u32) -> f32 {
  var sum = 0.0;
  for (var i = first; i <= last; i++) { sum += gates[i]; }
  return decay(sum);
}

// k[t] k[i] and q[t] k[i], from their places.
fn products(k_t: u32, q_t: u32, k_i: u32) -> vec2f {
  var sums = vec2f();
  if (WHOLE) {
    for (var j = 0u; j < params.keys; j += 4u) {
      let key = k_get4(k_i + j);
      sums += vec2f(dot(k_get4(k_t + j), key), dot(q_get4(q_t + j), key));
    }
  } else {
    for (var j = 0u; j < params.keys; j++) {
      let key = k_get(k_i + j * params.k_strides.w);
      sums += vec2f(k_get(k_t + j * params.k_strides.w), q_get(q_t + j * params.q_strides.w)) * key;
    }
  }
  return sums;
}

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let index = group_index(group, groups);
  if (index >= group_count()) { return; }  // the grid is a box and may have more
  let line = index / params.chunks;  // of batch and heads
  let row = line / params.heads;
  let head = line % params.heads;
  let key_head = head / params.shared_by;
  let begin = index % params.chunks * CHUNK;
  let count = min(CHUNK, params.steps - begin);
  let out_rows = index * (CHUNK + 2u);

  if (lane < count) {
    gates[lane] = 0.0;
    if (g_present) { gates[lane] = g_get(at(params.g_strides, row, begin + lane, head, 0u)); }
    if (beta_present) { betas[lane] = beta_get(at(params.beta_strides, row, begin + lane, head, 0u)); }
  }
  workgroupBarrier();
  if (lane < count) {
    starts[lane] = left_after(0u, lane);
    weights_put((out_rows + CHUNK) * CHUNK + lane, starts[lane]);
    weights_put((out_rows + CHUNK + 1u) * CHUNK + lane, left_after(lane + 1u, count - 1u));
  }
  for (var p = lane; p < count * CHUNK; p += GROUP) {
    let t = p / CHUNK;
    let i = p % CHUNK;
    if (i > t) { continue; }
    let sums = products(at(params.k_strides, row, begin + t, key_head, 0u), at(params.q_strides, row, begin + t, key_head, 0u),
                        at(params.k_strides, row, begin + i, key_head, 0u));
    let left = left_after(i + 1u, t);
    if (beta_present) { lower[p] = betas[t] * left * sums.x; }
    weights_put((out_rows + t) * CHUNK + i, left * sums.y);
  }
  if (!beta_present) { return; }
  workgroupBarrier();

  for (var column = lane; column < params.values + params.keys; column += GROUP) {
    let of_values = column < params.values;
    let key = column - params.values;
    for (var t = 0u; t < count; t++) {
      var x = 0.0;
      if (of_values) { x = v_get(at(params.v_strides, row, begin + t, head, column)); }
      else { x = starts[t] * k_get(at(params.k_strides, row, begin + t, key_head, key)); }
      x *= betas[t];
      for (var i = 0u; i < t; i++) { x -= lower[t * CHUNK + i] * solved[i * GROUP + lane]; }
      solved[t * GROUP + lane] = x;
      let step = line * params.steps + begin + t;
      if (of_values) { u_put(step * params.values + column, x); } else { w_put(step * params.keys + key, x); }
    }
  }
}
