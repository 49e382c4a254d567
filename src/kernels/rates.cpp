#include "kernels/rates.h"

#include <algorithm>
#include <cmath>

namespace rlx {
namespace {

double measured_or(double measured, double estimate) { return measured > 0 ? measured : estimate; }

// Measured with lavapipe on two cores. A subgroup is one vector register; its lanes share the time of a step.
// All of it is time of the same cores: a CPU that makes products twice as fast makes everything twice as
// fast, so that the kernels which are chosen stay the same.
Rates cpu_rates(const Caps& caps) {
  constexpr double kFlops = 24;
  const double faster = caps.measured.product_gflops > 0 ? caps.measured.product_gflops / kFlops : 1;
  const double lanes = std::max(1.0, static_cast<double>(caps.subgroup_max_size));
  // Subgroups of several sizes meet at barriers, for which a CPU keeps their values in memory.
  const bool whole = caps.subgroup_min_size == caps.subgroup_max_size;
  return {.cpu = true,
          .lanes = lanes,
          .flops_per_ns = kFlops * faster,
          .bytes_per_ns = 64 * faster,
          .dispatch_ns = 5000 / faster,
          .step_ns = 4 * lanes / faster,
          .far_step_ns = 4 * lanes / faster,
          .barrier_steps = 0,
          .exchange_steps = 0,
          .group_ns = 10000 / faster,
          .subgroup_ns = (whole ? 50.0 : 1000.0) / faster,
          .cores = 2,
          .group_lanes = 8,
          .stream_bytes_per_ns = measured_or(caps.measured.memory_gbps, 12),
          .cached_bytes_per_ns = measured_or(caps.measured.cache_gbps, 24),
          .launch_ns = measured_or(caps.measured.dispatch_ns, 5000 / faster),
          .speed = faster};
}

// From the drivers of docs/gpu.md, whose compilers give an invocation no more. What is not known is taken to
// be small: a kernel that spills loses more than one that has registers left.
double registers_of(GpuFamily family) {
  switch (family) {
    case GpuFamily::amd:
    case GpuFamily::nvidia:
      return 255;
    case GpuFamily::qualcomm:
      return 190;
    case GpuFamily::apple:
    case GpuFamily::intel:
    case GpuFamily::other:
      break;
  }
  return 128;
}

// Not measured: typical values for this kind of GPU. An adapter does not say how many cores it has, but cards
// with more memory also have more of everything else.
Rates gpu_rates(const Caps& caps) {
  // Of `flops_per_ns`, in the kernel that a calibration measures (ops/products/loop_staged.h).
  constexpr double kProductShare = 0.5;
  constexpr double kUsualMemory = 16.0 * (1u << 30);
  const double size = caps.kind == AdapterKind::integrated ? 0.125
                      : caps.kind == AdapterKind::discrete && caps.memory_bytes != 0
                          ? std::clamp(static_cast<double>(caps.memory_bytes) / kUsualMemory, 0.125, 4.0)
                          : 1.0;
  const double bytes = measured_or(caps.measured.memory_gbps, 400 * size);
  const double dispatch_ns = measured_or(caps.measured.dispatch_ns, 5000);
  return {.lanes = 32768 * size,
          .flops_per_ns = measured_or(caps.measured.product_gflops / kProductShare, 8000 * size),
          .bytes_per_ns = bytes,
          .dispatch_ns = dispatch_ns,
          .step_ns = 10,
          .far_step_ns = 60,
          .barrier_steps = 4,
          .exchange_steps = 1,
          .registers = registers_of(caps.family),
          .load_registers = caps.family == GpuFamily::qualcomm ? 2.25 : 0.0,
          .group_lanes = std::max(64.0, static_cast<double>(caps.subgroup_max_size)),
          .stream_bytes_per_ns = bytes,
          .cached_bytes_per_ns = measured_or(caps.measured.cache_gbps, bytes),
          .launch_ns = dispatch_ns};
}

}  // namespace

Rates rates_of(const Caps& caps) { return caps.kind == AdapterKind::cpu ? cpu_rates(caps) : gpu_rates(caps); }

double stream_ns(const Rates& rates, double bytes) {
  // Between what caches hold and what they do not, in proportion to the logarithm.
  constexpr double kCached = 8 << 20, kBeyond = 64 << 20;
  const double beyond = std::clamp(std::log2(bytes / kCached) / std::log2(kBeyond / kCached), 0.0, 1.0);
  return bytes * ((1 - beyond) / rates.cached_bytes_per_ns + beyond / rates.stream_bytes_per_ns);
}

double compute_ns(const Rates& rates, double flops, Share share) {
  return flops / (rates.flops_per_ns * (rates.cpu ? share.cpu : share.gpu));
}

double spilling(const Rates& rates, double held) {
  constexpr double kRest =
      48;  // indices, addresses, what is loaded next: found with the compilers of docs/gpu.md
  if (rates.cpu || held + kRest <= rates.registers) return 1;
  return held <= 2 * rates.registers ? 2 : 10;
}

double misfit(double value, double wanted) { return 1 + 0.05 * std::abs(std::log2(value / wanted)); }

}  // namespace rlx
