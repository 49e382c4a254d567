// y takes one element of x for each of its own. Along an axis that is resized it has one tap.
//@ include resize

fn column_at(column: u32) -> u32 {
  if (COLUMN_TAPS == 0u) { return 0u; }
  return u32(taps_at(params.column_taps + column)) * params.x_column;
}

fn one(base: u32, at: u32) -> y_t {
  let column = column_of(at);
  if (column_is_outside(column)) { return y_from_bits(params.outside); }
  return x_get(base + column_at(column) + (at - column * params.inner) * params.x_inner);
}

fn four(base: u32, row: u32, at: u32) -> vec4<y_t> {
  var start = base;
  if (ROW_TAPS == 0u) {
    start += row * params.x_row;
  } else {
    if (row_is_outside(row)) { return vec4<y_t>(y_from_bits(params.outside)); }
    start += u32(taps_at(row)) * params.x_row;
  }
  if (X4) {
    let column = column_of(at);
    if (column_is_outside(column)) { return vec4<y_t>(y_from_bits(params.outside)); }
    return x_get4(start + column_at(column) + at - column * params.inner);
  }
  let last = params.width - 1u;
  return vec4<y_t>(one(start, at), one(start, min(at + 1u, last)), one(start, min(at + 2u, last)),
                   one(start, min(at + 3u, last)));
}

fn make(p: Place) { line_by_line(p); }
