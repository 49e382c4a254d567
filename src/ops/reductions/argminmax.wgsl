// y = the index of the first of the best elements of each row of x. Values are compared as unsigned ranks, the larger
// the better, so that floats, NaN (the best of all) and integers take the same path. Rows that cannot be bound at once
// are processed in several dispatches, which pass on the rank and index of the best so far in `carry`.
//@ in x any x4
//@ out y int
//@ out carry any
//@ use team_serial four

const TEAM: u32 = 1u;  //@ spec
const LARGEST: bool = true;  //@ spec
const FLOAT: bool = true;  //@ spec
const SIGNED: bool = true;  //@ spec
const FOUR: bool = false;  //@ spec
const CONTINUES: bool = false;  //@ spec
const CARRIES: bool = false;  //@ spec

struct Params {
  first: u32,
  end: u32,
  length: u32,
  index: u32,  // of the first element
}

alias team_t = vec2u;  // rank, index

fn merge(a: vec2u, b: vec2u) -> vec2u { return select(a, b, b.x > a.x || (b.x == a.x && b.y < a.y)); }

fn rank(v: x_t) -> u32 {
  var bits = bitcast<u32>(v);
  if (FLOAT) {
    if ((bits & 0x7fffffffu) > 0x7f800000u) { return 0xffffffffu; }
    bits = select(bits, 0u, bits == 0x80000000u);  // -0 equals 0
    bits ^= select(0x80000000u, 0xffffffffu, bits >= 0x80000000u);
  } else if (SIGNED) {
    bits ^= 0x80000000u;
  }
  return select(~bits, bits, LARGEST);
}

fn row_task(row: u32, lane: u32, width: u32) {
  let base = x_base(row);
  let end4 = params.length & ~3u;
  var best = vec2u(0u, 0xffffffffu);
  for (var j = 4u * lane; j < end4; j += 4u * TEAM) {
    let v = four(base, j);
    let low = merge(vec2u(rank(v.x), j), vec2u(rank(v.y), j + 1u));
    let high = merge(vec2u(rank(v.z), j + 2u), vec2u(rank(v.w), j + 3u));
    best = merge(best, merge(low, high));
  }
  for (var j = end4 + lane; j < params.length; j += TEAM) {
    best = merge(best, vec2u(rank(x_get(base + x_step(j))), j));
  }
  best = team_all(best, lane, width);
  if (lane != 0u) { return; }
  best.y += params.index;
  let kept = carry_base(row);
  if (CONTINUES) { best = merge(vec2u(u32(carry_get(kept)), u32(carry_get(kept + 1u))), best); }
  if (CARRIES) {
    carry_put(kept, carry_t(best.x));
    carry_put(kept + 1u, carry_t(best.y));
  } else {
    y_put(y_base(row), bitcast<i32>(best.y));
  }
}
