// The inside of an Executable.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gpu/device.h"
#include "rlx/compile.h"
#include "runtime/diagnostics.h"
#include "runtime/plan_cache.h"

namespace rlx {

// The part of an executable that is on a device; rebuild() replaces all of it.
struct LoadedGraph {
  LoadedGraph(CompiledGraph compiled_graph);
  LoadedGraph(const LoadedGraph&) = delete;

  std::shared_ptr<DevicePlan> plan_for(List<InputRef> inputs, SymbolList given);
  std::shared_ptr<DevicePlan> plan_for(const SymbolValues& values);

  const CompiledGraph compiled;
  Weights weights;
  RunSymbols symbols;
  PlanCache plans;
  std::shared_ptr<DevicePlan> last;  // the one that ran last, or the only one; null if there is none yet
};

struct Executable::Impl {
  Impl(const Graph& source, const CompileOptions& options, std::unique_ptr<LoadedGraph> graph);

  void check_param_shape(std::string_view name, const Tensor& value) const;

  // All below are called with `mutex` held.
  void set_param(std::string_view name, DType dtype, std::span<const std::byte> bytes);
  std::shared_ptr<DevicePlan> plan_for_run(List<InputRef> inputs, SymbolList given);
  void upload_inputs(DevicePlan& plan, List<InputRef> inputs);
  // Adds a copy of an output to the readback, after the `total` bytes so far.
  void add_readback(const DevicePlan& plan, const DevicePlan::OutputSlot& slot, uint64_t& total);
  // Encodes and submits with the copies that were added and those of the feeds.
  void submit(DevicePlan& plan, gpu::Readback* readback);
  std::vector<DispatchReport> submit_timed(const DevicePlan& plan, const gpu::Work& work);
  PlanReport plan_report(const DevicePlan& plan) const;
  std::string plan_text(const DevicePlan& plan) const;
  MemoryReport memory_report(const DevicePlan* plan) const;
  // Tells the diagnostics about a plan that was just made.
  void report_if_new(const DevicePlan& plan);

  std::mutex mutex;
  const Graph source;            // as given, for rebuild
  const CompileOptions options;  // as given
  std::unique_ptr<LoadedGraph> loaded;
  struct Feed {
    std::string input, output;
  };
  std::vector<Feed> feeds;
  std::vector<gpu::Copy> copies;             // scratch memory of a run, kept so that nothing is allocated
  std::unique_ptr<Diagnostics> diagnostics;  // null unless DebugOptions ask for something
  int64_t submits = 0;
  int64_t plans_before = 0;    // made before the last rebuild
  int64_t plans_reported = 0;  // of those of `loaded`
};

}  // namespace rlx
