// y = a b, or y -= a b with SUBTRACT, for a [count, rows, depth] and b [count, depth, columns]: what is left of a matrix after a
// panel of it. Each panel leaves another size, for which the engine of products would choose, and compile, other shaders;
// this one serves them all. Tiles of 32 x 32 by 64 invocations with 4 x 4 results each.
//@ in a float
//@ in b float
//@ out y float

const SUBTRACT: bool = true;  //@ spec

struct Params {
  count: u32,
  rows: u32,
  columns: u32,
  depth: u32,
}

const TILE: u32 = 32u;
const GROUP: u32 = 64u;
const ACROSS: u32 = 8u;

var<workgroup> a_tile: array<f32, 1056>;  // rows of 33, so that the elements of a column are in different banks
var<workgroup> b_tile: array<f32, 1024>;

fn load(matrix: u32, row: u32, column: u32, k: u32, lane: u32) {
  for (var e = lane; e < TILE * TILE; e += GROUP) {
    let down = e / TILE;
    let right = e % TILE;
    var value = 0.0;
    if (row + down < params.rows && k + right < params.depth) {
      value = a_get(a_base(matrix * params.rows + row + down) + a_step(k + right));
    }
    a_tile[down * (TILE + 1u) + right] = value;
    value = 0.0;
    if (k + down < params.depth && column + right < params.columns) {
      value = b_get(b_base(matrix * params.depth + k + down) + b_step(column + right));
    }
    b_tile[e] = value;
  }
}

fn store(matrix: u32, row: u32, column: u32, values: vec4f) {
  if (row >= params.rows) { return; }
  let base = y_base(matrix * params.rows + row);
  for (var j = 0u; j < 4u; j++) {
    if (column + j * ACROSS >= params.columns) { return; }
    let place = base + y_step(column + j * ACROSS);
    if (SUBTRACT) {
      y_put(place, y_get(place) - values[j]);
    } else {
      y_put(place, values[j]);
    }
  }
}

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let tiles_across = (params.columns + TILE - 1u) / TILE;
  let tiles = tiles_across * ((params.rows + TILE - 1u) / TILE);
  let number = group_index(group, groups);
  let matrix = number / tiles;
  if (matrix >= params.count) { return; }
  let row = number % tiles / tiles_across * TILE;
  let column = number % tiles_across * TILE;
  let x = lane % ACROSS;
  let y = lane / ACROSS;
  var s0 = vec4f();
  var s1 = vec4f();
  var s2 = vec4f();
  var s3 = vec4f();
  for (var begin = 0u; begin < params.depth; begin += TILE) {
    load(matrix, row, column, begin, lane);
    workgroupBarrier();
    for (var k = 0u; k < TILE; k++) {
      let at = k * TILE + x;
      let right = vec4f(b_tile[at], b_tile[at + 8u], b_tile[at + 16u], b_tile[at + 24u]);
      let down = y * (TILE + 1u) + k;
      s0 += a_tile[down] * right;
      s1 += a_tile[down + 264u] * right;
      s2 += a_tile[down + 528u] * right;
      s3 += a_tile[down + 792u] * right;
    }
    workgroupBarrier();
  }
  store(matrix, row + y, column + x, s0);
  store(matrix, row + y + 8u, column + x, s1);
  store(matrix, row + y + 16u, column + x, s2);
  store(matrix, row + y + 24u, column + x, s3);
}
