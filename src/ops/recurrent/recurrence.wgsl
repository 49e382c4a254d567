// Steps of a recurrent network, from the sums that the inputs give (`gates`) and the state. A lane makes four
// neighbouring units of ROWS rows of the batch, with all their gates, so that c stays in its registers. LINE lanes lie side
// by side along the units; PARTS lanes share a sum along k.
//
// RESIDENT: a workgroup makes all units of its rows in all steps, and the state stays in workgroup memory. Otherwise a
// dispatch makes one step: workgroups share the units, and a second product that needs all results of the first (GRU whose
// reset comes before its product, LSTM with a projection) is a dispatch of its own. SUMMED: r or s holds the sums.
//@ in gates float x4
//@ in r float x4
//@ in s float x4
//@ in extra float
//@ in lengths int
//@ in h0 float
//@ in c0 float
//@ out y float x4
//@ out h float
//@ out c float
//@ out u float x4
//@ use recurrent_activations

const CELL: u32 = 1u;  //@ spec
const GATES: u32 = 4u;  //@ spec          that have a product of their own in r
const RESIDENT: bool = true;  //@ spec
const FIRST: bool = true;  //@ spec
const SECOND: bool = false;  //@ spec
const SUMMED: bool = false;  //@ spec
const ROWS: u32 = 1u;  //@ spec
const LINE: u32 = 64u;  //@ spec
const PARTS: u32 = 1u;  //@ spec
const QUADS: u32 = 1u;  //@ spec          fours of units for each lane
const H_TILE: u32 = 64u;  //@ spec        fours of a row's state in workgroup memory
const U_TILE: u32 = 0u;  //@ spec         and of what the second product reads
const CLIPPED: bool = false;  //@ spec
const INPUT_FORGET: bool = false;  //@ spec
const HELD: u32 = 0u;  //@ spec           the type of h (held_as)
const GATES4: bool = false;  //@ spec
const Y4: bool = false;  //@ spec

const CELL_RNN: u32 = 0u;
const CELL_LSTM: u32 = 1u;
const CELL_GRU: u32 = 2u;        // the reset gate multiplies the state before its product
const CELL_GRU_AFTER: u32 = 3u;  // and after it

struct Params {
  rows: u32,
  row_tiles: u32,
  quad_tiles: u32,
  quads: u32,      // QUADS: not a constant, or all that a cell does would be unrolled
  units: u32,      // of the cell
  size: u32,       // of h
  first_k: u32,    // fours of what the first product reads
  second_k: u32,
  step: u32,       // the first one that is made
  step_end: u32,
  steps: u32,      // in all
  backward: u32,   // directions from this one on begin with the last step
  gates_time: u32,
  gates_gate: u32,
  gates_unit: u32,
  r_k: u32,        // from one element of the state to the next; SUMMED: from row to row
  r_gate: u32,
  s_k: u32,
  extra_gate: u32,
  u_row: u32,
  y_time: u32,
  clip: f32,
}

const LANES: u32 = LINE * PARTS;
const TILE: u32 = H_TILE + U_TILE;
var<workgroup> tile: array<vec4f, ROWS * TILE>;
var<workgroup> shares: array<vec4f, max((PARTS - 1u) * GATES * ROWS * LINE, 1u)>;

// What a lane keeps of its units. In workgroup memory, although no other lane reads it: compilers turn an index into
// private memory into a choice among all elements.
var<workgroup> held_c: array<vec4f, QUADS * ROWS * LINE>;  // c, or the update gate between the two products of a step
var<workgroup> fresh: array<vec4f, QUADS * ROWS * LINE>;   // the new state, or what the second product reads

alias Sums = array<vec4f, GATES * ROWS>;

// A four of h and of c, or of h and the update gate between the products of a GRU.
struct Cell { h: vec4f, c: vec4f, }

fn gates_four(at: u32, gate: u32, unit: u32) -> vec4f {
  let p = at + gate * params.gates_gate + unit * params.gates_unit;
  if (GATES4) { return gates_get4(p); }
  var v = vec4f();
  for (var i = 0u; i < 4u; i++) { if (unit + i < params.units) { v[i] = gates_get(p + i * params.gates_unit); } }
  return v;
}
fn extra_four(d: u32, gate: u32, unit: u32) -> vec4f {
  var v = vec4f();
  if (!extra_present) { return v; }
  let p = extra_base(d) + gate * params.extra_gate + unit;
  for (var i = 0u; i < 4u; i++) { if (unit + i < params.units) { v[i] = extra_get(p + i); } }
  return v;
}
// Of the state before the step: `h` is changed in place where there is no other.
fn state_four(line: u32, first: u32) -> vec4f {
  var v = vec4f();
  for (var i = 0u; i < 4u; i++) {
    if (first + i >= params.size) { break; }
    if (h0_present) { v[i] = h0_get(h0_base(line) + h0_step(first + i)); }
    else if (!RESIDENT) { v[i] = h_get(h_base(line) + first + i); }
  }
  return v;
}
fn cell_four(line: u32, unit: u32) -> vec4f {
  var v = vec4f();
  for (var i = 0u; i < 4u; i++) {
    if (unit + i >= params.units) { break; }
    if (!RESIDENT) { v[i] = c_get(c_base(line) + unit + i); }
    else if (c0_present) { v[i] = c0_get(c0_base(line) + c0_step(unit + i)); }
  }
  return v;
}
fn h_four(line: u32, first: u32, v: vec4f) {
  for (var i = 0u; i < min(4u, params.size - first); i++) { h_put(h_base(line) + first + i, v[i]); }
}
fn c_four(line: u32, unit: u32, v: vec4f) {
  for (var i = 0u; i < min(4u, params.units - unit); i++) { c_put(c_base(line) + unit + i, v[i]); }
}
fn y_four(line: u32, t: u32, first: u32, v: vec4f) {
  let p = y_base(line) + t * params.y_time + first;
  if (Y4) { y_put4(p, v); return; }
  for (var i = 0u; i < min(4u, params.size - first); i++) { y_put(p + i, v[i]); }
}
fn held_four(v: vec4f) -> vec4f {
  return vec4f(held_as(HELD, v.x), held_as(HELD, v.y), held_as(HELD, v.z), held_as(HELD, v.w));
}
// With zeros from `count` elements on: what lies there is no unit, but products would read it.
fn first_ones(v: vec4f, count: u32) -> vec4f { return select(vec4f(), v, vec4u(0u, 1u, 2u, 3u) < vec4u(count)); }

fn clipped(v: vec4f) -> vec4f {
  if (!CLIPPED) { return v; }
  var w = v;
  for (var i = 0u; i < 4u; i++) { w[i] = min_nan(max_nan(v[i], -params.clip), params.clip); }
  return w;
}
fn gate_of(d: u32, x: vec4f) -> vec4f {
  let v = clipped(x);
  return vec4f(activation_0(d, v.x), activation_0(d, v.y), activation_0(d, v.z), activation_0(d, v.w));
}
fn candidate_of(d: u32, x: vec4f) -> vec4f {
  let v = clipped(x);
  return vec4f(activation_1(d, v.x), activation_1(d, v.y), activation_1(d, v.z), activation_1(d, v.w));
}
fn output_of(d: u32, v: vec4f) -> vec4f {
  return vec4f(activation_2(d, v.x), activation_2(d, v.y), activation_2(d, v.z), activation_2(d, v.w));
}

// Gates are in ONNX's order: input, output, forget, candidate; and update, reset, candidate.
fn lstm_cell(d: u32, at: u32, unit: u32, s: array<vec4f, 4>, c: vec4f) -> Cell {
  let input = gate_of(d, gates_four(at, 0u, unit) + s[0] + extra_four(d, 0u, unit) * c);
  var forget = vec4f(1.0) - input;
  if (!INPUT_FORGET) { forget = gate_of(d, gates_four(at, 2u, unit) + s[2] + extra_four(d, 2u, unit) * c); }
  let now = forget * c + input * candidate_of(d, gates_four(at, 3u, unit) + s[3]);
  let output = gate_of(d, gates_four(at, 1u, unit) + s[1] + extra_four(d, 1u, unit) * now);
  return Cell(output * output_of(d, now), now);
}
// What the first product makes of the state `old`: the new one, or what the second product reads.
fn first_cell(d: u32, at: u32, unit: u32, s: array<vec4f, 4>, old: Cell) -> Cell {
  if (CELL == CELL_LSTM) { return lstm_cell(d, at, unit, s, old.c); }
  let gate = gate_of(d, gates_four(at, 0u, unit) + s[0]);
  if (CELL == CELL_RNN) { return Cell(gate, vec4f()); }
  let reset = gate_of(d, gates_four(at, 1u, unit) + s[1]);
  if (CELL == CELL_GRU) { return Cell(reset * old.h, gate); }
  let candidate = candidate_of(d, gates_four(at, 2u, unit) + reset * (s[2] + extra_four(d, 0u, unit)));
  return Cell((vec4f(1.0) - gate) * candidate + gate * old.h, vec4f());
}
// And the second: `kept` has the old h and the update gate.
fn second_cell(d: u32, at: u32, unit: u32, sum: vec4f, kept: Cell) -> vec4f {
  if (CELL == CELL_LSTM) { return sum; }
  let candidate = candidate_of(d, gates_four(at, 2u, unit) + sum);
  return (vec4f(1.0) - kept.c) * candidate + kept.c * kept.h;
}

// The state of the rows, `count` fours from `begin` on, into the tile. `from_u`: what the second product reads.
fn stage(from_u: bool, d: u32, first_row: u32, begin: u32, count: u32, lane: u32) {
  for (var i = lane; i < ROWS * count; i += LANES) {
    let row = min(first_row + i / count, params.rows - 1u);
    let line = d * params.rows + row;
    let k = begin + i % count;
    var v = vec4f();
    if (from_u) { v = u_get4(u_base(line) + 4u * k); } else { v = state_four(line, 4u * k); }
    tile[i / count * TILE + i % count] = v;
  }
}

fn fma4(a: vec4f, w0: vec4f, w1: vec4f, w2: vec4f, w3: vec4f, sum: vec4f) -> vec4f {
  return fma(vec4f(a.w), w3, fma(vec4f(a.z), w2, fma(vec4f(a.y), w1, fma(vec4f(a.x), w0, sum))));
}

// Adds fours [first, end) of the tile, each PARTS-th, times the weights from `at` on.
fn add_first(at: u32, first: u32, end: u32, sums: ptr<function, Sums>) {
  for (var k = first; k < end; k += PARTS) {
    var v: array<vec4f, ROWS>;
    for (var b = 0u; b < ROWS; b++) { v[b] = tile[b * TILE + k]; }
    for (var g = 0u; g < GATES; g++) {
      let p = at + 4u * k * params.r_k + g * params.r_gate;
      let w0 = r_get4(p);
      let w1 = r_get4(p + params.r_k);
      let w2 = r_get4(p + 2u * params.r_k);
      let w3 = r_get4(p + 3u * params.r_k);
      for (var b = 0u; b < ROWS; b++) {
        (*sums)[g * ROWS + b] = fma4(v[b], w0, w1, w2, w3, (*sums)[g * ROWS + b]);
      }
    }
  }
}
fn add_second(at: u32, tile_at: u32, first: u32, end: u32, sums: ptr<function, Sums>) {
  for (var k = first; k < end; k += PARTS) {
    let p = at + 4u * k * params.s_k;
    let w0 = s_get4(p);
    let w1 = s_get4(p + params.s_k);
    let w2 = s_get4(p + 2u * params.s_k);
    let w3 = s_get4(p + 3u * params.s_k);
    for (var b = 0u; b < ROWS; b++) {
      (*sums)[b] = fma4(tile[b * TILE + tile_at + k], w0, w1, w2, w3, (*sums)[b]);
    }
  }
}

// The sums of all parts, for the lanes of the first.
fn join_parts(lane: u32, count: u32, sums: ptr<function, Sums>) {
  if (PARTS == 1u) { return; }
  let part = lane / LINE;
  workgroupBarrier();
  for (var i = 0u; i < GATES * ROWS; i++) {
    if (part > 0u && i < count) { shares[((part - 1u) * GATES * ROWS + i) * LINE + lane % LINE] = (*sums)[i]; }
  }
  workgroupBarrier();
  for (var i = 0u; i < GATES * ROWS; i++) {
    if (part > 0u || i >= count) { continue; }
    for (var p = 0u; p + 1u < PARTS; p++) { (*sums)[i] += shares[(p * GATES * ROWS + i) * LINE + lane]; }
  }
}

// The first product of a four of units, all of k.
fn first_sums(d: u32, first_row: u32, quad: u32, lane: u32, sums: ptr<function, Sums>) {
  let exists = 4u * quad < params.units;
  let part = lane / LINE;
  if (SUMMED) {
    for (var i = 0u; i < GATES * ROWS; i++) {
      let row = min(first_row + i % ROWS, params.rows - 1u);
      if (exists) { (*sums)[i] = r_get4(r_base(d) + row * params.r_k + i / ROWS * params.r_gate + 4u * quad); }
    }
    return;
  }
  let at = r_base(d) + 4u * quad;
  if (RESIDENT) {
    if (exists) { add_first(at, part, params.first_k, sums); }
  } else {
    for (var k = 0u; k < params.first_k; k += H_TILE) {
      let count = min(H_TILE, params.first_k - k);
      workgroupBarrier();
      stage(false, d, first_row, k, count, lane);
      workgroupBarrier();
      if (exists) { add_first(at + 4u * k * params.r_k, part, count, sums); }
    }
  }
  join_parts(lane, GATES * ROWS, sums);
}
fn second_sums(d: u32, first_row: u32, quad: u32, lane: u32, sums: ptr<function, Sums>) {
  let exists = 4u * quad < params.size;
  let part = lane / LINE;
  if (SUMMED) {
    for (var b = 0u; b < ROWS; b++) {
      let row = min(first_row + b, params.rows - 1u);
      if (exists) { (*sums)[b] = s_get4(s_base(d) + row * params.s_k + 4u * quad); }
    }
    return;
  }
  let at = s_base(d) + 4u * quad;
  if (RESIDENT) {
    if (exists) { add_second(at, H_TILE, part, params.second_k, sums); }
  } else {
    for (var k = 0u; k < params.second_k; k += H_TILE) {
      let count = min(H_TILE, params.second_k - k);
      workgroupBarrier();
      stage(true, d, first_row, k, count, lane);
      workgroupBarrier();
      if (exists) { add_second(at + 4u * k * params.s_k, 0u, part, count, sums); }
    }
  }
  join_parts(lane, ROWS, sums);
}

// How many steps the row has.
fn length_of(row: u32) -> u32 {
  if (!lengths_present) { return params.steps; }
  return u32(clamp(lengths_get(lengths_flat(row)), 0, i32(params.steps)));
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let index = group_index(group, groups);
  if (index >= group_count()) { return; }  // the grid is a box and may have more
  let first_row = index / params.quad_tiles % params.row_tiles * ROWS;
  let d = index / (params.quad_tiles * params.row_tiles);
  let quad0 = index % params.quad_tiles * LINE * QUADS + lane % LINE;
  let rows = min(ROWS, params.rows - first_row);
  let works = lane < LINE;  // the other parts only help with sums

  let own = lane % LINE;  // element i of what is kept is at i * LINE + own
  if (RESIDENT) {
    stage(false, d, first_row, 0u, params.first_k, lane);
    for (var i = 0u; i < params.quads * ROWS; i++) {
      let row = min(first_row + i % ROWS, params.rows - 1u);
      if (works && CELL == CELL_LSTM) { held_c[i * LINE + own] = cell_four(d * params.rows + row, 4u * (quad0 + i / ROWS * LINE)); }
    }
    workgroupBarrier();
  }
  for (var step = params.step; step < params.step_end; step++) {
    let t = select(step, params.steps - 1u - step, d >= params.backward);
    if (FIRST) {
      for (var q = 0u; q < params.quads; q++) {
        let quad = quad0 + q * LINE;
        var sums = Sums();
        first_sums(d, first_row, quad, lane, &sums);
        var ready = sums;  // sums stay in registers where indices are constants
        for (var b = 0u; b < rows && works && 4u * quad < params.units; b++) {
          let row = first_row + b;
          let i = q * ROWS + b;
          let line = d * params.rows + row;
          let moves = t < length_of(row);
          var old = Cell(vec4f(), held_c[i * LINE + own]);
          if (RESIDENT) { if (CELL != CELL_LSTM) { old.h = tile[b * TILE + quad]; } }
          else if (CELL != CELL_LSTM || !moves) { old.h = state_four(line, 4u * quad); }
          if (!RESIDENT && CELL == CELL_LSTM) { old.c = cell_four(line, 4u * quad); }
          var s: array<vec4f, 4>;
          for (var g = 0u; g < GATES; g++) { s[g] = ready[g * ROWS + b]; }
          var now = first_cell(d, gates_base(line) + t * params.gates_time, 4u * quad, s, old);
          if (CELL == CELL_LSTM && !moves) { now.c = select(old.c, vec4f(), length_of(row) == 0u); }
          held_c[i * LINE + own] = now.c;
          fresh[i * LINE + own] = first_ones(now.h, params.units - 4u * quad);
          if (!RESIDENT && CELL == CELL_LSTM) { c_four(line, 4u * quad, now.c); }
          if (!RESIDENT && u_present) {
            u_put4(u_base(line) + 4u * quad, fresh[i * LINE + own]);
            if (CELL == CELL_GRU) { u_put4(u_base(line) + params.u_row + 4u * quad, now.c); }
          }
        }
      }
      if (RESIDENT && SECOND) {
        workgroupBarrier();
        for (var i = 0u; i < params.quads * ROWS; i++) {
          let quad = quad0 + i / ROWS * LINE;
          if (works && quad < U_TILE) { tile[i % ROWS * TILE + H_TILE + quad] = fresh[i * LINE + own]; }
        }
        workgroupBarrier();
      }
    }
    if (SECOND) {
      for (var q = 0u; q < params.quads; q++) {
        let quad = quad0 + q * LINE;
        var sums = Sums();
        second_sums(d, first_row, quad, lane, &sums);
        var ready = sums;
        for (var b = 0u; b < rows && works && 4u * quad < params.size; b++) {
          let row = first_row + b;
          let i = q * ROWS + b;
          let line = d * params.rows + row;
          var kept = Cell(vec4f(), held_c[i * LINE + own]);
          if (RESIDENT) { kept.h = tile[b * TILE + quad]; } else { kept.h = state_four(line, 4u * quad); }
          if (!RESIDENT && CELL == CELL_GRU) { kept.c = u_get4(u_base(line) + params.u_row + 4u * quad); }
          fresh[i * LINE + own] = second_cell(d, gates_base(line) + t * params.gates_time, 4u * quad, ready[b], kept);
        }
      }
    }
    if (!SECOND && u_present) { continue; }
    // The new state, which is the old one where a row has no such step.
    if (RESIDENT) { workgroupBarrier(); }
    for (var q = 0u; q < params.quads; q++) {
      let quad = quad0 + q * LINE;
      for (var b = 0u; b < rows && works && 4u * quad < params.size; b++) {
        let row = first_row + b;
        let line = d * params.rows + row;
        let length = length_of(row);
        let moves = t < length;
        let now = held_four(first_ones(fresh[(q * ROWS + b) * LINE + own], params.size - 4u * quad));
        y_four(line, t, 4u * quad, select(vec4f(), now, moves));
        if (RESIDENT) {
          if (moves) { tile[b * TILE + quad] = now; }
        } else {
          h_four(line, 4u * quad, select(select(state_four(line, 4u * quad), vec4f(), length == 0u), now, moves));
        }
      }
    }
    if (RESIDENT) { workgroupBarrier(); }
  }
  if (!RESIDENT) { return; }
  for (var i = 0u; i < params.quads * ROWS; i++) {
    let first = 4u * (quad0 + i / ROWS * LINE);
    let row = first_row + i % ROWS;
    if (!works || row >= params.rows) { continue; }
    let line = d * params.rows + row;
    let none = length_of(row) == 0u;
    if (first < params.size) { h_four(line, first, select(tile[i % ROWS * TILE + first / 4u], vec4f(), none)); }
    if (CELL == CELL_LSTM && first < params.units) { c_four(line, first, select(held_c[i * LINE + own], vec4f(), none)); }
  }
}
