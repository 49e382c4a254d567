// Tuples of several parts each, in columns: parts[column, tuple, part], and order[column, i], the tuple in place i. Without
// `order`, tuple i is in place i. Kernels have params.parts, how many each tuple has.
fn tuple_at(column: u32, i: u32) -> u32 {
  if (order_present) { return u32(order_at(column + i)); }
  return i;
}

// Less than 0 if a comes before b, 0 if they are equal; both counted over all columns.
fn compare_tuples(a: u32, b: u32) -> i32 {
  for (var p = 0u; p < params.parts; p++) {
    let x = u32(parts_at(a * params.parts + p));
    let y = u32(parts_at(b * params.parts + p));
    if (x != y) { return select(1, -1, x < y); }
  }
  return 0;
}
