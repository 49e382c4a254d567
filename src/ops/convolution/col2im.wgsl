// y[n, i] = the sum of all columns that cover the place i. x is a view [outer.., kernel.., windows..]; for each place along
// an axis, `taps` says what to add to x's position for each tap of the kernel that covers it, -1 where there are fewer.
//@ in x float
//@ in taps int
//@ out y float
const TAPS0: u32 = 1u;  //@ spec
const TAPS1: u32 = 1u;  //@ spec
const TAPS2: u32 = 1u;  //@ spec
const ADDS: bool = false;  //@ spec      to what y has

const GROUP: u32 = 64u;

struct Params {
  elements: u32,  // of y
  length0: u32,
  length1: u32,
  length2: u32,
  taps1: u32,  // where the taps of the second and the third axis begin
  taps2: u32,
}

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = group_index(group, groups) * GROUP + lane;
  if (i >= params.elements) { return; }
  let rest2 = i / params.length2;
  let rest1 = rest2 / params.length1;
  let outer = rest1 / params.length0;
  let first0 = (rest1 - outer * params.length0) * TAPS0;
  let first1 = params.taps1 + (rest2 - rest1 * params.length1) * TAPS1;
  let first2 = params.taps2 + (i - rest2 * params.length2) * TAPS2;
  let base = x_base(outer);
  var sum = 0.0;
  for (var a = 0u; a < TAPS0; a++) {
    let tap0 = taps_at(first0 + a);
    if (tap0 < 0) { continue; }
    for (var b = 0u; b < TAPS1; b++) {
      let tap1 = taps_at(first1 + b);
      if (tap1 < 0) { continue; }
      for (var c = 0u; c < TAPS2; c++) {
        let tap2 = taps_at(first2 + c);
        if (tap2 >= 0) { sum += x_get(base + u32(tap0) + u32(tap1) + u32(tap2)); }
      }
    }
  }
  let to = y_flat(i);
  if (ADDS) { sum += y_get(to); }
  y_put(to, sum);
}
