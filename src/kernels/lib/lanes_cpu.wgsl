// What the binder puts in place of the declarations of the prelude with the same names where the device is the CPU and
// its subgroups have one size (`cpu_lanes` in kernels/binder.h). There the index of the invocation in its workgroup costs
// divisions in every lane and that in its subgroup nothing, and a workgroup's start takes as long as some memory does.
enable subgroups;

const FLAT_EACH: u32 = 4u;

struct Invocation {
  @builtin(subgroup_id) subgroup: u32,
  @builtin(subgroup_size) subgroup_size: u32,
  @builtin(subgroup_invocation_id) subgroup_lane: u32,
}
fn lane_of(i: Invocation) -> u32 { return i.subgroup * i.subgroup_size + i.subgroup_lane; }

// Products of bytes as multiplications of numbers that are seen to have at most 16 bits, one of them no sign: x86 then has
// one instruction for a product and its sum. a is taken plus 128 for that, which sums of b, the same for all rows of a, undo.
fn bytes_of_i8(v: u32) -> vec4<i32> {
  let s = bitcast<i32>(v);
  return vec4<i32>(extractBits(s, 0u, 8u), extractBits(s, 8u, 8u), extractBits(s, 16u, 8u), extractBits(s, 24u, 8u));
}
fn bytes_plus_128(v: u32) -> vec4<i32> {
  let s = v ^ 0x80808080u;
  return vec4<i32>(vec4<u32>(s & 255u, (s >> 8u) & 255u, (s >> 16u) & 255u, s >> 24u));
}
fn sum_of_four(v: vec4<i32>) -> i32 { return v.x + v.y + v.z + v.w; }
fn dots_of_i8(a: u32, b: vec4<u32>) -> vec4<i32> {
  let f = bytes_plus_128(a);
  return vec4<i32>(sum_of_four(f * bytes_of_i8(b.x)), sum_of_four(f * bytes_of_i8(b.y)),
                   sum_of_four(f * bytes_of_i8(b.z)), sum_of_four(f * bytes_of_i8(b.w)));
}
fn sums_of_i8(b: vec4<u32>) -> vec4<i32> {
  return vec4<i32>(sum_of_four(bytes_of_i8(b.x)), sum_of_four(bytes_of_i8(b.y)), sum_of_four(bytes_of_i8(b.z)),
                   sum_of_four(bytes_of_i8(b.w)));
}
fn add_products_of_i8(a: vec4<u32>, b: array<vec4<u32>, 4>, c: vec4<i32>) -> vec4<i32> {
  let more = (sums_of_i8(b[0]) + sums_of_i8(b[1]) + sums_of_i8(b[2]) + sums_of_i8(b[3])) << vec4<u32>(7u);
  return dots_of_i8(a.w, b[3]) +
         (dots_of_i8(a.z, b[2]) + (dots_of_i8(a.y, b[1]) + (dots_of_i8(a.x, b[0]) + (c - more))));
}
