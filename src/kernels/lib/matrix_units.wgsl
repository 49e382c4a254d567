// What a subgroup multiplies at once, on the device's matrix units. The kernel has the types unit_t and unit_sum_t, the sizes
// UNIT_M, UNIT_N and UNIT_K (of k in elements of a_tile: a word with UNIT_PACKED bytes is one), and arrays in workgroup
// memory: a_tile and b_tile with lines of k, one STRIDE after the other, and y_tile with units of sums.
//
// Dawn's extension is not finished. How it is written here is that of Dawn's of September 2026, and it stands in this file
// alone. lib/matrix_emulated has the same declarations, made of arrays.
enable subgroups;
enable chromium_experimental_subgroup_matrix;

alias Left = subgroup_matrix_left<unit_t, UNIT_K * UNIT_PACKED, UNIT_M>;
alias Right = subgroup_matrix_right<unit_t, UNIT_N, UNIT_K * UNIT_PACKED>;
alias Sums = subgroup_matrix_result<unit_sum_t, UNIT_N, UNIT_M>;

fn left_at(at: u32) -> Left {
  return subgroupMatrixLoad<Left, row_major>(&a_tile, at, STRIDE);
}
fn right_at(at: u32) -> Right {
  return subgroupMatrixLoad<Right, col_major>(&b_tile, at, STRIDE);
}
fn multiplied(a: Left, b: Right, sums: Sums) -> Sums { return subgroupMatrixMultiplyAccumulate(a, b, sums); }
fn keep(at: u32, sums: Sums) { subgroupMatrixStore<row_major>(&y_tile, at, sums, UNIT_N); }
