// Non-maximum suppression. A row has boxes and the order in which they come, best first: the first of them that is left is
// chosen again and again, and those that overlap it too much are dropped. `state` has what is left.
//@ in boxes float
//@ in scores float
//@ in order any
//@ out state any
//@ out chosen any
//@ out count any
//@ use team_serial

const TEAM: u32 = 1u;  //@ spec
const CENTERS: bool = false;  //@ spec
const HAS_LEAST: bool = false;  //@ spec

struct Params {
  first: u32,
  end: u32,
  boxes: u32,  // of each row
  most: u32,  // that are chosen
  overlap: f32,
  least: f32,  // scores must be greater
}

alias team_t = u32;
fn merge(a: u32, b: u32) -> u32 { return min(a, b); }

// The corners: lower, then upper.
fn box(row: u32, j: u32) -> vec4f {
  let base = boxes_base(row);
  let a = vec2f(boxes_get(base + boxes_step(4u * j)), boxes_get(base + boxes_step(4u * j + 1u)));
  let b = vec2f(boxes_get(base + boxes_step(4u * j + 2u)), boxes_get(base + boxes_step(4u * j + 3u)));
  if (CENTERS) { return vec4f(a - b / 2.0, a + b / 2.0); }
  return vec4f(min(a, b), max(a, b));
}

fn area(b: vec4f) -> f32 { return (b.z - b.x) * (b.w - b.y); }

fn overlap(a: vec4f, b: vec4f) -> f32 {
  let sides = max(vec2f(0.0), min(a.zw, b.zw) - max(a.xy, b.xy));
  let both = sides.x * sides.y;
  if (both <= 0.0) { return 0.0; }
  return both / (area(a) + area(b) - both);
}

fn box_at(row: u32, place: u32) -> u32 { return u32(order_get(order_base(row) + order_step(place))); }

fn row_task(row: u32, lane: u32, width: u32) {
  let left = state_base(row);
  var next = params.boxes;
  for (var j = lane; j < params.boxes; j += TEAM) {
    let is_left = !HAS_LEAST || scores_get(scores_base(row) + scores_step(box_at(row, j))) > params.least;
    state_put(left + state_step(j), state_t(is_left));
    if (is_left) { next = min(next, j); }
  }
  next = team_all(next, lane, width);
  var count = 0u;
  // All members of a team make all rounds, also when nothing is left.
  for (var round = 0u; round < params.most; round++) {
    var following = params.boxes;
    if (next < params.boxes) {
      let id = box_at(row, next);
      if (lane == 0u) { chosen_put(chosen_base(row) + chosen_step(count), chosen_t(id)); }
      count++;
      let best = box(row, id);
      for (var j = lane; j < params.boxes; j += TEAM) {
        let at = left + state_step(j);
        if (j <= next || u32(state_get(at)) == 0u) { continue; }
        if (overlap(best, box(row, box_at(row, j))) > params.overlap) {
          state_put(at, state_t(0u));
        } else {
          following = min(following, j);
        }
      }
    }
    next = team_all(following, lane, width);
  }
  if (lane == 0u) { count_put(count_base(row), count_t(count)); }
}
