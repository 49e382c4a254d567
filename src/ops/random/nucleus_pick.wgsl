// The next digit of the key at which the sum of each row reaches its part `top_p`, from the sums of nucleus_sum. `state`
// has the digits so far, and as floats the sum before them and the sum to reach. After the last digit: the element with
// that key, and how many of those that equal it are needed.
//@ in x float
//@ out state any
//@ out y float
//@ out count int
//@ use team_serial

const TEAM: u32 = 1u;  //@ spec
const FIRST: bool = false;  //@ spec
const LAST: bool = false;  //@ spec
const DIGITS: u32 = 16u;

struct Params {
  first: u32,
  end: u32,
  blocks: u32,
  top_p: f32,
}

alias team_t = vec4f;

fn merge(a: vec4f, b: vec4f) -> vec4f { return a + b; }

fn row_task(row: u32, lane: u32, width: u32) {
  let base = x_base(row);
  var sums = array<f32, DIGITS>();
  for (var four = 0u; four < DIGITS; four += 4u) {
    var mine = vec4f(0.0);
    for (var block = lane; block < params.blocks; block += TEAM) {
      let at = block * DIGITS + four;
      mine += vec4f(x_get(base + x_step(at)), x_get(base + x_step(at + 1u)), x_get(base + x_step(at + 2u)),
                    x_get(base + x_step(at + 3u)));
    }
    let all = team_all(mine, lane, width);
    for (var i = 0u; i < 4u; i++) { sums[four + i] = all[i]; }
  }
  if (lane != 0u) { return; }
  let kept = state_base(row);
  var prefix = 0u;
  var before = 0.0;
  var wanted = 0.0;
  if (FIRST) {
    for (var d = 0u; d < DIGITS; d++) { wanted += sums[d]; }
    wanted *= params.top_p;
  } else {
    prefix = u32(state_get(kept));
    before = bitcast<f32>(u32(state_get(kept + 1u)));
    wanted = bitcast<f32>(u32(state_get(kept + 2u)));
  }
  // Sums of other parts are rounded otherwise: if none reaches it, the last one that there is does.
  var digit = 0u;
  var until = before;
  for (var d = 0u; d < DIGITS; d++) {
    if (sums[d] == 0.0) { continue; }
    digit = d;
    before = until;
    until += sums[d];
    if (until >= wanted) { break; }
  }
  prefix = prefix * DIGITS + digit;
  if (LAST) {
    let value = -bitcast<f32>(prefix);
    y_put(y_base(row), value);
    count_put(count_base(row), i32(clamp(ceil((wanted - before) / exp_f32(value)), 1.0, 1e9)));
  } else {
    state_put(kept, state_t(prefix));
    state_put(kept + 1u, state_t(bitcast<u32>(before)));
    state_put(kept + 2u, state_t(bitcast<u32>(wanted)));
  }
}
