// The scale and the zero point with which x becomes u8, for the range of its elements and 0. One team walks all of x
// (PHASE WHOLE), or tasks find the ranges of parts of `chunk` elements (PARTS), which one team then joins (JOIN). A NaN in x is
// in the range, and so in the scale.
//@ in x float x4
//@ out ranges float
//@ out scale float
//@ out zero any
//@ use team_serial four

const TEAM: u32 = 1u;  //@ spec
const FOUR: bool = false;  //@ spec
const PHASE: u32 = 0u;  //@ spec
const WHOLE: u32 = 0u;
const PARTS: u32 = 1u;
const JOIN: u32 = 2u;

struct Params {
  first: u32,
  end: u32,
  length: u32,
  chunk: u32,  // a multiple of 4, or the length
  parts: u32,
}

alias team_t = vec2f;  // lowest, highest

fn merge(a: vec2f, b: vec2f) -> vec2f { return vec2f(min_nan(a.x, b.x), max_nan(a.y, b.y)); }

fn range_of_part(part: u32, lane: u32) -> vec2f {
  let base = x_base(0u);
  let begin = part * params.chunk;
  let end = min(params.length, begin + params.chunk);
  let end4 = end & ~3u;
  var low = vec4f();
  var high = vec4f();
  var magnitude = vec4u();  // of all elements; more than infinity's: there is a NaN
  for (var j = begin + 4u * lane; j < end4; j += 4u * TEAM) {
    let v = four(base, j);
    low = min(low, v);
    high = max(high, v);
    magnitude = max(magnitude, bitcast<vec4u>(v) & vec4u(0x7fffffffu));
  }
  var all = vec2f(min(min(low.x, low.y), min(low.z, low.w)), max(max(high.x, high.y), max(high.z, high.w)));
  if (any(magnitude > vec4u(0x7f800000u))) { all = vec2f(quiet_nan()); }
  for (var j = end4 + lane; j < end; j += TEAM) { all = merge(all, vec2f(x_get(base + x_step(j)))); }
  return all;
}

fn joined_ranges(lane: u32) -> vec2f {
  var all = vec2f();
  for (var i = lane; i < params.parts; i += TEAM) {
    all = merge(all, vec2f(ranges_get(ranges_flat(2u * i)), ranges_get(ranges_flat(2u * i + 1u))));
  }
  return all;
}

fn row_task(task: u32, lane: u32, width: u32) {
  var mine: vec2f;
  if (PHASE == JOIN) {
    mine = joined_ranges(lane);
  } else {
    mine = range_of_part(task, lane);
  }
  let all = team_all(mine, lane, width);
  if (lane != 0u) { return; }
  if (PHASE == PARTS) {
    ranges_put(ranges_flat(2u * task), all.x);
    ranges_put(ranges_flat(2u * task + 1u), all.y);
    return;
  }
  let step = exact_quotient(as_is(all.y - all.x), 255.0);
  let divisor = select(step, 1.0, step == 0.0);
  let at_zero = round_to_range_f32(-all.x, divisor, 0.0, 0.0, 255.0);
  scale_put(scale_base(0u), divisor);
  zero_put(zero_base(0u), zero_t(at_zero));
}
