// y takes one element of x for each of its own. Along an axis that is resized it has one tap.
//@ include resize
const PAIRS: bool = false;  //@ spec     columns 2 n and 2 n + 1 of y take the same element

// What four neighbours take of a row of x: places after its begin.
struct Columns {
  at: vec4u,
  outside: vec4<bool>,
}
fn column(at: u32) -> u32 {
  let c = column_of(at);
  var start = 0u;
  if (COLUMN_TAPS > 0u) { start = u32(max(taps_at(params.column_taps + c), 0)) * params.x_column; }
  return start + (at - c * params.inner) * params.x_inner;
}
fn columns_of(at: u32) -> Columns {
  if (X4) { return Columns(vec4u(column(at)), vec4<bool>(column_is_outside(column_of(at)))); }
  let last = params.width - 1u;
  let p = vec4u(at, min(at + 1u, last), min(at + 2u, last), min(at + 3u, last));
  var c = Columns(vec4u(column(p.x)), vec4<bool>(false));
  if (PAIRS) {
    let second = column(p.z);
    c.at = vec4u(c.at.x, c.at.x, second, second);
  } else {
    c.at = vec4u(c.at.x, column(p.y), column(p.z), column(p.w));
  }
  if (CROPS) {
    c.outside = vec4<bool>(column_is_outside(column_of(p.x)), column_is_outside(column_of(p.y)),
                           column_is_outside(column_of(p.z)), column_is_outside(column_of(p.w)));
  }
  return c;
}

fn taken(start: u32, c: Columns) -> vec4<y_t> {
  if (X4) { return x_get4(start + c.at.x); }
  let first = x_get(start + c.at.x);
  let third = x_get(start + c.at.z);
  if (PAIRS) { return vec4<y_t>(first, first, third, third); }
  return vec4<y_t>(first, x_get(start + c.at.y), third, x_get(start + c.at.w));
}

// Rows that take the same row of x are neighbours.
fn make(first: Place) {
  let c = columns_of(first.at);
  let outside = vec4<y_t>(y_from_bits(params.outside));
  var p = first;
  var before = 0u;
  var v = outside;
  for (; p.line < p.end; p = next_line(p)) {
    var row = p.row;
    if (ROW_TAPS > 0u) { row = u32(max(taps_at(p.row), 0)); }
    let start = x_base(p.outer) + row * params.x_row;
    if (p.line == first.line || start != before) { v = taken(start, c); }
    before = start;
    var made = v;
    if (CROPS) { made = select(v, outside, c.outside | vec4<bool>(row_is_outside(p.row))); }
    store(y_base(p.line), p.at, made);
  }
}
