#include <algorithm>

#include "base/format.h"
#include "cli/commands.h"
#include "cli/device_flags.h"
#include "cli/output_files.h"
#include "cli/ready_model.h"
#include "cli/text.h"
#include "cli/verify_run.h"
#include "rlx/diagnostics.h"

namespace rlx::cli {
namespace {

struct Options {
  GraphFlags graph;
  ValueFlags values;
  DeviceFlags device;
  std::string output_dir;
  bool nan_trace = false;
  bool dump_nodes = false;
  bool profile = false;
  bool verify = false;
  std::string trace;
  int64_t repeat = 1;
};

// Where the values come from.
void print_sources(const Options& o, const ReadyModel& model) {
  const LeafValues& leaves = model.leaves;
  const size_t all = leaves.inputs.size() + leaves.params.size();
  print(formatted("{} of {} inputs and params are given", all - leaves.random.size(), all));
  print(leaves.random.empty() ? "\n"
                              : formatted("; random, with the seed {}: {}\n", o.values.seed,
                                          excerpt(joined(leaves.random), 200)));
}

// All elements of a small tensor, otherwise what they are like.
std::string values_text(const Tensor& t) {
  constexpr int64_t kMostShown = 8;
  if (t.elements() == 0 || t.elements() > kMostShown) return rlx::print(summarize(t));
  return to_string(t).substr(t.type_text().size() + 1);
}

void print_outputs(const NamedTensors& outputs, const std::map<std::string, std::string>& files) {
  std::vector<std::vector<std::string>> rows = {{"output", "type", "values"}};
  if (!files.empty()) rows[0].emplace_back("file");
  for (const auto& [name, value] : outputs) {
    rows.push_back({name, value.type_text(), values_text(value)});
    if (!files.empty()) rows.back().push_back(files.at(name));
  }
  print(table(rows));
}

void print_times(std::vector<double> runs_ms, double compile_ms) {
  print(formatted("\ncompile {}, first run {}", ms_text(compile_ms), ms_text(runs_ms[0])));
  if (runs_ms.size() > 1) {
    const std::span<double> warm = std::span(runs_ms).subspan(1);
    std::ranges::sort(warm);
    print(formatted(", warm run {} (median of {}, best {})", ms_text(warm[warm.size() / 2]), warm.size(),
                    ms_text(warm[0])));
  }
  print("\n");
}

void trace_and_profile(Executable& exe, const NamedTensors& inputs, const Options& o,
                       const std::string& title) {
  const std::vector<DispatchReport> dispatches = exe.profile(inputs);
  if (o.profile) print("\n" + profile_table(dispatches));
  if (o.trace.empty()) return;
  write_report(o.trace, trace_json(dispatches, title));
  print(formatted("\ntrace of {} dispatches written to {}; open it in chrome://tracing or ui.perfetto.dev\n",
                  dispatches.size(), o.trace));
}

CompileOptions compile_options(const Options& o) {
  CompileOptions options{.keep_intermediates = o.verify};
  options.debug.nan_trace = o.nan_trace;
  if (o.dump_nodes) options.debug.dump_nodes = -1;
  options.debug.log = [](const std::string& text) { print(text); };
  return options;
}

void run_graph(const Options& o) {
  check_report_path(o.trace);
  const ReadyModel model = ready_model(o.graph, o.values, compile_options(o));
  if (!o.output_dir.empty()) make_output_folder(o.output_dir);
  print_sources(o, model);
  CompiledModel compiled = compile_model(model, o.device.open());
  Executable& exe = compiled.exe;

  NamedTensors outputs;
  std::vector<double> runs_ms;
  for (int64_t i = 0; i < o.repeat; ++i) {
    const Stopwatch watch;
    outputs = exe.run(model.leaves.inputs);
    runs_ms.push_back(watch.ms());
  }
  o.graph.note_unused_kernels(exe.plan_report());
  std::map<std::string, std::string> files;
  if (!o.output_dir.empty()) files = write_outputs(o.output_dir, outputs, model.loaded);
  print_outputs(outputs, files);
  print_times(runs_ms, compiled.compile_ms);
  // First: a profile runs again and changes states.
  if (o.verify) {
    print("\n");
    verify_run(exe, model, outputs, o.repeat);
  }
  if (o.profile || !o.trace.empty()) trace_and_profile(exe, model.leaves.inputs, o, model.graph.name);
}

}  // namespace

void add_run(Arguments& arguments) {
  const auto o = std::make_shared<Options>();
  Command command = arguments.command("run", "Runs a model and shows what comes out");
  o->graph.add_to(command);
  o->values.add_to(command);
  command.text("--output-dir", o->output_dir, "Write each output to this folder, as an npy file",
               {.value = "DIR"});
  command.number("--repeat", o->repeat, 1, INT64_MAX, "How many times to run");
  command.flag("--verify", o->verify,
               "Compare every node, and the outputs from the inputs on, with the CPU reference");
  command.flag("--nan-trace", o->nan_trace, "The first node with a NaN or an infinity, and its inputs");
  command.flag("--dump-nodes", o->dump_nodes, "Max |x| and non-zeros of every node");
  command.flag("--profile", o->profile, "Time on the device by kernel");
  command.text("--trace", o->trace, "Write the times as a Chrome/Perfetto trace", {.value = "FILE"});
  o->device.add_to(command);
  command.footer(
      "The shapes of the inputs that are given determine the symbols of the model; --dim gives the others.\n"
      "\n"
      "Examples:\n"
      "  rlx run model.onnx --input image=image.npy --output-dir out\n"
      "  rlx run model.onnx --input inputs.npz --repeat 20 --profile\n"
      "  rlx run model.rlx --random 7 --dim batch=2 --verify\n"
      "  rlx run model.rlx --load weights.safetensors --nan-trace --trace out.json");
  command.action([o] { run_graph(*o); });
}

}  // namespace rlx::cli
