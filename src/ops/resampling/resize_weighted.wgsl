// y is a sum of elements of x with the weights of its row's taps times those of its column's. A tap of weight zero is not
// taken, not even if x is infinite there.
//@ include resize
//@ in weights float
//@ in shares float x4
const SHARED: u32 = 0u;  //@ spec        see `narrow`
const ROW_SHARED: u32 = 0u;  //@ spec    see `with_shared_rows`
const SHARED_ROWS: u32 = max(ROW_SHARED, 1u);
const ROWS: u32 = max(ROW_TAPS, 1u);

fn added(sum: vec4f, w: vec4f, v: vec4f) -> vec4f { return select(sum, fma(w, v, sum), w != vec4f()); }

// The rows of x that a row of y is made of.
struct Rows {
  at: array<u32, ROWS>,
  weight: array<f32, ROWS>,
}
fn rows_of(base: u32, row: u32) -> Rows {
  var r: Rows;
  if (ROW_TAPS == 0u) {
    r.at[0] = base + row * params.x_row;
    r.weight[0] = 1.0;
  }
  for (var t = 0u; t < ROW_TAPS; t++) {
    let tap = row * ROW_TAPS + t;
    r.at[t] = base + u32(max(taps_at(tap), 0)) * params.x_row;
    r.weight[t] = weights_at(tap);
  }
  return r;
}

// Where four neighbours are four columns, they share elements of x: the tables have up to SHARED of them for each four,
// with the weights that they have in each of the columns. They are read once for all rows.
fn narrow(first: Place) {
  var r: array<Rows, LINES>;
  var p = first;
  for (var i = 0u; i < LINES; i++) {
    r[i] = rows_of(x_base(p.outer), p.row);
    if (p.line + 1u < p.end) { p = next_line(p); }
  }
  let begin = first.at / 4u * SHARED;
  var sum: array<vec4f, LINES>;
  for (var d = 0u; d < SHARED; d++) {
    let tap = taps_at(params.column_taps + begin + d);
    let w = shares_get4(4u * (begin + d));
    let column = u32(max(tap, 0)) * params.x_column;
    for (var i = 0u; i < LINES; i++) {
      var v = 0.0;
      for (var t = 0u; t < ROWS; t++) {
        v = select(v, fma(r[i].weight[t], x_get(r[i].at[t] + column), v), r[i].weight[t] != 0.0);
      }
      if (CROPS && tap < 0) { v = y_from_bits(params.outside); }
      sum[i] = added(sum[i], w, vec4f(v));
    }
  }
  store_lines(first, sum);
}
fn store_lines(first: Place, sums: array<vec4f, LINES>) {
  var sum = sums;
  var p = first;
  for (var i = 0u; i < LINES; i++) {
    if (p.line == p.end) { break; }
    if (row_is_outside(p.row)) { sum[i] = vec4f(y_from_bits(params.outside)); }
    store(y_base(p.line), p.at, sum[i]);
    p = next_line(p);
  }
}

// Four rows share rows of x in the same way: up to ROW_SHARED of them, with a weight for each of the four.
fn with_shared_rows(first: Place) {
  let base = x_base(first.outer);
  let begin_row = first.row / LINES * ROW_SHARED;
  var row: array<u32, SHARED_ROWS>;
  var weight: array<vec4f, SHARED_ROWS>;
  for (var t = 0u; t < ROW_SHARED; t++) {
    row[t] = base + u32(max(taps_at(params.row_shared + begin_row + t), 0)) * params.x_row;
    weight[t] = shares_get4(params.row_shares + 4u * (begin_row + t));
  }
  let begin = first.at / 4u * SHARED;
  var sum: array<vec4f, LINES>;
  for (var d = 0u; d < SHARED; d++) {
    let tap = taps_at(params.column_taps + begin + d);
    let column = u32(max(tap, 0)) * params.x_column;
    var v = vec4f();  // of each of the rows
    for (var t = 0u; t < ROW_SHARED; t++) { v = added(v, weight[t], vec4f(x_get(row[t] + column))); }
    if (CROPS && tap < 0) { v = vec4f(y_from_bits(params.outside)); }
    let w = shares_get4(4u * (begin + d));
    sum[0] = added(sum[0], w, vec4f(v.x));
    sum[1] = added(sum[1], w, vec4f(v.y));
    sum[2] = added(sum[2], w, vec4f(v.z));
    sum[3] = added(sum[3], w, vec4f(v.w));
  }
  store_lines(first, sum);
}

// Four neighbours of a column.
fn wide(r: Rows, at: u32) -> vec4f {
  let column = column_of(at);
  if (column_is_outside(column)) { return vec4f(y_from_bits(params.outside)); }
  var sum = vec4f();
  for (var t = 0u; t < ROWS; t++) {
    let start = r.at[t] + at - column * params.inner;
    var v = vec4f();
    if (COLUMN_TAPS == 0u) { v = x_get4(start); }
    for (var c = 0u; c < COLUMN_TAPS; c++) {
      let tap = params.column_taps + column * COLUMN_TAPS + c;
      v = added(v, vec4f(weights_at(tap)), x_get4(start + u32(taps_at(tap)) * params.x_column));
    }
    sum = added(sum, vec4f(r.weight[t]), v);
  }
  return sum;
}

fn one(r: Rows, at: u32) -> f32 {
  let column = column_of(at);
  if (column_is_outside(column)) { return y_from_bits(params.outside); }
  var sum = vec4f();
  for (var t = 0u; t < ROWS; t++) {
    let start = r.at[t] + (at - column * params.inner) * params.x_inner;
    var v = vec4f();
    if (COLUMN_TAPS == 0u) { v.x = x_get(start); }
    for (var c = 0u; c < COLUMN_TAPS; c++) {
      let tap = params.column_taps + column * COLUMN_TAPS + c;
      v = added(v, vec4f(weights_at(tap)), vec4f(x_get(start + u32(taps_at(tap)) * params.x_column)));
    }
    sum = added(sum, vec4f(r.weight[t]), v);
  }
  return sum.x;
}

fn four(base: u32, row: u32, at: u32) -> vec4f {
  if (row_is_outside(row)) { return vec4f(y_from_bits(params.outside)); }
  let r = rows_of(base, row);
  if (X4) { return wide(r, at); }
  let last = params.width - 1u;
  return vec4f(one(r, at), one(r, min(at + 1u, last)), one(r, min(at + 2u, last)), one(r, min(at + 3u, last)));
}

fn make(first: Place) {
  if (ROW_SHARED > 0u) {
    with_shared_rows(first);
    return;
  }
  if (SHARED > 0u) {
    narrow(first);
    return;
  }
  var p = first;
  for (; p.line < p.end; p = next_line(p)) { store(y_base(p.line), p.at, four(x_base(p.outer), p.row, p.at)); }
}
