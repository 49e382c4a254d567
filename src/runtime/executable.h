// The inside of an Executable.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/task.h"
#include "gpu/device.h"
#include "rlx/compile.h"
#include "runtime/context.h"
#include "runtime/device_tensor.h"
#include "runtime/diagnostics.h"
#include "runtime/plan_cache.h"
#include "runtime/runner.h"
#include "runtime/tuner.h"

namespace rlx {

// An executable's part on a device: a compiled graph with its weights and plans there. Made by compile(), and
// replaced as a whole by rebuild().
struct DeviceSide {
  DeviceSide(CompiledGraph compiled_graph, std::shared_ptr<Store::Impl> params);
  DeviceSide(const DeviceSide&) = delete;

  Task<std::shared_ptr<DevicePlan>> plan_for(const SymbolValues& values);

  const CompiledGraph compiled;
  const std::shared_ptr<Store::Impl> store;
  Weights weights;
  GivenSymbols symbols;
  PlanCache plans;
  std::shared_ptr<DevicePlan> last;  // the one that ran last, or the only one; null if there is none yet
};

// Who asked for a run. It must last until the last submit has been made.
class RunCaller {
 public:
  // The sizes of the inputs are right: now their elements are needed.
  virtual void add_data() {}
  // Before the last submit, when all sizes are known: adds copies of the outputs and returns where they are
  // read back to, if anywhere.
  virtual gpu::Readback* add_outputs(const DevicePlan& plan) = 0;

 protected:
  ~RunCaller() = default;
};

struct RunRequest {
  RunCaller& caller;
  List<InputRef> inputs;
  SymbolList symbols;
  const Context* context = nullptr;              // null: that of the executable
  std::vector<DispatchReport>* times = nullptr;  // gets those of all dispatches, unless it is null
};

struct Executable::Impl final : StoreUser {
  Impl(const Graph& source, const CompileOptions& options, std::shared_ptr<DeviceSide> made);
  ~Impl();

  void check_param_shape(std::string_view name, const Tensor& value) const;
  void check_state(std::string_view name);  // that there is one

  // In a context, or in that of the executable.
  Run run_async(const Context* context, const RunInputs& inputs, const std::vector<std::string>& outputs,
                SymbolList symbols);
  void run(const Context* context, List<InputRef> inputs, List<OutputRef> outputs, SymbolList symbols);
  NamedDeviceTensors run_on_device(const Context* context, const RunInputs& inputs,
                                   const std::vector<std::string>& outputs, SymbolList symbols);
  void load_into(const std::shared_ptr<Store::Impl>& store);  // starts over there

  // Held while anything of `device_side` is used: `own` keeps it from being replaced.
  struct Lock {
    std::unique_lock<std::mutex> own, store;
  };
  Lock lock();

  // All below are called with that lock.
  const TensorType* param_type(std::string_view name) const override {
    return device_side->weights.param_type(name);
  }
  void expect_param(std::string_view name) override { device_side->weights.expect_param(name); }
  void take_param(std::string_view name, const Tensor& value) override {
    device_side->weights.take_param(name, value);
  }
  bool is_active() const override { return active != nullptr; }
  void drop_plans() override;
  void drop_weights(const std::set<const gpu::Buffer*>& needed) override {
    drop_plans();  // they use them
    device_side->weights.drop(needed);
  }
  void add_weights(std::set<const gpu::Buffer*>& needed) const override {
    device_side->weights.add_buffers(needed);
  }
  // Whether it is a param of the graph that no node reads. An error if it is no param of the graph.
  bool is_unused(std::string_view param) const;
  // The states of runs that name no context; and of those that do.
  const std::shared_ptr<Context::Impl>& context_of(const Context* context);
  Task<std::shared_ptr<DevicePlan>> make_plan();
  gpu::Readback* add_outputs(RunCaller& caller, const DevicePlan& plan, const Context::Impl& context);
  void check_inputs(const DevicePlan& plan, List<InputRef> inputs) const;
  // The inputs are in place and the states bound.
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
  // The commands of the plan, or all if none are given, in as many submits as keep each of them short.
  void submit(const DevicePlan& plan, std::span<const size_t> commands, const gpu::Work& work,
              std::vector<DispatchReport>* times);
  // Which of the plan's commands a submit has: those from `first` on, of these or of all if these are none.
  struct Piece {
    std::span<const size_t> commands;
    size_t first;
    size_t step(size_t i) const { return commands.empty() ? first + i : commands[first + i]; }
  };
  void submit_piece(const DevicePlan& plan, const Piece& of, const gpu::Work& work,
                    std::vector<DispatchReport>* times);
  // A run from the call to its last submit, where something has to be waited for in between: pipelines,
  // loading, words that the host reads.
  struct ActiveRun;
  // Begins a run. Nothing is returned if all has been submitted. `keep` is kept until then.
  std::shared_ptr<ActiveRun> launch(const RunRequest& request, std::shared_ptr<RunCaller> keep = nullptr);
  void launch_and_wait(const RunRequest& request);  // until all has been submitted
  Task<> go(ActiveRun& run);
  // Waits until all submits of such a run have been made: its plan, states and params are its own until then.
  void finish_active() override;
  std::vector<DispatchReport> submit_timed(const DevicePlan& plan, const Piece& of, const gpu::Work& work);
  void report_run(const DevicePlan& plan);
  PlanReport plan_report(const DevicePlan& plan) const;
  std::string plan_text(const DevicePlan& plan) const;
  MemoryReport memory_report(const DevicePlan* plan) const;
  // Measures after a run that took so long, if the options say so; without the lock.
  void tune_after(double run_ms);
  // Tells the diagnostics about a plan that was just made.
  void report_if_new(const DevicePlan& plan);

  std::mutex mutex;
  const Graph source;            // as given, for rebuild
  const CompileOptions options;  // as given
  const std::vector<TensorInfo> params;
  std::shared_ptr<DeviceSide> device_side;
  std::shared_ptr<ActiveRun> active;  // a run that has not made all of its submits
  struct Feed {
    std::string input, output;
    std::optional<DeviceTensor> value = {};  // of the last run
    std::optional<DeviceTensor> next = {};   // memory for that of this one
  };
  std::vector<Feed> feeds;                     // one for an input
  std::shared_ptr<Context::Impl> own_context;  // null until it is needed
  std::vector<gpu::Copy> before;               // scratch memory of a run, kept so that nothing is allocated
  std::vector<gpu::Copy> copies;
  std::unique_ptr<BackgroundTuner> tuner;    // null unless it measures in the background
  std::unique_ptr<Diagnostics> diagnostics;  // null unless DebugOptions ask for something
  std::atomic<int64_t> submits = 0;
  int64_t plans_before = 0;    // made before the last rebuild
  int64_t plans_reported = 0;  // of those of `device_side`
};

struct Executable::Impl::ActiveRun final : Runner::Submitter {
  ActiveRun(Impl& executable, const RunRequest& asked, std::shared_ptr<RunCaller> kept);

  // Goes on, to the end if it is to block; true at the end. Throws the run's error, each time. With the
  // store's mutex held.
  bool advance(bool block);
  void cancel();
  void end();
  void submit(std::span<const size_t> commands, const gpu::Work& work) override;
  void add_outputs(gpu::Work& work) override;

  Impl& exe;  // alive until the run has ended
  const std::shared_ptr<Store::Impl> store;
  RunRequest request;
  std::shared_ptr<RunCaller> keep;
  std::shared_ptr<Context::Impl> context;
  std::shared_ptr<DevicePlan> plan;             // null until there is one
  std::optional<gpu::Readback*> readback = {};  // once the outputs have been asked for
  bool done = false;
  std::exception_ptr error;
  TaskPosition position;
  Task<> task;  // uses the others
};

struct ExecutableAccess {
  static Executable::Impl& get(const Executable& executable) { return executable.impl(); }
  static Executable make(std::unique_ptr<Executable::Impl> impl) { return Executable(std::move(impl)); }
};

}  // namespace rlx
