// y is a sum of elements of x with the weights of its row's taps times those of its column's.
//@ include resize
//@ in weights float

fn one(base: u32, at: u32) -> f32 {
  let column = column_of(at);
  let start = base + (at - column * params.inner) * params.x_inner;
  if (COLUMN_TAPS == 0u) { return x_get(start + column * params.x_column); }
  var sum = 0.0;
  for (var t = 0u; t < COLUMN_TAPS; t++) {
    let tap = params.column_taps + column * COLUMN_TAPS + t;
    sum = fma(weights_at(tap), x_get(start + u32(taps_at(tap)) * params.x_column), sum);
  }
  return sum;
}

// Four neighbours of a row of x, interpolated between columns.
fn of_row(base: u32, at: u32) -> vec4f {
  if (!X4) {
    let last = params.width - 1u;
    return vec4f(one(base, at), one(base, min(at + 1u, last)), one(base, min(at + 2u, last)),
                 one(base, min(at + 3u, last)));
  }
  let column = column_of(at);
  let start = base + at - column * params.inner;
  if (COLUMN_TAPS == 0u) { return x_get4(start + column * params.x_column); }
  var sum = vec4f();
  for (var t = 0u; t < COLUMN_TAPS; t++) {
    let tap = params.column_taps + column * COLUMN_TAPS + t;
    sum = fma(vec4f(weights_at(tap)), x_get4(start + u32(taps_at(tap)) * params.x_column), sum);
  }
  return sum;
}

fn outside(at: u32) -> vec4<bool> {
  let last = params.width - 1u;
  return vec4<bool>(column_is_outside(column_of(at)), column_is_outside(column_of(min(at + 1u, last))),
                    column_is_outside(column_of(min(at + 2u, last))), column_is_outside(column_of(min(at + 3u, last))));
}

fn four(base: u32, row: u32, at: u32) -> vec4f {
  if (row_is_outside(row)) { return vec4f(y_from_bits(params.outside)); }
  var sum = vec4f();
  if (ROW_TAPS == 0u) {
    sum = of_row(base + row * params.x_row, at);
  } else {
    for (var t = 0u; t < ROW_TAPS; t++) {
      let tap = row * ROW_TAPS + t;
      sum = fma(vec4f(weights_at(tap)), of_row(base + u32(taps_at(tap)) * params.x_row, at), sum);
    }
  }
  if (CROPS) { return select(sum, vec4f(y_from_bits(params.outside)), outside(at)); }
  return sum;
}
