// y = epilogue(a x b) in registers alone: an invocation makes ROWS rows of four neighbouring columns. The lanes of a
// workgroup are side by side along n, so that a is the same for all of them and b is read in one piece. No barriers:
// good for small m and for software devices.
//@ in a float x4
//@ in b float x4
//@ out y float x4
//@ include matmul

const ROWS: u32 = 8u;  //@ spec
const LANES: u32 = 8u;  //@ spec
const A4: bool = false;  //@ spec
const A4_ROWS: bool = false;  //@ spec
const B4: bool = false;  //@ spec
const Y4: bool = false;  //@ spec

fn b_columns(p: u32, col: u32) -> vec4f {
  if (B4) { return b_get4(p); }
  // Past the last column the value is not used; the position only has to exist.
  let last = params.n - 1u - col;
  return vec4f(b_get(p), b_get(p + min(1u, last) * params.b_col), b_get(p + min(2u, last) * params.b_col),
               b_get(p + min(3u, last) * params.b_col));
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let g = group_index(group, groups);
  if (g >= group_count()) { return; }  // the grid is a box and may have more groups than asked for
  let col = 4u * ((g % params.n_tiles) * LANES + lane);
  let row = (g / params.n_tiles) % params.m_tiles * ROWS;
  let batch = g / (params.n_tiles * params.m_tiles);
  if (col >= params.n) { return; }
  var a_at: array<u32, ROWS>;
  var sum: array<vec4f, ROWS>;
  let a0 = a_base(batch);
  let last_row = params.m - select(1u, 4u, A4_ROWS);  // rows past it repeat it, or its four, and are not written
  for (var r = 0u; r < ROWS; r++) { a_at[r] = a0 + min(row + r, last_row) * params.a_row; }
  var b_at = b_base(batch) + col * params.b_col;
  var k = 0u;
  if (A4) {
    for (; k + 4u <= params.k; k += 4u) {
      let b0 = b_columns(b_at, col);
      let b1 = b_columns(b_at + params.b_row, col);
      let b2 = b_columns(b_at + 2u * params.b_row, col);
      let b3 = b_columns(b_at + 3u * params.b_row, col);
      for (var r = 0u; r < ROWS; r++) {
        let a4 = a_get4(a_at[r] + k);
        sum[r] = fma(vec4f(a4.x), b0, sum[r]);
        sum[r] = fma(vec4f(a4.y), b1, sum[r]);
        sum[r] = fma(vec4f(a4.z), b2, sum[r]);
        sum[r] = fma(vec4f(a4.w), b3, sum[r]);
      }
      b_at += 4u * params.b_row;
    }
  }
  if (A4_ROWS) {  // a transposed: four rows are side by side
    for (; k < params.k; k++) {
      let bv = b_columns(b_at, col);
      for (var r = 0u; r < ROWS; r += 4u) {
        let a4 = a_get4(a_at[r] + k * params.a_col);
        sum[r] = fma(vec4f(a4.x), bv, sum[r]);
        sum[r + 1u] = fma(vec4f(a4.y), bv, sum[r + 1u]);
        sum[r + 2u] = fma(vec4f(a4.z), bv, sum[r + 2u]);
        sum[r + 3u] = fma(vec4f(a4.w), bv, sum[r + 3u]);
      }
      b_at += params.b_row;
    }
  }
  for (; k < params.k; k++) {
    let bv = b_columns(b_at, col);
    for (var r = 0u; r < ROWS; r++) { sum[r] = fma(vec4f(a_get(a_at[r] + k * params.a_col)), bv, sum[r]); }
    b_at += params.b_row;
  }
  let y0 = y_base(batch);
  for (var r = 0u; r < ROWS; r++) {
    if (row + r >= params.m) { break; }
    let i = (batch * params.m + row + r) * params.n + col;
    let p = y0 + (row + r) * params.y_row + col;
    if (Y4) {
      y_put4(p, vec4f(epilogue(sum[r].x, i), epilogue(sum[r].y, i + 1u), epilogue(sum[r].z, i + 2u),
                           epilogue(sum[r].w, i + 3u)));
    } else {
      for (var c = 0u; c < min(4u, params.n - col); c++) { y_put(p + c, epilogue(sum[r][c], i + c)); }
    }
  }
}
