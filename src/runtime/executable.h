// The inside of an Executable.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gpu/device.h"
#include "rlx/compile.h"
#include "runtime/diagnostics.h"
#include "runtime/plan_cache.h"
#include "runtime/runner.h"

namespace rlx {

// The part of an executable that is on a device; rebuild() replaces all of it.
struct LoadedGraph {
  LoadedGraph(CompiledGraph compiled_graph);
  LoadedGraph(const LoadedGraph&) = delete;

  std::shared_ptr<DevicePlan> plan_for(List<InputRef> inputs, SymbolList given);
  std::shared_ptr<DevicePlan> plan_for(const SymbolValues& values);

  const CompiledGraph compiled;
  Weights weights;
  GivenSymbols symbols;
  PlanCache plans;
  std::shared_ptr<DevicePlan> last;  // the one that ran last, or the only one; null if there is none yet
};

struct Executable::Impl {
  Impl(const Graph& source, const CompileOptions& options, std::shared_ptr<LoadedGraph> graph);
  ~Impl();

  void check_param_shape(std::string_view name, const Tensor& value) const;

  // All below are called with `mutex` held.
  bool is_unused(std::string_view param) const;
  std::shared_ptr<DevicePlan> plan_for_run(List<InputRef> inputs, SymbolList given);
  // The inputs are in place and the weights loaded; if this fails, no input has changed.
  void prepare(DevicePlan& plan, List<InputRef> inputs);
  // Adds a copy of an output to the readback, after the `total` bytes so far.
  void add_readback(const DevicePlan& plan, const DevicePlan::OutputSlot& slot, uint64_t& total);
  // The words for overflow, behind what is read so far; returns where they begin.
  uint64_t add_overflow(const DevicePlan& plan, uint64_t& total);
  void add_feeds(DevicePlan& plan);
  void mark_fed(DevicePlan& plan) const;  // once such a submit has been made
  // Encodes and submits with the copies that were added and those of the feeds.
  void submit(DevicePlan& plan, gpu::Readback* readback);
  // Begins a run in several submits. Before the last of them, `read` adds copies and returns the readback, if
  // there is one; `times` gets those of all dispatches, unless it is null.
  std::shared_ptr<Runner> start(const std::shared_ptr<DevicePlan>& plan, std::vector<DispatchReport>* times,
                                std::function<gpu::Readback*()> read);
  // Waits until all submits of such a run have been made: its plan, states and params are its own until then.
  void finish_active();
  // The times of these commands of the plan, or of all if none are given.
  std::vector<DispatchReport> submit_timed(const DevicePlan& plan, std::span<const size_t> commands,
                                           const gpu::Work& work);
  void report_run(const DevicePlan& plan);
  PlanReport plan_report(const DevicePlan& plan) const;
  std::string plan_text(const DevicePlan& plan) const;
  MemoryReport memory_report(const DevicePlan* plan) const;
  // Tells the diagnostics about a plan that was just made.
  void report_if_new(const DevicePlan& plan);

  std::mutex mutex;
  const Graph source;            // as given, for rebuild
  const CompileOptions options;  // as given
  const std::vector<TensorInfo> params;
  std::shared_ptr<LoadedGraph> loaded;
  std::shared_ptr<Runner> active;  // a run that has not made all of its submits
  struct Feed {
    std::string input, output;
  };
  std::vector<Feed> feeds;                   // one for an input
  std::vector<gpu::Copy> copies;             // scratch memory of a run, kept so that nothing is allocated
  std::unique_ptr<Diagnostics> diagnostics;  // null unless DebugOptions ask for something
  std::atomic<int64_t> submits = 0;
  int64_t plans_before = 0;    // made before the last rebuild
  int64_t plans_reported = 0;  // of those of `loaded`
};

}  // namespace rlx
