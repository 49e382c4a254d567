// x as bytes for the range of its elements and 0, with the scale, the zero point and perhaps the sum of each row. One team
// finds the range of all of x and quantises it (WHOLE), or tasks find the ranges of parts of `chunk` elements (PARTS), which
// each task then joins before it quantises some rows (APPLY).
//@ in x float x4
//@ out ranges float
//@ out y any x4
//@ out scale float
//@ out zero any
//@ out sums int
//@ use team_serial four

const TEAM: u32 = 1u;  //@ spec
const FOUR: bool = false;  //@ spec
const PHASE: u32 = 0u;  //@ spec
const SIGNED: bool = false;  //@ spec     y is less 128
const WHOLE: u32 = 0u;
const PARTS: u32 = 1u;
const APPLY: u32 = 2u;

struct Params {
  first: u32,
  end: u32,
  length: u32,
  chunk: u32,  // a multiple of 4, or the length
  parts: u32,
  row: u32,
  rows: u32,
  task_rows: u32,
}

alias team_t = vec3f;  // lowest, highest, sum

fn merge(a: vec3f, b: vec3f) -> vec3f { return vec3f(min_nan(a.x, b.x), max_nan(a.y, b.y), a.z + b.z); }

fn range_of_part(part: u32, lane: u32) -> vec3f {
  let base = x_base(0u);
  let begin = part * params.chunk;
  let end = min(params.length, begin + params.chunk);
  var low = vec4f();
  var high = vec4f();
  var magnitude = vec4u();  // of all elements; more than infinity's: there is a NaN
  for (var j = begin + 4u * lane; j < end; j += 4u * TEAM) {
    let v = four(base, j);
    low = min(low, v);
    high = max(high, v);
    magnitude = max(magnitude, bitcast<vec4u>(v) & vec4u(0x7fffffffu));
  }
  if (any(magnitude > vec4u(0x7f800000u))) { return vec3f(quiet_nan()); }
  return vec3f(min(min(low.x, low.y), min(low.z, low.w)), max(max(high.x, high.y), max(high.z, high.w)), 0.0);
}

fn joined_ranges(lane: u32) -> vec3f {
  var all = vec3f();
  for (var i = lane; i < params.parts; i += TEAM) {
    all = merge(all, vec3f(ranges_get(ranges_flat(2u * i)), ranges_get(ranges_flat(2u * i + 1u)), 0.0));
  }
  return all;
}

fn byte_of(x: f32, scale: f32, zero_point: f32) -> i32 {
  return i32(whole_to_u8(round_to_range_f32(x, scale, zero_point, 0.0, 255.0))) - select(0, 128, SIGNED);
}

fn quantize_row(row: u32, lane: u32, width: u32, step: f32, zero_point: f32) {
  let x_at0 = x_base(0u);
  let y_at0 = y_base(0u);
  let begin = row * params.row;
  let end = min(params.length, begin + params.row);
  var sum = 0;
  for (var j = begin + 4u * lane; j < end; j += 4u * TEAM) {
    let v = four(x_at0, j);
    let q = vec4i(byte_of(v.x, step, zero_point), byte_of(v.y, step, zero_point), byte_of(v.z, step, zero_point),
                  byte_of(v.w, step, zero_point));
    y_put4(y_at0 + j, vec4<y_t>(q));
    sum += q.x + q.y + q.z + q.w;
  }
  if (sums_present) {
    let all = team_all(vec3f(0.0, 0.0, f32(sum)), lane, width);
    if (lane == 0u) { sums_put(sums_flat(row), i32(all.z)); }
  }
}

fn row_task(task: u32, lane: u32, width: u32) {
  var mine: vec3f;
  if (PHASE == APPLY) {
    mine = joined_ranges(lane);
  } else {
    mine = range_of_part(task, lane);
  }
  let all = team_all(mine, lane, width);
  if (PHASE == PARTS) {
    if (lane == 0u) {
      ranges_put(ranges_flat(2u * task), all.x);
      ranges_put(ranges_flat(2u * task + 1u), all.y);
    }
    return;
  }
  let width_of_step = exact_quotient(as_is(all.y - all.x), 255.0);
  let step = select(width_of_step, 1.0, width_of_step == 0.0);
  let zero_point = round_to_range_f32(-all.x, step, 0.0, 0.0, 255.0);
  if (task == 0u && lane == 0u) {
    scale_put(scale_base(0u), step);
    zero_put(zero_base(0u), zero_t(zero_point));
  }
  let begin = task * params.task_rows;
  for (var row = begin; row < min(params.rows, begin + params.task_rows); row++) {
    quantize_row(row, lane, width, step, zero_point);
  }
}
