// From a graph to something that runs.
//
//   rlx::Device device = rlx::Device::open();
//   rlx::Executable exe = rlx::compile(graph, device);
//   exe.set_param("w", weights);
//   auto outputs = exe.run({{"x", x}});
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "rlx/calibration.h"
#include "rlx/device.h"
#include "rlx/executable.h"
#include "rlx/export.h"
#include "rlx/graph.h"
#include "rlx/precision.h"
#include "rlx/store.h"
#include "rlx/tuning.h"

RLX_EXPORT_BEGIN
namespace rlx {

// What an executable reports while it works. Everything is off by default, and then costs nothing.
// Each report has an environment flag (docs/flags.md), which is read when a graph is compiled.
struct DebugOptions {
  // With each new plan: the number of dispatches, the memory, how often each kernel is used
  // ($RLX_DISPATCH_REPORT).
  bool dispatch_report = false;
  // The same, and every dispatch ($RLX_WGPU_SCHEDULE).
  bool schedule = false;
  // After each run: the first node whose value has a NaN or an infinity, with its inputs
  // ($RLX_WGPU_NAN_TRACE).
  bool nan_trace = false;
  // After each run: max |x| and the number of non-zeros of this many nodes; 0 is off, negative is all
  // ($RLX_WGPU_DUMP_NODES, $RLX_WGPU_DUMP_NODES_LIMIT).
  int64_t dump_nodes = 0;
  // Runs read nothing back and do not wait; outputs are zeros ($RLX_BENCH_DISPATCH_ONLY).
  bool dispatch_only = false;
  // Every dispatch of every run is timed and added to this Chrome/Perfetto trace ($RLX_TRACE_PERFETTO).
  std::string trace_path = {};
  // Where reports go; stderr when empty.
  std::function<void(const std::string& text)> log = {};
};

// Which matrix units products may use, of those that DeviceOptions::experimental offers. The flags are those
// of the Rust crate.
struct MatrixUnitOptions {
  bool f16 = true;  // off: $RLX_WGPU_NO_COOP_F16_VK, $RLX_WGPU_COOP_F16_VK_DISABLE
  bool f32 = true;  // off: $RLX_WGPU_NO_COOP_F32
  // Products of f32 use units of f32 wherever they can, whatever the estimates say. $RLX_WGPU_FORCE_COOP_F32
  bool force_f32 = false;
  // Factors may be rounded to f16 for them, if the precision allows it. Off: $RLX_WGPU_COOP_F16_VK_FORCE_WIDE
  bool round = true;
};

struct CompileOptions {
  // Symbols bound once and for all; the others are bound by the shapes of the inputs of each run.
  SymbolValues symbols = {};
  // Kernels by op, as `rlx ops` lists them: {"matmul", "plain"}, or whole as plans show them: {"matmul",
  // "staged ROWS=16 LANES=64"}. Also $RLX_KERNELS="matmul=plain,...".
  std::map<std::string, std::string, std::less<>> kernels = {};
  // Off: the graph runs as it is written, node by node.
  bool optimize = true;
  // Reads q, k and v straight out of one packed projection. Off with $RLX_WGPU_NO_PACKED_BSHD_ATTN.
  bool packed_attention = true;
  // Every intermediate keeps its own memory and can be read after a run (Executable::value).
  bool keep_intermediates = false;
  // How many plans for different shapes are kept, at least one.
  int64_t max_plans = 8;
  // What products and sums may be rounded to (rlx/precision.h). $RLX_PRECISION=exact|mixed|fast overrides it;
  // $RLX_WGPU_COOP_F16_VK_ENABLE makes `exact` `mixed`.
  Precision precision = Precision::exact;
  // Precision::exact under another name, whatever `precision` says. Also $RLX_WGPU_MATMUL_F32_ONLY.
  bool matmul_f32_only = false;
  MatrixUnitOptions matrix_units = {};
  // The same inputs give the same bits in every run on one device. Off: kernels whose sums depend on the
  // order in which invocations arrive may be used too, as scatters of floats have them; and times may be
  // measured (rlx/tuning.h).
  bool deterministic = true;
  // About how long one submit may keep the device, in milliseconds: a plan that is estimated to take longer
  // is cut into several, and so are products and attention. Windows resets a GPU that does not answer for two
  // seconds, and with it everything on it is lost. 0: no bound; absent: 300, and no bound where the CPU
  // computes. $RLX_SUBMIT_MS replaces it.
  std::optional<int64_t> submit_ms = {};
  // Inputs that feed() keeps on the device must still be given to every run. Also
  // $RLX_WGPU_FORCE_INPUT_UPLOAD.
  bool force_input_upload = false;
  TuningOptions tuning = {};
  // What Executable::choices() of an earlier compilation returned: the same kernels are chosen where they
  // still exist, before any record and any estimate. An ErrorKind::invalid_argument if it is something else.
  std::string choices = {};
  // Kernels are chosen by this one instead of the one that the device was opened with; an error if it is of
  // another adapter.
  std::optional<Calibration> calibration = {};
  DebugOptions debug = {};
};

// Verifies, optimises and plans the graph, which is copied. With unbound symbols, planning waits for the
// first run. Any number of graphs may be compiled for one device, from any threads; executables share nothing
// but the device, unless they are compiled for one store.
Executable compile(const Graph& graph, const Device& device = default_device(),
                   const CompileOptions& options = {});
// The params of the graph are the tensors of the store.
Executable compile(const Graph& graph, const Store& store, const CompileOptions& options = {});

// The same without waiting: kernels are compiled while the program goes on, and progress() counts them. The
// passes over the graph are made in this call.
Pending<Executable> compile_async(const Graph& graph, const Device& device,
                                  const CompileOptions& options = {});
Pending<Executable> compile_async(const Graph& graph, const Store& store, const CompileOptions& options = {});

}  // namespace rlx
RLX_EXPORT_END
