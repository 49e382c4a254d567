// What a subgroup multiplies at once, on the device's matrix units. The kernel has the types unit_t and unit_sum_t, the sizes
// UNIT_M, UNIT_N and UNIT_K (of k in elements of `factors`: a word with UNIT_PACKED bytes is one), and two arrays in workgroup
// memory: `factors`, of what is multiplied, and `unit_sums`. Positions in them and strides count elements.
//
// Dawn's extension is not finished. How it is written here is that of Dawn's of September 2026, and it stands in this file
// alone. lib/matrix_emulated has the same declarations, made of arrays; lib/matrix_main and lib/matrix_main_pinned have
// the entry point.
enable subgroups;
enable chromium_experimental_subgroup_matrix;

alias Left = subgroup_matrix_left<unit_t, UNIT_K * UNIT_PACKED, UNIT_M>;
alias Right = subgroup_matrix_right<unit_t, UNIT_N, UNIT_K * UNIT_PACKED>;
alias Sums = subgroup_matrix_result<unit_sum_t, UNIT_N, UNIT_M>;

// Rows that lie along k.
fn left_at(at: u32, stride: u32) -> Left { return subgroupMatrixLoad<Left, row_major>(&factors, at, stride); }
// Columns that lie along k, and columns side by side.
fn right_at(at: u32, stride: u32) -> Right { return subgroupMatrixLoad<Right, col_major>(&factors, at, stride); }
fn right_rows_at(at: u32, stride: u32) -> Right { return subgroupMatrixLoad<Right, row_major>(&factors, at, stride); }
fn multiplied(a: Left, b: Right, sums: Sums) -> Sums { return subgroupMatrixMultiplyAccumulate(a, b, sums); }
fn keep(at: u32, stride: u32, sums: Sums) { subgroupMatrixStore<row_major>(&unit_sums, at, sums, stride); }
