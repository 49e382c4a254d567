// The list of what was chosen in all rows: batch, class and box. `upto` has how many there are up to and including a row.
//@ in chosen any
//@ in count any
//@ in upto any
//@ out y any

struct Params {
  rows: u32,
  row: u32,  // the first of this dispatch
  most: u32,  // of each row
  classes: u32,
  room: u32,  // of the list
}

const GROUP: u32 = 256u;

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = group_index(group, groups) * GROUP + lane;
  let row = i / params.most;
  let k = i - row * params.most;
  if (row >= params.rows || k >= u32(count_at(row))) { return; }
  let place = u32(upto_at(row)) - u32(count_at(row)) + k;
  if (place >= params.room) { return; }
  let numbers = vec3u((params.row + row) / params.classes, (params.row + row) % params.classes, u32(chosen_at(i)));
  for (var e = 0u; e < 3u; e++) {
    let to = y_flat(3u * place + e);
    if (y_has(to)) { y_put(to, y_t(numbers[e])); }
  }
}
