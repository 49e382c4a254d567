// What the kernels of `resize` share. x and y are [outer.., rows, columns, inner]; rows and columns are resized, or one of
// them, and `taps` says which rows and columns of x each of y takes: first ROW_TAPS for each row, then COLUMN_TAPS for
// each column. An invocation makes four neighbours of a few rows of y: it divides to find its place, which takes longer
// than four elements.
//@ in x any x4
//@ in taps int
//@ out y any x4
const ROW_TAPS: u32 = 0u;  //@ spec      0: rows of y are rows of x
const COLUMN_TAPS: u32 = 0u;  //@ spec   0: there is one column
const NARROW: bool = false;  //@ spec    `inner` is 1
const X4: bool = false;  //@ spec        fours of x along `inner` are vectors, as are those of y
const Y4: bool = false;  //@ spec
const CROPS: bool = false;  //@ spec     a tap of -1 stands for a place outside x, where y is `outside`

const GROUP: u32 = 64u;
const LINES: u32 = 4u;  // rows of an invocation

struct Params {
  tasks: u32,
  quads: u32,  // of a row of y
  lines: u32,  // rows of all of y
  blocks: u32,  // of LINES rows of one image
  rows: u32,  // of y
  width: u32,  // of a row of y: columns * inner
  inner: u32,
  column_taps: u32,  // where they begin
  row_shared: u32,  // likewise (resize_weighted)
  row_shares: u32,
  x_row: u32,  // how far apart rows, columns and inner elements of x are
  x_column: u32,
  x_inner: u32,
  outside: u32,  // bits of y's type
}

// Four elements from `at` on, of the rows from `line` to `end` of all of y; the first of them is a row of `outer`, and so
// are the others if rows are resized.
struct Place {
  line: u32,
  end: u32,
  outer: u32,
  row: u32,
  at: u32,
}
fn next_line(p: Place) -> Place {
  let last = p.row + 1u == params.rows;
  return Place(p.line + 1u, p.end, p.outer + select(0u, 1u, last), select(p.row + 1u, 0u, last), p.at);
}

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let task = group_index(group, groups) * GROUP + lane;
  if (task >= params.tasks) { return; }
  let block = task / params.quads;
  make(place(block, 4u * (task - block * params.quads)));
}
fn place(block: u32, at: u32) -> Place {
  if (ROW_TAPS == 0u) {
    let line = block * LINES;
    let o = line / params.rows;
    return Place(line, min(line + LINES, params.lines), o, line - o * params.rows, at);
  }
  let o = block / params.blocks;
  let row = (block - o * params.blocks) * LINES;
  let line = o * params.rows + row;
  return Place(line, min(line + LINES, (o + 1u) * params.rows), o, row, at);
}

fn store(to: u32, at: u32, v: vec4<y_t>) {
  if (Y4) {
    y_put4(to + y_step(at), v);
  } else {
    y_put(to + y_step(at), v.x);
    if (at + 1u < params.width) { y_put(to + y_step(at + 1u), v.y); }
    if (at + 2u < params.width) { y_put(to + y_step(at + 2u), v.z); }
    if (at + 3u < params.width) { y_put(to + y_step(at + 3u), v.w); }
  }
}

fn column_of(at: u32) -> u32 {
  if (COLUMN_TAPS == 0u) { return 0u; }  // there is only one
  if (NARROW) { return at; }
  return at / params.inner;
}
fn row_is_outside(row: u32) -> bool { return CROPS && ROW_TAPS > 0u && taps_at(row * ROW_TAPS) < 0; }
fn column_is_outside(column: u32) -> bool {
  return CROPS && COLUMN_TAPS > 0u && taps_at(params.column_taps + column * COLUMN_TAPS) < 0;
}
