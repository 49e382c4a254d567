#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/format.h"
#include "cli/commands.h"
#include "cli/device_flags.h"
#include "cli/output_files.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/run_setup.h"
#include "cli/standard_input.h"
#include "cli/text.h"
#include "cli/verify_run.h"
#include "measure/stopwatch.h"
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
  ReportFlags report;
};

// What a run has shown.
struct Result {
  NamedTensors outputs;
  std::map<std::string, std::string> files;  // of the outputs
  double compile_ms = 0, upload_ms = 0;
  std::vector<double> runs_ms;
  std::vector<std::string> log;  // of --nan-trace and --dump-nodes
  std::optional<Verification> verification;
  std::vector<DispatchReport> dispatches;  // timed
};

// Where the values come from.
void print_sources(const Options& o, const RunSetup& setup) {
  const measure::LeafValues& leaves = setup.leaves;
  const size_t all = leaves.inputs.size() + leaves.params.size();
  print(formatted("{} of {} inputs and params are given", all - leaves.random.size(), all));
  print(leaves.random.empty() ? "\n"
                              : formatted("; random, with the seed {}: {}\n", o.values.seed,
                                          excerpt(joined(leaves.random), 200)));
}

// All elements of a small tensor, otherwise what they are like.
std::string values_text(const Tensor& t) {
  constexpr int64_t kMostShown = 8;
  if (t.elements() == 0 || t.elements() > kMostShown) return rlx::to_text(summarize(t));
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

void show(const Options& o, const Result& r) {
  print_outputs(r.outputs, r.files);
  print_times(r.runs_ms, r.compile_ms);
  if (r.verification) {
    print("\n");
    show(*r.verification);
  }
  if (o.profile) print("\n" + profile_table(r.dispatches));
  if (o.trace.empty()) return;
  print(formatted("\ntrace of {} dispatches written to {}; open it in chrome://tracing or ui.perfetto.dev\n",
                  r.dispatches.size(), o.trace));
}

// Of a real tensor, each element; NaN and infinities are null.
Json values_json(const Tensor& t) {
  Json out = Json::array();
  for (int64_t i = 0; i < t.elements(); ++i) {
    if (is_float(value_dtype(t.dtype()))) {
      out.add(t.real(i));
    } else {
      out.add(t.integer(i));
    }
  }
  return out;
}

Json output_json(const std::string& name, const Tensor& t, const Result& r) {
  constexpr int64_t kMostListed = 1000;
  const TensorSummary summary = summarize(t);
  Json shape = Json::array();
  for (const int64_t size : t.shape()) shape.add(size);
  Json out = Json::object({{"name", name},
                           {"type", std::string(to_string(t.dtype()))},
                           {"shape", shape},
                           {"nans", summary.nans},
                           {"infinities", summary.infinities},
                           {"min", summary.min},
                           {"max", summary.max},
                           {"mean", summary.mean}});
  if (t.elements() <= kMostListed && t.dtype() != DType::c64) out.set("values", values_json(t));
  if (const auto file = r.files.find(name); file != r.files.end()) out.set("file", file->second);
  return out;
}

Json to_json(const Options& o, const RunSetup& setup, const std::string& adapter, const Result& r) {
  Json outputs = Json::array();
  for (const auto& [name, value] : r.outputs) outputs.add(output_json(name, value, r));
  Json runs = Json::array();
  for (const double ms : r.runs_ms) runs.add(ms);
  Json out = Json::object({{"file", with_shown_names(o.graph.model.file)},
                           {"adapter", adapter},
                           {"random", setup.leaves.random},
                           {"seed", o.values.seed},
                           {"outputs", outputs},
                           {"load_ms", setup.load_ms},
                           {"compile_ms", r.compile_ms},
                           {"upload_ms", r.upload_ms},
                           {"runs_ms", runs}});
  if (!r.log.empty()) out.set("log", r.log);
  if (r.verification) out.set("verification", to_json(*r.verification));
  if (!o.profile) return out;
  Json dispatches = Json::array();
  for (const DispatchReport& d : r.dispatches) {
    dispatches.add(Json::object({{"node", d.node},
                                 {"kernel", d.kernel},
                                 {"variant", d.variant},
                                 {"begin_ns", d.begin_ns},
                                 {"end_ns", d.end_ns}}));
  }
  out.set("dispatches", dispatches);
  return out;
}

CompileOptions compile_options(const Options& o, Result& into) {
  CompileOptions options{.keep_intermediates = o.verify};
  options.debug.nan_trace = o.nan_trace;
  if (o.dump_nodes) options.debug.dump_nodes = -1;
  options.debug.log = [&into, json = o.report.only_json()](const std::string& text) {
    if (!json) print(text);
    into.log.push_back(text);
  };
  return options;
}

// The files of the outputs, by their names.
std::map<std::string, std::string> prepare_folder(const Options& o, const RunSetup& setup) {
  if (o.output_dir.empty()) return {};
  make_output_folder(o.output_dir);
  std::vector<std::string> names;
  for (const Graph::Output& output : setup.graph.outputs()) names.push_back(output.name);
  std::map<std::string, std::string> files = output_file_names(names);
  std::vector<OutputFile> outputs = o.report.outputs({{"--trace", o.trace, FileKind::json}});
  for (const auto& [name, file] : files) {
    outputs.push_back({"--output-dir", (std::filesystem::path(o.output_dir) / file).string(), FileKind::npy});
  }
  check_outputs(outputs, o.values.files(o.graph));
  return files;
}

void run_graph(const Options& o) {
  if (o.output_dir == "-") throw Misuse("--output-dir is '-', but outputs are files in a folder; name one");
  check_outputs(o.report.outputs({{"--trace", o.trace, FileKind::json}}), o.values.files(o.graph));
  Result r;
  const RunSetup setup = set_up_run(o.graph, o.values, compile_options(o, r));
  r.files = prepare_folder(o, setup);
  const bool text = !o.report.only_json() && o.trace != "-";
  if (text) print_sources(o, setup);
  const Device device = o.device.open();
  CompiledModel compiled = compile_model(setup, device);
  Executable& exe = compiled.exe;
  r.compile_ms = compiled.compile_ms;
  r.upload_ms = compiled.upload_ms;
  {
    Progress progress(formatted("running {}", short_name(o.graph.model.file)));
    for (int64_t i = 0; i < o.repeat; ++i) {
      if (o.repeat > 1) progress.update(i, o.repeat, "runs");
      const measure::Stopwatch watch;
      r.outputs = exe.run(setup.leaves.inputs);
      r.runs_ms.push_back(watch.ms());
    }
  }
  o.graph.note_unused_kernels(exe.plan_report(setup.open));
  if (!o.output_dir.empty()) write_outputs(o.output_dir, r.files, r.outputs, setup.model);
  // First: a profile runs again and changes states.
  if (o.verify) r.verification = verify_run(exe, setup, r.outputs, o.repeat);
  if (o.profile || !o.trace.empty()) {
    const Progress progress("timing each dispatch");
    r.dispatches = exe.profile(setup.leaves.inputs);
  }
  if (!o.trace.empty()) write_report(o.trace, trace_json(r.dispatches, setup.graph.name));
  o.report.write(to_json(o, setup, device.info().name, r));
  if (text) show(o, r);
  if (r.verification) require_right(*r.verification);
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
  o->report.add_to(command, "outputs, times and what the other flags show");
  o->device.add_to(command);
  command.footer(
      "The shapes of the inputs that are given determine the symbols of the model; --dim gives the others.\n"
      "\n"
      "Examples:\n"
      "  rlx run model.onnx --input image=image.npy --output-dir out\n"
      "  python3 make_image.py | rlx run model.onnx --input image=- --json\n"
      "  rlx run model.onnx --input inputs.npz --repeat 20 --profile\n"
      "  rlx run model.rlx --random 7 --dim batch=2 --verify\n"
      "  rlx run model.rlx --load weights.safetensors --nan-trace --trace out.json");
  command.action([o] {
    o->graph.model.take_standard_input();
    run_graph(*o);
  });
}

}  // namespace rlx::cli
