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
