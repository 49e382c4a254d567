// Compiling a graph for a device and running it.
//
//   rlx::Session session(rlx::Device::open());
//   rlx::Executable exe = session.compile(graph);
//   exe.set_param("w", weights);
//   auto outputs = exe.run({{"x", x}});
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlx/device.h"
#include "rlx/graph.h"
#include "rlx/tensor.h"

namespace rlx {

// What an executable tells of itself while it works. Everything is off by default and costs nothing then.
// Each has an environment flag (docs/flags.md), which is read when a graph is compiled.
struct DebugOptions {
  // With each new plan: how many steps, how much memory, which kernels how often ($RLX_DISPATCH_REPORT).
  bool dispatch_report = false;
  // The same with every step ($RLX_WGPU_SCHEDULE).
  bool schedule = false;
  // After each run: the first node whose value has a NaN or an infinity, with its inputs
  // ($RLX_WGPU_NAN_TRACE).
  bool nan_trace = false;
  // After each run: max |x| and the number of non-zeros of this many nodes; 0 is off, less than 0 all
  // ($RLX_WGPU_DUMP_NODES, $RLX_WGPU_DUMP_NODES_LIMIT).
  int64_t dump_nodes = 0;
  // Runs read nothing back and do not wait; outputs are zeros ($RLX_BENCH_DISPATCH_ONLY).
  bool dispatch_only = false;
  // Every dispatch of every run is timed and added to this Chrome/Perfetto trace ($RLX_TRACE_PERFETTO).
  std::string trace_path = {};
  // Where reports go; stderr when empty.
  std::function<void(const std::string& text)> log = {};
};

struct CompileOptions {
  // Symbols bound for good; those left are bound by the shapes of the inputs of each run.
  Bindings bindings = {};
  // Kernel variants by op, as `rlx ops` lists them: {"matmul", "plain"}. Also
  // $RLX_KERNELS="matmul=plain,...".
  std::map<std::string, std::string, std::less<>> kernels = {};
  // Off: the graph runs as it is written, node by node.
  bool optimize = true;
  // Reads q, k and v straight out of one packed projection. Off with $RLX_WGPU_NO_PACKED_BSHD_ATTN.
  bool packed_attention = true;
  // Every intermediate keeps memory of its own and can be read after a run (Executable::value).
  bool keep_intermediates = false;
  // How many plans for different shapes are kept.
  int64_t max_plans = 8;
  // No matmul may multiply or sum in less than f32. Also $RLX_WGPU_MATMUL_F32_ONLY.
  bool matmul_f32_only = false;
  // Inputs that feed() keeps on the device must be given to every run all the same. Also
  // $RLX_WGPU_FORCE_INPUT_UPLOAD.
  bool force_input_upload = false;
  DebugOptions debug = {};
};

using NamedTensors = std::map<std::string, Tensor, std::less<>>;

// Data for an input, read during the call only.
struct InputRef {
  std::string_view name;
  DType dtype = DType::f32;
  const void* data = nullptr;
  size_t bytes = 0;
  // May stay empty where the graph has a static shape, or one symbol that the length tells.
  std::span<const int64_t> dims = {};
};

// Memory for an output; its size must be the output's.
struct OutputRef {
  std::string_view name;
  DType dtype = DType::f32;
  void* data = nullptr;
  size_t bytes = 0;
};

template <class T>
InputRef input(std::string_view name, std::span<const T> values, std::span<const int64_t> dims = {}) {
  return {name, DTypeOf<T>::value, values.data(), values.size_bytes(), dims};
}
template <class T>
OutputRef output(std::string_view name, std::span<T> values) {
  return {name, DTypeOf<T>::value, values.data(), values.size_bytes()};
}

// Values for symbols that no input's shape tells, such as the length of a cache.
using SymbolRefs = std::span<const std::pair<std::string_view, int64_t>>;

// A run under way. Dropping it is safe; the run goes on.
class Run {
 public:
  Run();
  Run(Run&&) noexcept;
  Run& operator=(Run&&) noexcept;
  ~Run();

  bool ready();  // get() would not block
  NamedTensors get();

  struct Impl;
  explicit Run(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

struct DispatchReport {
  std::string node;
  std::string kernel;
  std::string variant;
  uint64_t begin_ns = 0;  // from the first dispatch
  uint64_t end_ns = 0;
};

struct MemoryReport {
  int64_t weight_bytes = 0;   // params and constants
  int64_t derived_bytes = 0;  // weights rewritten by the load phase
  int64_t state_bytes = 0;
  int64_t input_bytes = 0;
  int64_t intermediate_bytes = 0;
  int64_t lower_bound_bytes = 0;  // what the schedule needs at least for intermediates
};

// One step of a plan.
struct StepReport {
  std::string node;
  std::string op;
  std::string kernel;
  std::string variant;  // the row of the op's kernel table; "" where there is only one
  uint32_t grid[3] = {0, 0, 0};
  int64_t bindings = 0;
  int64_t bytes = 0;  // of the memory bound, read or written
};

struct PlanReport {
  std::vector<StepReport> load;  // once after each change of params
  std::vector<StepReport> run;
  MemoryReport memory;
};

// A compiled graph. Calls may come from several threads; runs are executed in the order of the calls.
// An error leaves it usable, unless the device is lost: rebuild it on a new one then.
class Executable {
 public:
  Executable(Executable&&) noexcept;
  Executable& operator=(Executable&&) noexcept;
  ~Executable();

  // The value must have the param's type; f32 values are rounded for f16 and bf16 params.
  void set_param(std::string_view name, const Tensor& value);
  void set_param(std::string_view name, DType dtype, std::span<const std::byte> bytes);
  template <class T>
  void set_param(std::string_view name, std::span<const T> values) {
    set_param(name, DTypeOf<T>::value, std::as_bytes(values));
  }

  NamedTensors run(const NamedTensors& inputs, SymbolRefs symbols = {});
  // Only these outputs are read back, whole (Graph::Output::count). Allocates nothing once a plan for the
  // shapes exists.
  void run(std::span<const InputRef> inputs, std::span<const OutputRef> outputs, SymbolRefs symbols = {});
  Run run_async(const NamedTensors& inputs, const std::vector<std::string>& outputs = {},
                SymbolRefs symbols = {});

  // After each run, copies an output into an input on the device; that input then needs no data.
  void feed(std::string_view input, std::string_view output);
  // Contents of a state, and new contents for it (zeros when the tensor is left out).
  Tensor read_state(std::string_view name);
  void write_state(std::string_view name, const Tensor& value);
  void reset_states();

  // Starts over on another device, after a loss: params must be set again, states are zero.
  void rebuild(const Device& device);

  const Graph& graph() const;  // after optimisation
  std::vector<std::string> output_names() const;
  std::string plan_text(const Bindings& bindings = {});
  PlanReport plan_report(const Bindings& bindings = {});
  int64_t dispatch_count() const;  // of the plan that ran last
  int64_t load_dispatch_count() const;
  int64_t submit_count() const;  // so far
  int64_t plan_count() const;    // made so far; symbols with a capacity need one for all their values
  MemoryReport memory() const;

  // One run with a timestamp around each dispatch.
  std::vector<DispatchReport> profile(const NamedTensors& inputs, SymbolRefs symbols = {});
  // With CompileOptions::keep_intermediates: the value of a node of graph() after the last run.
  Tensor value(int32_t node, int32_t output = 0);

  struct Impl;
  explicit Executable(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

// A device with what is compiled for it. Sessions share nothing and may be released in any order.
class Session {
 public:
  explicit Session(Device device = Device::open()) : device_(std::move(device)) {}
  // Verifies, optimises and plans the graph. With unbound symbols, planning waits for the first run.
  Executable compile(const Graph& graph, const CompileOptions& options = {});
  const Device& device() const { return device_; }

 private:
  Device device_;
};

}  // namespace rlx
