// The types of kernels on matrix units of f16 with sums in f32.
enable f16;

alias unit_t = f16;
alias unit_sum_t = f32;
const UNIT_PACKED: u32 = 1u;
fn unit_multiply_add(a: unit_t, b: unit_t, c: unit_sum_t) -> unit_sum_t { return f32(a) * f32(b) + c; }
