// What the kernels of `selective_scan` share: constants of the op, and where its tensors lie.
const SKIP: bool = false;  //@ spec      column `states` of rates is d, whose product with x is added to y
const BIAS: bool = false;  //@ spec      its last column is added to delta
const SOFTPLUS: bool = false;  //@ spec

struct Params {
  steps: u32,          // in all
  chunk: u32,          // steps of a workgroup; selective_scan_quads makes all
  chunks: u32,
  tiles: u32,          // workgroups along the channels
  channels: u32,
  states: u32,
  bias: u32,           // the column of rates
  x_strides: vec4u,    // from one row of the batch, step and channel to the next
  delta_strides: vec4u,
  z_strides: vec4u,
  y_strides: vec4u,
  b_strides: vec4u,    // batch, step, state
  c_strides: vec4u,
  state_strides: vec4u,  // batch, chunk, channel, state
  initial_strides: vec4u,
  rates_strides: vec2u,
}

fn at(strides: vec4u, row: u32, t: u32, i: u32) -> u32 { return row * strides.x + t * strides.y + i * strides.z; }
