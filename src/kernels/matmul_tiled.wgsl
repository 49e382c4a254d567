// y = epilogue(a x b) by 64x64 tiles of y: 16x16 invocations make 4x4 elements each from slices of a and b in workgroup
// memory. Each element of a and b is read once for 64 outputs; any strides (a transposed operand is read along its own
// contiguous axis).
//@ in a float
//@ in b float
//@ out y float
//@ include matmul

const A_BY_K: bool = true;  //@ spec
const B_BY_K: bool = false;  //@ spec

const TILE: u32 = 64u;
const STEP: u32 = 16u;
const GROUP: u32 = 256u;

var<workgroup> a_tile: array<array<f32, TILE>, STEP>;
var<workgroup> b_tile: array<array<f32, TILE>, STEP>;

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let g = group_index(group, groups);
  if (g >= group_count()) { return; }  // the grid is a box and may have more groups than asked for
  let col0 = (g % params.n_tiles) * TILE;
  let row0 = (g / params.n_tiles) % params.m_tiles * TILE;
  let batch = g / (params.n_tiles * params.m_tiles);
  let a0 = a_base(batch);
  let b0 = b_base(batch);
  let x = lane % 16u;
  let y = lane / 16u;
  var sum: array<vec4f, 4>;
  for (var k0 = 0u; k0 < params.k; k0 += STEP) {
    for (var e = lane; e < TILE * STEP; e += GROUP) {
      // Neighbouring lanes read along the axis that is contiguous in memory.
      let ak = select(e / TILE, e % STEP, A_BY_K);
      let am = select(e % TILE, e / STEP, A_BY_K);
      let bk = select(e / TILE, e % STEP, B_BY_K);
      let bn = select(e % TILE, e / STEP, B_BY_K);
      var av = 0.0;
      var bv = 0.0;
      if (row0 + am < params.m && k0 + ak < params.k) {
        av = a_get(a0 + (row0 + am) * params.a_row + (k0 + ak) * params.a_col);
      }
      if (col0 + bn < params.n && k0 + bk < params.k) {
        bv = b_get(b0 + (k0 + bk) * params.b_row + (col0 + bn) * params.b_col);
      }
      a_tile[ak][am] = av;
      b_tile[bk][bn] = bv;
    }
    workgroupBarrier();
    for (var k = 0u; k < STEP; k++) {
      let bv = vec4f(b_tile[k][4u * x], b_tile[k][4u * x + 1u], b_tile[k][4u * x + 2u], b_tile[k][4u * x + 3u]);
      for (var r = 0u; r < 4u; r++) { sum[r] = fma(vec4f(a_tile[k][4u * y + r]), bv, sum[r]); }
    }
    workgroupBarrier();
  }
  let y0 = y_base(batch);
  for (var r = 0u; r < 4u; r++) {
    let row = row0 + 4u * y + r;
    for (var c = 0u; c < 4u; c++) {
      let col = col0 + 4u * x + c;
      if (row < params.m && col < params.n) {
        y_put(y0 + row * params.y_row + col, epilogue(sum[r][c], (batch * params.m + row) * params.n + col));
      }
    }
  }
}
