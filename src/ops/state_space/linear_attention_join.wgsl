// Chunks of linear attention one after the other, from what linear_attention_chunk made of each: D = u - w S (or only u),
// y = scale (decay S^T q + weights D), then S = decay S + K^T (decay D). Nothing within a chunk waits for the step before it, so
// that each element of S that is read serves TILE steps.
//
// A workgroup makes COLUMNS neighbouring columns of S of one head. Lane COLUMNS * part + column keeps the keys
// 4 (part + PARTS i) to 4 (part + PARTS i) + 3 for i < FOURS.
//@ in q float x4
//@ in k float x4
//@ in u float
//@ in w float x4
//@ in weights float
//@ in initial float
//@ out state float
//@ out y float

const FOURS: u32 = 8u;  //@ spec
const PARTS: u32 = 1u;  //@ spec
const COLUMNS: u32 = 64u;  //@ spec
const WHOLE: bool = false;  //@ spec     there are 4 * FOURS * PARTS keys, and q and k can be read four at a time
const RESUMES: bool = false;  //@ spec   begins with what `state` holds

const CHUNK: u32 = 32u;
const TILE: u32 = 4u;

struct Params {
  steps: u32,
  tiles: u32,       // workgroups along the values
  heads: u32,
  shared_by: u32,   // neighbouring heads that have the same keys
  keys: u32,
  values: u32,
  scale: f32,       // of y
  q_strides: vec4u,        // batch, step, head, key or value
  k_strides: vec4u,
  u_strides: vec4u,
  y_strides: vec4u,
  state_strides: vec4u,    // batch and head, nothing, key, value
  initial_strides: vec4u,  // batch, head, key, value
}

const LANES: u32 = COLUMNS * PARTS;
const WIDTH: u32 = FOURS * PARTS;  // fours of keys
var<workgroup> first_tile: array<vec4f, TILE * WIDTH>;   // w, or k
var<workgroup> query_tile: array<vec4f, TILE * WIDTH>;
var<workgroup> errors: array<f32, CHUNK * COLUMNS>;      // D
var<workgroup> shares: array<vec4f, max(2u * LANES * min(PARTS - 1u, 1u), 1u)>;

alias Column = array<vec4f, FOURS>;

fn at(strides: vec4u, row: u32, t: u32, head: u32, i: u32) -> u32 { return dot(strides, vec4u(row, t, head, i)); }
fn key_exists(four: u32) -> vec4<bool> {
  return vec4u(4u * four) + vec4u(0u, 1u, 2u, 3u) < vec4u(params.keys);
}
fn load_key(place: u32, four: u32) -> vec4f {
  if (WHOLE) { return k_get4(place + 4u * four); }
  var x = vec4f();
  for (var i = 0u; i < 4u; i++) {
    if (4u * four + i < params.keys) { x[i] = k_get(place + (4u * four + i) * params.k_strides.w); }
  }
  return x;
}
fn load_query(place: u32, four: u32) -> vec4f {
  if (WHOLE) { return q_get4(place + 4u * four); }
  var x = vec4f();
  for (var i = 0u; i < 4u; i++) {
    if (4u * four + i < params.keys) { x[i] = q_get(place + (4u * four + i) * params.q_strides.w); }
  }
  return x;
}
fn load_solved(place: u32, four: u32) -> vec4f {
  if (WHOLE) { return w_get4(place + 4u * four); }
  var x = vec4f();
  for (var i = 0u; i < 4u; i++) { if (4u * four + i < params.keys) { x[i] = w_get(place + 4u * four + i); } }
  return x;
}

// The sums over the lanes that share a column.
fn over_parts(a: vec4f, b: vec4f, lane: u32) -> array<vec4f, 2> {
  if (PARTS == 1u) { return array<vec4f, 2>(a, b); }
  shares[2u * lane] = a;
  shares[2u * lane + 1u] = b;
  workgroupBarrier();
  var all = array<vec4f, 2>();
  for (var p = 0u; p < PARTS; p++) {
    let theirs = 2u * (p * COLUMNS + lane % COLUMNS);
    all[0] += shares[theirs];
    all[1] += shares[theirs + 1u];
  }
  return all;
}

fn begin_at(row: u32, head: u32, line: u32, key: u32, value: u32) -> f32 {
  if (initial_present) { return initial_get(at(params.initial_strides, row, head, key, value)); }
  if (RESUMES) { return state_get(at(params.state_strides, line, 0u, key, value)); }
  return 0.0;
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let index = group_index(group, groups);
  if (index >= group_count()) { return; }  // the grid is a box and may have more
  let line = index / params.tiles;  // of batch and heads
  let head = line % params.heads;
  let row = line / params.heads;
  let key_head = head / params.shared_by;
  let part = lane / COLUMNS;
  let mine = lane % COLUMNS;
  let own = index % params.tiles * COLUMNS + mine;
  let works = own < params.values;
  let value = min(own, params.values - 1u);

  var column = Column();
  for (var i = 0u; i < FOURS; i++) {
    for (var j = 0u; j < 4u; j++) {
      let key = 4u * (part + PARTS * i) + j;
      let exists = WHOLE || key < params.keys;
      column[i][j] = select(0.0, begin_at(row, head, line, min(key, params.keys - 1u), value), exists);
    }
  }

  let chunks = (params.steps + CHUNK - 1u) / CHUNK;
  for (var chunk = 0u; chunk < chunks; chunk++) {
    let begin = chunk * CHUNK;
    let count = min(CHUNK, params.steps - begin);
    let rows = (line * chunks + chunk) * (CHUNK + 2u);  // of weights
    for (var tile = 0u; tile < count; tile += TILE) {
      workgroupBarrier();
      for (var i = lane; i < TILE * WIDTH; i += LANES) {
        let t = begin + min(tile + i / WIDTH, count - 1u);
        if (w_present) { first_tile[i] = load_solved((line * params.steps + t) * params.keys, i % WIDTH); }
        query_tile[i] = load_query(at(params.q_strides, row, t, key_head, 0u), i % WIDTH);
      }
      workgroupBarrier();
      var known = vec4f();  // w S of TILE steps
      var read = vec4f();   // S^T q
      for (var i = 0u; i < FOURS; i++) {
        let four = part + PARTS * i;
        let s = column[i];
        if (w_present) {
          known += vec4f(dot(s, first_tile[four]), dot(s, first_tile[WIDTH + four]), dot(s, first_tile[2u * WIDTH + four]),
                         dot(s, first_tile[3u * WIDTH + four]));
        }
        read += vec4f(dot(s, query_tile[four]), dot(s, query_tile[WIDTH + four]), dot(s, query_tile[2u * WIDTH + four]),
                      dot(s, query_tile[3u * WIDTH + four]));
      }
      let sums = over_parts(known, read, lane);
      if (part == 0u) {
        for (var i = 0u; i < min(TILE, count - tile); i++) {
          let t = tile + i;
          errors[t * COLUMNS + mine] = u_get(at(params.u_strides, row, begin + t, head, value)) - sums[0][i];
          var result = weights_get((rows + CHUNK) * CHUNK + t) * sums[1][i];
          for (var j = 0u; j <= t; j++) { result += weights_get((rows + t) * CHUNK + j) * errors[j * COLUMNS + mine]; }
          if (works) { y_put(at(params.y_strides, row, begin + t, head, value), params.scale * result); }
        }
      }
    }

    let keep = weights_get((rows + CHUNK) * CHUNK + count - 1u);
    for (var i = 0u; i < FOURS; i++) { column[i] *= keep; }
    for (var tile = 0u; tile < count; tile += TILE) {
      workgroupBarrier();
      for (var i = lane; i < TILE * WIDTH; i += LANES) {
        let t = tile + i / WIDTH;
        var key = vec4f();
        if (t < count) { key = load_key(at(params.k_strides, row, begin + t, key_head, 0u), i % WIDTH); }
        first_tile[i] = key;
      }
      workgroupBarrier();
      var added = vec4f();
      for (var i = 0u; i < min(TILE, count - tile); i++) {
        added[i] = weights_get((rows + CHUNK + 1u) * CHUNK + tile + i) * errors[(tile + i) * COLUMNS + mine];
      }
      for (var i = 0u; i < FOURS; i++) {
        let four = part + PARTS * i;
        column[i] += first_tile[four] * added.x + first_tile[WIDTH + four] * added.y + first_tile[2u * WIDTH + four] * added.z +
                     first_tile[3u * WIDTH + four] * added.w;
        if (!WHOLE) { column[i] = select(vec4f(), column[i], key_exists(four)); }  // 0 * infinity would be NaN there
      }
    }
  }

  if (!works) { return; }
  for (var i = 0u; i < FOURS; i++) {
    for (var j = 0u; j < 4u; j++) {
      let key = 4u * (part + PARTS * i) + j;
      if (WHOLE || key < params.keys) { state_put(at(params.state_strides, line, 0u, key, value), column[i][j]); }
    }
  }
}
