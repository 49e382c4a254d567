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
#include "runtime/context.h"
#include "runtime/device_tensor.h"
#include "runtime/diagnostics.h"
#include "runtime/plan_cache.h"
#include "runtime/runner.h"

namespace rlx {

// The part of an executable that is on a device; rebuild() replaces all of it.
struct LoadedGraph {
  LoadedGraph(CompiledGraph compiled_graph, std::shared_ptr<Store::Impl> params);
  LoadedGraph(const LoadedGraph&) = delete;

  std::shared_ptr<DevicePlan> plan_for(List<InputRef> inputs, SymbolList given);
  std::shared_ptr<DevicePlan> plan_for(const SymbolValues& values);

  const CompiledGraph compiled;
  const std::shared_ptr<Store::Impl> store;
  Weights weights;
  GivenSymbols symbols;
  PlanCache plans;
  std::shared_ptr<DevicePlan> last;  // the one that ran last, or the only one; null if there is none yet
};

struct Executable::Impl final : StoreUser {
  Impl(const Graph& source, const CompileOptions& options, std::shared_ptr<LoadedGraph> graph);
  ~Impl();

  void check_param_shape(std::string_view name, const Tensor& value) const;
  void check_state(std::string_view name);  // that there is one

  // In a context, or in that of the executable.
  Run run_async(const Context* context, const RunInputs& inputs, const std::vector<std::string>& outputs,
                SymbolList symbols);
  void run(const Context* context, List<InputRef> inputs, List<OutputRef> outputs, SymbolList symbols);
  NamedDeviceTensors run_on_device(const Context* context, const RunInputs& inputs,
                                   const std::vector<std::string>& outputs, SymbolList symbols);
  void replace(std::shared_ptr<LoadedGraph> fresh);

  // Held while anything of `loaded` is used: `own` keeps it from being replaced.
  struct Lock {
    std::unique_lock<std::mutex> own, store;
  };
  Lock lock();

  // All below are called with that lock.
  const TensorType* param_type(std::string_view name) const override {
    return loaded->weights.param_type(name);
  }
  void expect_param(std::string_view name) override { loaded->weights.expect_param(name); }
  void take_param(std::string_view name, const Tensor& value) override {
    loaded->weights.take_param(name, value);
  }
  void drop_plans() override;
  // Whether it is a param of the graph that no node reads. An error if it is no param of the graph.
  bool is_unused(std::string_view param) const;
  // The states of runs that name no context; and of those that do.
  const std::shared_ptr<Context::Impl>& context_of(const Context* context);
  std::shared_ptr<DevicePlan> plan_for_run(List<InputRef> inputs, SymbolList given);
  // The inputs are in place, the weights loaded and the states bound.
  void prepare(DevicePlan& plan, List<InputRef> inputs, const std::shared_ptr<Context::Impl>& context);
  // Adds a copy of an output to the readback, after the `total` bytes so far.
  void add_readback(const DevicePlan& plan, const DevicePlan::OutputSlot& slot, uint64_t& total);
  // The words for overflow, behind what is read so far; returns where they begin.
  uint64_t add_overflow(const DevicePlan& plan, uint64_t& total);
  const DeviceTensor* fed_to(const DevicePlan::InputSlot& slot) const;
  void check_names(const std::vector<std::string>& outputs) const;  // of outputs
  // Adds a copy of an output to a tensor of the same size.
  void add_on_device(const DevicePlan& plan, const DevicePlan::OutputSlot& slot, const DeviceTensor& tensor);
  void add_feeds(const DevicePlan& plan);
  // Once the last submit of a run has been made.
  void note_run(const DevicePlan& plan);
  // Encodes and submits with the copies that were added and those of the feeds.
  void submit(DevicePlan& plan, gpu::Readback* readback, std::vector<DispatchReport>* times);
  // Begins a run. Before the last of its submits, `read` adds copies and returns the readback, if there is
  // one; `times` gets those of all dispatches, unless it is null. Returns what makes the other submits, if
  // there are several.
  template <class Read>
  std::shared_ptr<Runner> launch(const std::shared_ptr<DevicePlan>& plan, List<InputRef> inputs,
                                 const std::shared_ptr<Context::Impl>& context,
                                 std::vector<DispatchReport>* times, Read read);
  std::shared_ptr<Runner> start(const std::shared_ptr<DevicePlan>& plan,
                                const std::shared_ptr<Context::Impl>& context,
                                std::vector<DispatchReport>* times, std::function<gpu::Readback*()> read);
  // Waits until all submits of such a run have been made: its plan, states and params are its own until then.
  void finish_active() override;
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
    std::optional<DeviceTensor> value = {};  // of the last run
    std::optional<DeviceTensor> next = {};   // memory for that of this one
  };
  std::vector<Feed> feeds;                     // one for an input
  std::shared_ptr<Context::Impl> own_context;  // null until it is needed
  std::vector<gpu::Copy> before;               // scratch memory of a run, kept so that nothing is allocated
  std::vector<gpu::Copy> copies;
  std::unique_ptr<Diagnostics> diagnostics;  // null unless DebugOptions ask for something
  std::atomic<int64_t> submits = 0;
  int64_t plans_before = 0;    // made before the last rebuild
  int64_t plans_reported = 0;  // of those of `loaded`
};

}  // namespace rlx
