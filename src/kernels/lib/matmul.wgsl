// What matmul kernels share. Included, so that their C++ structs are alike;
// ops/epilogue.cpp replaces the two marked lines.
struct Params {
  m: u32,
  n: u32,
  k: u32,
  a_row: u32,
  a_col: u32,
  b_row: u32,
  b_col: u32,
  y_row: u32,
  count: u32,  // of elements of y
  m_tiles: u32,
  n_tiles: u32,
  //@ params
}

fn epilogue(v: y_t, i: u32) -> y_t { return v; }  //@ epilogue
