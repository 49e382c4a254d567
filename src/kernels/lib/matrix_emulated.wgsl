// Matrix units made of arrays: what lib/matrix_units declares, for configurations that the device does not have, and the entry
// point. Each lane of a subgroup, WIDTH neighbours in the workgroup, has every WIDTH-th sum of a unit.

struct Left { at: u32, stride: u32, }
struct Right { at: u32, of_column: u32, of_k: u32, }
alias Sums = array<unit_sum_t, UNIT_M * UNIT_N / WIDTH>;

var<private> lane_of_unit: u32;

fn left_at(at: u32, stride: u32) -> Left { return Left(at, stride); }
fn right_at(at: u32, stride: u32) -> Right { return Right(at, stride, 1u); }
fn right_rows_at(at: u32, stride: u32) -> Right { return Right(at, 1u, stride); }
fn multiplied(a: Left, b: Right, sums: Sums) -> Sums {
  var out: Sums;
  for (var e = 0u; e < UNIT_M * UNIT_N / WIDTH; e++) {
    let i = lane_of_unit + e * WIDTH;
    let row = a.at + i / UNIT_N * a.stride;
    let column = b.at + i % UNIT_N * b.of_column;
    var sum = sums[e];
    for (var k = 0u; k < UNIT_K; k++) { sum = unit_multiply_add(factors[row + k], factors[column + k * b.of_k], sum); }
    out[e] = sum;
  }
  return out;
}
fn keep(at: u32, stride: u32, sums: Sums) {
  for (var e = 0u; e < UNIT_M * UNIT_N / WIDTH; e++) {
    let i = lane_of_unit + e * WIDTH;
    unit_sums[at + i / UNIT_N * stride + i % UNIT_N] = sums[e];
  }
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  lane_of_unit = lane % WIDTH;
  matrix_task(group_index(group, groups), lane, lane / WIDTH);
}
