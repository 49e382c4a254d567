// The smallest box around the places that the lanes of a workgroup have.
var<workgroup> bounds_low: array<atomic<u32>, 2>;
var<workgroup> bounds_high: array<atomic<u32>, 2>;

// Numbers as integers of the same order.
fn ordered_bits(x: f32) -> u32 {
  let bits = bitcast<u32>(x);
  return bits ^ select(0x80000000u, 0xffffffffu, bits >= 0x80000000u);
}
fn ordered_number(bits: u32) -> f32 {
  return bitcast<f32>(bits ^ select(0xffffffffu, 0x80000000u, bits >= 0x80000000u));
}

fn begin_bounds(lane: u32) {
  if (lane < 2u) {
    atomicStore(&bounds_low[lane], ordered_bits(1e30));
    atomicStore(&bounds_high[lane], ordered_bits(-1e30));
  }
  workgroupBarrier();
}
// A place that no ray has is NaN, and left out.
fn add_to_bounds(low: vec2f, high: vec2f) {
  if (is_nan(low.x + low.y)) { return; }
  atomicMin(&bounds_low[0], ordered_bits(low.x));
  atomicMin(&bounds_low[1], ordered_bits(low.y));
  atomicMax(&bounds_high[0], ordered_bits(high.x));
  atomicMax(&bounds_high[1], ordered_bits(high.y));
}
fn end_bounds() -> vec4f {
  workgroupBarrier();
  return vec4f(ordered_number(atomicLoad(&bounds_low[0])), ordered_number(atomicLoad(&bounds_low[1])),
               ordered_number(atomicLoad(&bounds_high[0])), ordered_number(atomicLoad(&bounds_high[1])));
}
