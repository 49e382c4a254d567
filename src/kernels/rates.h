// How fast a device is, estimated from what it says of itself: the costs in the tables of kernels are made of
// this, and of nothing else that depends on the device.
#pragma once

#include "rlx/caps.h"

namespace rlx {

struct Rates {
  bool cpu = false;         // the "GPU" is the CPU: the lanes of a workgroup take turns, memory is its cache
  double lanes = 0;         // invocations that run at once
  double flops_per_ns = 0;  // of all of them, in the best kernel there is
  double bytes_per_ns = 0;  // from and to memory
  double dispatch_ns = 0;   // of one that does nothing

  // Along rows. A step is four neighbours, read and used by every lane that runs at once.
  double step_ns = 0;
  double far_step_ns = 0;     // when neighbouring lanes read far apart: a line of the cache for each
  double barrier_steps = 0;   // for each halving of a team that meets at barriers
  double exchange_steps = 0;  // the same in a subgroup
  double group_ns = 0;        // more for each workgroup with barriers
  double subgroup_ns = 0;     // more for each subgroup that exchanges values

  double group_lanes = 0;  // of a workgroup whose lanes need not meet
};
Rates rates_of(const Caps& caps);

// The part of `flops_per_ns` that a kernel reaches: measured on CPUs; on GPUs in the ratio that its memory
// traffic suggests.
struct Share {
  double cpu;
  double gpu;
};
double compute_ns(const Rates& rates, double flops, Share share);

// How much longer a kernel is taken to run with a constant of `value` where `wanted` is thought best: a
// guess, 5 % for each factor of two, that only puts candidates in order until they are measured.
double misfit(double value, double wanted);

}  // namespace rlx
