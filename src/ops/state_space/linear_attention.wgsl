// Layers with a state S [keys, values] for each head: S decays, an outer product of key and value is added, and a query
// reads it. A column of S (one value) stays in the registers of PARTS lanes, so that nothing but k, q and decays is shared;
// those of some steps at a time lie in workgroup memory, where decays are exponentials already.
//
// A workgroup makes COLUMNS neighbouring columns of one head and one chunk of steps. Lane COLUMNS * part + column keeps the
// keys 4 (part + PARTS i) to 4 (part + PARTS i) + 3 for i < FOURS.
//@ in q float x4
//@ in k float x4
//@ in v float
//@ in g float
//@ in beta float
//@ in bonus float
//@ in initial float
//@ out state float
//@ out kept float
//@ out y float
//@ use decay

const RULE: u32 = 0u;  //@ spec
const GATE: u32 = 0u;  //@ spec
const FOURS: u32 = 8u;  //@ spec
const PARTS: u32 = 1u;  //@ spec
const COLUMNS: u32 = 64u;  //@ spec
const STEPS: u32 = 4u;  //@ spec         in workgroup memory; 0: keys and queries are read where they lie
const WHOLE: bool = false;  //@ spec     there are 4 * FOURS * PARTS keys, and q and k can be read four at a time
const RESUMES: bool = false;  //@ spec   begins with what `state` holds
const ENDS: bool = true;  //@ spec       writes the state after the last step

const RULE_ADD: u32 = 0u;       // S = decay S + k v, y = S q
const RULE_DELTA: u32 = 1u;     // S = decay S, S = S + k beta (v - S k), y = S q
const RULE_PREVIOUS: u32 = 2u;  // y = (S + bonus k v) q, S = decay S + k v
const GATE_NONE: u32 = 0u;
const GATE_HEAD: u32 = 1u;
const GATE_KEY: u32 = 2u;

struct Params {
  steps: u32,       // in all
  chunk: u32,       // steps of a workgroup
  chunks: u32,
  tiles: u32,       // workgroups along the values
  heads: u32,
  shared_by: u32,   // neighbouring heads that have the same keys
  keys: u32,
  values: u32,
  scale: f32,       // of y
  q_strides: vec4u,        // batch, step, head, key or value
  k_strides: vec4u,
  v_strides: vec4u,
  g_strides: vec4u,
  beta_strides: vec4u,
  y_strides: vec4u,
  bonus_strides: vec4u,    // nothing, nothing, head, key
  state_strides: vec4u,    // batch and head, chunk, key, value
  initial_strides: vec4u,  // batch, head, key, value
}

const LANES: u32 = COLUMNS * PARTS;
const WIDTH: u32 = FOURS * PARTS;  // fours of keys
const KEPT: u32 = max(STEPS * WIDTH, 1u);
var<workgroup> key_tile: array<vec4f, KEPT>;
var<workgroup> query_tile: array<vec4f, KEPT>;
var<workgroup> decay_tile: array<vec4f, max(KEPT * (GATE / GATE_KEY), 1u)>;
var<workgroup> shares: array<vec4f, max(2u * LANES * min(PARTS - 1u, 1u), 1u)>;

alias Column = array<vec4f, FOURS>;

// Which step of which head, and where its keys are.
struct Place { row: u32, t: u32, head: u32, key_head: u32, }

fn at(strides: vec4u, row: u32, t: u32, head: u32, i: u32) -> u32 {
  return dot(strides, vec4u(row, t, head, i));
}
fn key_exists(four: u32) -> vec4<bool> {
  return vec4u(4u * four) + vec4u(0u, 1u, 2u, 3u) < vec4u(params.keys);
}

fn load_key(p: Place, four: u32) -> vec4f {
  let first = at(params.k_strides, p.row, p.t, p.key_head, 4u * four);
  if (WHOLE) { return k_get4(first); }
  var x = vec4f();
  for (var i = 0u; i < 4u; i++) { if (4u * four + i < params.keys) { x[i] = k_get(first + i * params.k_strides.w); } }
  return x;
}
fn load_query(p: Place, four: u32) -> vec4f {
  let first = at(params.q_strides, p.row, p.t, p.key_head, 4u * four);
  if (WHOLE) { return q_get4(first); }
  var x = vec4f();
  for (var i = 0u; i < 4u; i++) { if (4u * four + i < params.keys) { x[i] = q_get(first + i * params.q_strides.w); } }
  return x;
}
// Of each key, where they have decays of their own.
fn load_decay(p: Place, four: u32) -> vec4f {
  let first = at(params.g_strides, p.row, p.t, p.head, 4u * four);
  var x = vec4f();
  for (var i = 0u; i < 4u; i++) { if (4u * four + i < params.keys) { x[i] = g_get(first + i * params.g_strides.w); } }
  return decay4(x);
}
fn bonus_four(head: u32, four: u32) -> vec4f {
  var x = vec4f();
  for (var i = 0u; i < 4u; i++) {
    if (4u * four + i < params.keys) { x[i] = bonus_get(at(params.bonus_strides, 0u, 0u, head, 4u * four + i)); }
  }
  return x;
}

fn key_four(p: Place, slot: u32, four: u32) -> vec4f {
  if (STEPS == 0u) { return load_key(p, four); }
  return key_tile[slot * WIDTH + four];
}
fn query_four(p: Place, slot: u32, four: u32) -> vec4f {
  if (STEPS == 0u) { return load_query(p, four); }
  return query_tile[slot * WIDTH + four];
}
fn decay_four(p: Place, slot: u32, four: u32) -> vec4f {
  if (STEPS == 0u) { return load_decay(p, four); }
  return decay_tile[slot * WIDTH + four];
}

fn stage(p: Place, count: u32, lane: u32) {
  for (var i = lane; i < count * WIDTH; i += LANES) {
    let here = Place(p.row, p.t + i / WIDTH, p.head, p.key_head);
    key_tile[i] = load_key(here, i % WIDTH);
    if (y_present) { query_tile[i] = load_query(here, i % WIDTH); }
    if (GATE == GATE_KEY) { decay_tile[i] = load_decay(here, i % WIDTH); }
  }
}

// The sum of each component over the lanes that share a column. Steps take turns with the memory, so that one barrier is
// enough.
fn over_parts(sums: vec4f, turn: u32, lane: u32) -> vec4f {
  if (PARTS == 1u) { return sums; }
  let first = turn % 2u * LANES;
  shares[first + lane] = sums;
  workgroupBarrier();
  var all = vec4f();
  for (var p = 0u; p < PARTS; p++) { all += shares[first + p * COLUMNS + lane % COLUMNS]; }
  return all;
}

fn sum_of(x: vec4f) -> f32 { return x.x + x.y + x.z + x.w; }

fn state_place(head: u32, chunk: u32, key: u32, value: u32) -> u32 {
  return dot(params.state_strides, vec4u(head, chunk, key, value));
}

fn begin_at(row: u32, head: u32, line: u32, chunk: u32, key: u32, value: u32) -> f32 {
  if (initial_present) { return initial_get(at(params.initial_strides, row, head, key, value)); }
  if (RESUMES) { return state_get(state_place(line, chunk, key, value)); }
  return 0.0;
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let index = group_index(group, groups);
  if (index >= group_count()) { return; }  // the grid is a box and may have more
  let tile = index % params.tiles;
  let chunk = index / params.tiles % params.chunks;
  let line = index / (params.tiles * params.chunks);  // of batch and heads
  let head = line % params.heads;
  let row = line / params.heads;
  let part = select(0u, lane / COLUMNS, PARTS > 1u);
  let own = tile * COLUMNS + lane % COLUMNS;
  let works = own < params.values;
  let value = min(own, params.values - 1u);
  let key_head = head / params.shared_by;

  var column = Column();
  for (var i = 0u; i < FOURS; i++) {
    for (var j = 0u; j < 4u; j++) {
      let key = 4u * (part + PARTS * i) + j;
      let exists = WHOLE || key < params.keys;
      column[i][j] = select(0.0, begin_at(row, head, line, chunk, min(key, params.keys - 1u), value), exists);
    }
  }
  var keeps = Column();  // the product of all decays
  for (var i = 0u; i < FOURS; i++) { keeps[i] = vec4f(1.0); }

  let begin = chunk * params.chunk;
  let end = min(begin + params.chunk, params.steps);
  for (var t = begin; t < end; t++) {
    let p = Place(row, t, head, key_head);
    var slot = 0u;
    if (STEPS > 0u) {
      slot = (t - begin) % max(STEPS, 1u);
      if (slot == 0u) {
        workgroupBarrier();
        stage(p, min(STEPS, end - t), lane);
        workgroupBarrier();
      }
    }
    let x = v_get(at(params.v_strides, row, t, head, value));
    var keep = vec4f(1.0);
    if (GATE == GATE_HEAD) { keep = vec4f(decay(g_get(at(params.g_strides, row, t, head, 0u)))); }
    var result = 0.0;
    if (RULE == RULE_DELTA && PARTS == 1u) {
      // A lane has all of its column: the query comes last, and the state is written once.
      var known = vec4f();  // S k
      for (var i = 0u; i < FOURS; i++) {
        if (GATE == GATE_KEY) { column[i] *= decay_four(p, slot, i); }
        known += column[i] * key_four(p, slot, i);
      }
      if (GATE == GATE_HEAD) { known *= keep; }
      let error = (x - sum_of(known)) * beta_get(at(params.beta_strides, row, t, head, 0u));
      var read = vec4f();  // S q
      for (var i = 0u; i < FOURS; i++) {
        var s = column[i];
        if (GATE == GATE_HEAD) { s *= keep; }
        s += key_four(p, slot, i) * error;
        if (!WHOLE) { s = select(vec4f(), s, key_exists(i)); }  // 0 * infinity would be NaN there
        if (y_present) { read += s * query_four(p, slot, i); }
        column[i] = s;
      }
      result = sum_of(read);
    } else {
      var read = vec4f();     // S q
      var known = vec4f();    // S k
      var overlap = vec4f();  // k q
      for (var i = 0u; i < FOURS; i++) {
        let four = part + PARTS * i;
        let key = key_four(p, slot, four);
        if (GATE == GATE_KEY) { keep = decay_four(p, slot, four); }
        if (kept_present) { keeps[i] *= keep; }
        var s = column[i];
        if (RULE == RULE_PREVIOUS && y_present) {
          let query = query_four(p, slot, four);
          read += s * query;
          overlap += bonus_four(head, four) * key * query;
        }
        if (GATE != GATE_NONE) { s *= keep; }
        if (RULE == RULE_DELTA) {
          known += s * key;
          if (y_present) { overlap += key * query_four(p, slot, four); }
        } else {
          s += key * x;
          if (!WHOLE) { s = select(vec4f(), s, key_exists(four)); }  // 0 * infinity would be NaN there
        }
        if (RULE != RULE_PREVIOUS && y_present) { read += s * query_four(p, slot, four); }
        column[i] = s;
      }
      let sums = over_parts(vec4f(sum_of(read), sum_of(known), sum_of(overlap), 0.0), t - begin, lane);
      result = sums.x;
      if (RULE == RULE_PREVIOUS) { result += sums.z * x; }
      if (RULE == RULE_DELTA) {
        let error = (x - sums.y) * beta_get(at(params.beta_strides, row, t, head, 0u));
        result += sums.z * error;
        for (var i = 0u; i < FOURS; i++) {
          let four = part + PARTS * i;
          column[i] += key_four(p, slot, four) * error;
          if (!WHOLE) { column[i] = select(vec4f(), column[i], key_exists(four)); }
        }
      }
    }
    if (y_present && works && part == 0u) { y_put(at(params.y_strides, row, t, head, value), params.scale * result); }
  }

  if (!ENDS || !works) { return; }
  for (var i = 0u; i < FOURS; i++) {
    for (var j = 0u; j < 4u; j++) {
      let key = 4u * (part + PARTS * i) + j;
      if (!WHOLE && key >= params.keys) { break; }
      state_put(state_place(line, chunk, key, value), column[i][j]);
      if (kept_present && own == 0u) { kept_put((line * params.chunks + chunk) * params.keys + key, keeps[i][j]); }
    }
  }
}
