// y[column, i] = 1 if the tuple in place i differs from the one before it, else 0.
//@ in parts any
//@ in order any
//@ out y any
//@ use tuples

struct Params {
  count: u32,  // of all columns
  tuples: u32,  // of a column
  parts: u32,  // of a tuple
}

const GROUP: u32 = 64u;

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let g = group_index(group, groups) * GROUP + lane;
  if (g >= params.count) { return; }
  let column = g / params.tuples * params.tuples;
  let i = g - column;
  var differs = i == 0u;
  if (!differs) {
    differs = compare_tuples(column + tuple_at(column, i), column + tuple_at(column, i - 1u)) != 0;
  }
  y_put(y_flat(g), y_t(differs));
}
