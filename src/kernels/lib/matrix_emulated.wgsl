// Matrix units made of arrays: what lib/matrix_units declares, for configurations that the device does not have. Each lane of
// a subgroup, WIDTH neighbours in the workgroup, has every WIDTH-th sum of a unit.

struct Left { at: u32, }
struct Right { at: u32, }
alias Sums = array<unit_sum_t, UNIT_M * UNIT_N / WIDTH>;

var<private> lane_of_unit: u32;
fn emulated_subgroup(lane: u32) -> u32 {
  lane_of_unit = lane % WIDTH;
  return lane / WIDTH;
}

fn left_at(at: u32) -> Left { return Left(at); }
fn right_at(at: u32) -> Right { return Right(at); }
fn multiplied(a: Left, b: Right, sums: Sums) -> Sums {
  var out: Sums;
  for (var e = 0u; e < UNIT_M * UNIT_N / WIDTH; e++) {
    let i = lane_of_unit + e * WIDTH;
    var sum = sum_t(sums[e]);
    for (var k = 0u; k < UNIT_K; k++) {
      sum = mad_one(mul_t(a_tile[a.at + i / UNIT_N * STRIDE + k]), mul_t(b_tile[b.at + i % UNIT_N * STRIDE + k]), sum);
    }
    out[e] = unit_sum_t(sum);
  }
  return out;
}
fn keep(at: u32, sums: Sums) {
  for (var e = 0u; e < UNIT_M * UNIT_N / WIDTH; e++) { y_tile[at + lane_of_unit + e * WIDTH] = sums[e]; }
}
