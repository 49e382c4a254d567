// Rows of queries, keys and values side by side: the queries are rotated into y, the keys into a part of a cache, and the
// values are copied into a part of another one. An invocation for each element of x.
//@ in x float
//@ in cosines float
//@ in sines float
//@ out y float
//@ out keys float
//@ out values float
//@ include rope

struct Params {
  count: u32,
  length: u32,
  width: u32,
  head: u32,
  pairs: u32,
  last_position: u32,
  queries: u32,  // elements of a row
  turned: u32,   // those and the keys
}

const GROUP: u32 = 256u;

fn position(row: u32) -> u32 { return min(row % params.length, params.last_position); }

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = group_index(group, groups) * GROUP + lane;
  if (i >= params.count) { return; }
  let row = i / params.width;
  let col = i % params.width;
  if (col < params.queries) {
    y_put(y_flat(row * params.queries + col), rotated(i));
  } else if (col < params.turned) {
    keys_put(keys_flat(row * (params.turned - params.queries) + col - params.queries), rotated(i));
  } else {
    values_put(values_flat(row * (params.width - params.turned) + col - params.turned), x_get(x_flat(i)));
  }
}
