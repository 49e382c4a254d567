// A step of a merge sort. In each column, tuples are in runs of `width` that are sorted; two neighbouring runs become one.
// Tuples are compared part by part, and equal ones keep their order.
//@ in parts any
//@ in order any
//@ out y any
//@ use tuples

struct Params {
  count: u32,  // of all columns
  tuples: u32,  // of a column
  parts: u32,  // of a tuple
  width: u32,
}

const GROUP: u32 = 64u;

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let g = group_index(group, groups) * GROUP + lane;
  if (g >= params.count) { return; }
  let column = g / params.tuples * params.tuples;
  let i = g - column;
  let left = i / (2u * params.width) * (2u * params.width);
  let middle = min(left + params.width, params.tuples);
  let end = min(left + 2u * params.width, params.tuples);
  let is_left = i < middle;
  let mine = tuple_at(column, i);
  // How many of the other run come before: the lesser ones, and of the left run also those that are equal.
  var low = select(left, middle, is_left);
  var high = select(middle, end, is_left);
  while (low < high) {
    let at = low + (high - low) / 2u;
    let c = compare_tuples(column + tuple_at(column, at), column + mine);
    if (c < 0 || (c == 0 && !is_left)) {
      low = at + 1u;
    } else {
      high = at;
    }
  }
  y_put(y_flat(column + i + low - middle), y_t(mine));
}
