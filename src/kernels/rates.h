// How fast a device is, estimated from its caps. The costs in variant tables depend on the device only
// through these numbers, and through its limits.
#pragma once

#include "rlx/caps.h"

namespace rlx {

struct Rates {
  bool cpu = false;         // the "GPU" is the CPU: the lanes of a workgroup take turns, memory is its cache
  double lanes = 0;         // invocations that run at once
  double flops_per_ns = 0;  // of all of them, in the best kernel there is
  double bytes_per_ns = 0;  // from and to memory
  double dispatch_ns = 0;   // of an empty dispatch

  // Along rows. A step is four neighbours, read and used by every lane that runs at once.
  double step_ns = 0;
  double far_step_ns = 0;     // when neighbouring lanes read far apart: a cache line for each
  double barrier_steps = 0;   // for each halving of a team that meets at barriers
  double exchange_steps = 0;  // the same in a subgroup
  double group_ns = 0;        // extra for each workgroup with barriers
  double subgroup_ns = 0;     // extra for each subgroup that exchanges values

  // Of 32 bits, that an invocation of a GPU may have before its values go to memory, and how many of them
  // each load of code without loops takes: some compilers begin with all loads.
  double registers = 0;
  double load_registers = 0;

  double cores = 1;        // of a CPU: a workgroup has one. Times are those of all of them
  double group_lanes = 0;  // of a workgroup whose lanes need not meet

  // What a copy reaches, beyond the caches and within them. `bytes_per_ns` is what candidates are ranked by.
  double stream_bytes_per_ns = 0;
  double cached_bytes_per_ns = 0;
  // Of an empty dispatch, for predictions: with what it costs to be in a pass of its own, if it was measured.
  double launch_ns = 0;
  // Compared with the device that this was measured on: what an estimate says in nanoseconds is divided by
  // it.
  double speed = 1;
};
// Estimated from the kind of device, or from Caps::measured where that has something.
Rates rates_of(const Caps& caps);

// The least that a dispatch takes which reads and writes these bytes, each once.
double stream_ns(const Rates& rates, double bytes);

// The fraction of `flops_per_ns` that a kernel reaches: measured on CPUs; on GPUs guessed from its memory
// traffic.
struct Share {
  double cpu;
  double gpu;
};
double compute_ns(const Rates& rates, double flops, Share share);

// By what factor a kernel is assumed to be slower, on a GPU, because each invocation holds so many numbers
// besides what every kernel needs; 1 if they fit into registers. A guess, which keeps kernels from spilling.
double spilling(const Rates& rates, double held);

// By what factor a kernel is assumed to be slower with a constant of `value` than with `wanted`: a guess, 5 %
// for each factor of two, which only ranks candidates until they are measured.
double misfit(double value, double wanted);

}  // namespace rlx
