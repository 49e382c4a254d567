#include "measure/measure.h"

#include <algorithm>
#include <ctime>
#include <vector>

#include "measure/stopwatch.h"

namespace rlx::measure {

double process_cpu_ms() {
  timespec t = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
}

namespace {

// The value below which this share of the others is.
double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto at = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size()));
  std::ranges::nth_element(values, values.begin() + at);
  return values[static_cast<size_t>(at)];
}

// Of the memory that a run fills. A run returns less of an output that only partly counts.
size_t whole_bytes(const Executable& exe, std::string_view name, const Tensor& returned) {
  for (const TensorInfo& info : exe.outputs()) {
    if (info.name == name && info.type.shape.is_static())
      return host_bytes_of(info.type.dtype, info.type.shape.elements().value());
  }
  return returned.byte_size();
}

}  // namespace

Measured measure_runs(Executable& exe, const NamedTensors& inputs, double seconds, int64_t max_runs,
                      std::span<const Growing> growing) {
  Measured out;
  std::vector<std::pair<std::string_view, int64_t>> symbols;
  for (const Growing& g : growing) symbols.emplace_back(g.symbol, 1);
  const auto grow = [&] {
    for (size_t i = 0; i < symbols.size(); ++i) symbols[i].second = symbols[i].second % growing[i].end + 1;
  };
  const Stopwatch first;
  const NamedTensors results = exe.run(inputs, symbols);
  out.first_ms = first.ms();

  std::vector<InputRef> in;
  for (const auto& [name, t] : inputs)
    in.push_back({name, t.dtype(), t.bytes().data(), t.bytes().size(), t.shape()});
  std::vector<std::vector<std::byte>> memory;
  std::vector<OutputRef> to;
  for (const auto& [name, t] : results) {
    memory.emplace_back(whole_bytes(exe, name, t));
    to.push_back({name, t.dtype(), memory.back().data(), memory.back().size()});
  }
  grow();
  exe.run(in, to, symbols);  // the readback pool fills here
  std::vector<double> wall;
  std::vector<double> cpu;
  const Stopwatch all;
  while (std::ssize(wall) < 5 || (std::ssize(wall) < max_runs && all.ms() < seconds * 1e3)) {
    grow();
    const double cpu_before = process_cpu_ms();
    const Stopwatch one;
    exe.run(in, to, symbols);
    wall.push_back(one.ms());
    cpu.push_back(process_cpu_ms() - cpu_before);
  }
  out.runs = std::ssize(wall);
  out.wall_ms = quantile(wall, 0.5);
  out.p90_ms = quantile(std::move(wall), 0.9);
  out.cpu_ms = quantile(std::move(cpu), 0.5);
  return out;
}

std::vector<DispatchReport> fastest_dispatches(Executable& exe, const NamedTensors& inputs,
                                               const SymbolValues& symbols) {
  const std::vector<std::pair<std::string_view, int64_t>> values(symbols.begin(), symbols.end());
  std::vector<DispatchReport> best;
  uint64_t least = UINT64_MAX;
  for (int run = 0; run < 5; ++run) {
    std::vector<DispatchReport> one = exe.profile(inputs, values);
    uint64_t sum = 0;
    for (const DispatchReport& d : one) sum += d.end_ns - d.begin_ns;
    if (sum >= least) continue;
    least = sum;
    best = std::move(one);
  }
  return best;
}

}  // namespace rlx::measure
