// Tuning on demand.
#include "rlx/tuning.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/border.h"
#include "base/fail.h"
#include "runtime/executable.h"

namespace rlx {
namespace {

TuningFile file_of(const gpu::Device& device, const TuneOptions& options) {
  if (!options.file.empty()) return TuningFile(options.file);
  if (const auto file = TuningFile::in_folder(device.cache_folder())) return *file;
  fail(ErrorKind::invalid_argument,
       "tuning has no file for what it measures: the device '{}' was opened without a cache folder",
       device.info().name);
}

void check_tunable(const Executable::Impl& exe, const TuneOptions& options) {
  const CompileOptions& compiled = exe.device_side->compiled.options;
  if (!compiled.tuning.records)
    fail(ErrorKind::invalid_argument,
         "measured times are not used (RLX_NO_TUNE, TuningOptions::records): there is nothing to tune");
  if (compiled.deterministic)
    fail(ErrorKind::invalid_argument,
         "a deterministic executable never measures: compile the one to tune with "
         "CompileOptions::deterministic off");
  if (options.candidates < 2 || !(options.seconds > 0))
    fail(ErrorKind::invalid_argument, "tuning with {} candidates for {} seconds compares nothing",
         options.candidates, options.seconds);
  const gpu::Device& device = *exe.device_side->store->device;
  if (!device.caps().timestamps)
    fail(ErrorKind::unsupported, "the device '{}' has no timestamps, so there is nothing to measure with",
         device.info().name);
}

FileLock take_turn(const TuningFile& file, const TuneOptions& options) {
  if (auto turn = FileLock::take(file.turn(), false)) return std::move(*turn);
  if (options.progress) options.progress({.problem = "waiting for another process that measures"});
  if (auto turn = FileLock::take(file.turn(), true)) return std::move(*turn);
  fail(ErrorKind::invalid_file, "{}: measured times cannot be written", file.path());
}

}  // namespace

TuneReport tune(Executable& exe, const RunInputs& inputs, const TuneOptions& options,
                SymbolList symbols) try {
  Executable::Impl& impl = ExecutableAccess::get(exe);
  {
    const Executable::Impl::Lock held = impl.lock();
    check_tunable(impl, options);
  }
  exe.profile(inputs, symbols);  // drivers compile at the first dispatch of each pipeline
  std::map<std::string, double, std::less<>> node_ns;
  TuneReport report;
  for (const DispatchReport& d : exe.profile(inputs, symbols)) {
    const auto ns = static_cast<double>(d.end_ns - d.begin_ns);
    node_ns[d.node] += ns;
    report.run_ms += ns * 1e-6;
  }

  const Executable::Impl::Lock held = impl.lock();
  impl.finish_active();
  const std::shared_ptr<DevicePlan> plan = impl.device_side->last;
  if (!plan) fail(ErrorKind::invalid_argument, "the plan of the executable is gone; nothing can be tuned");
  const TuningFile file = file_of(*impl.device_side->store->device, options);
  file.check();
  const FileLock turn = take_turn(file, options);
  Tuner tuner(plan, file, {.seconds = options.seconds, .candidates = options.candidates});

  // The most expensive problems first.
  const std::vector<KernelProblem>& problems = tuner.problems();
  std::vector<double> ns(problems.size());
  for (size_t p = 0; p < problems.size(); ++p) {
    for (const size_t work : problems[p].works)
      ns[p] += node_ns[plan->graph().node(plan->work()[work].node).name];
  }
  std::vector<size_t> order(problems.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](size_t p) { return ns[p]; });
  const auto is_small = [&](size_t p) { return ns[p] < options.least_share * report.run_ms * 1e6; };
  const int64_t count = std::ranges::count_if(order, [&](size_t p) { return !is_small(p); });

  report.file = file.path();
  for (const size_t p : order) {
    TunedProblem& result = report.problems.emplace_back(tuner.results()[p]);
    if (is_small(p)) {
      result.left = "little of the run";
      continue;
    }
    if (options.progress)
      options.progress({.done = std::ssize(report.problems) - 1,
                        .problems = count,
                        .problem = formatted("{} {}", result.op, result.key)});
    tuner.begin(p);
    const bool measures = tuner.is_under_way();
    while (tuner.is_under_way()) tuner.step();
    result = tuner.results()[p];
    report.measured += measures && result.left.empty() ? 1 : 0;
  }
  return report;
} catch (...) {
  throw_as_error("tuning a graph");
}

}  // namespace rlx
