#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "base/fail.h"
#include "base/format.h"
#include "base/json.h"
#include "cli/bench_report.h"
#include "cli/commands.h"
#include "cli/device_flags.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/run_setup.h"
#include "cli/standard_input.h"
#include "cli/text.h"
#include "measure/bench_cases.h"
#include "measure/beside.h"
#include "measure/child_process.h"
#include "measure/growth.h"
#include "measure/networks.h"
#include "measure/peer_ggml.h"
#include "rlx/npy.h"

namespace rlx::cli {
namespace {

using measure::Baseline;
using measure::Beside;
using measure::Case;
using measure::GgmlCase;
using measure::Growth;
using measure::Measured;
using measure::Network;

struct Options {
  GraphFlags graph;
  ValueFlags values;
  DeviceFlags device;
  std::vector<std::string> cases;
  ReportFlags report;
  double seconds = 1;
  bool growth = false;
  std::string plot;
  int64_t largest = 0;  // 0: what each case says
  std::string peer;
  int64_t rounds = 0;  // 0: what the peer is worth
};

// --- Measuring ---

struct Result {
  std::string name;
  double flops = 0;
  std::optional<double> load_ms = {};  // of a model's file
  double compile_ms = 0;
  double upload_ms = 0;
  Measured time = {};
  int64_t dispatches = 0;
  int64_t bytes = 0;  // bound by the dispatches of one run
  int64_t load_dispatches = 0;
  MemoryReport memory = {};
  std::string beside = {};  // what it is compared with
  double beside_cpu_ms = 0;

  void add_plan(const PlanReport& plan) {
    dispatches = std::ssize(plan.run);
    load_dispatches = std::ssize(plan.load);
    for (const StepReport& s : plan.run) bytes += s.bytes;
    memory = plan.memory;
  }
};

Result run_case(const Case& c, const Device& device, const Options& o) {
  const Progress progress(c.what);
  const measure::CaseRun run = measure::run_case_graph(c.graph(), c.growing, device, o.seconds);
  Result r{.name = c.name,
           .flops = c.flops,
           .compile_ms = run.compile_ms,
           .upload_ms = run.upload_ms,
           .time = run.time};
  r.add_plan(run.plan);
  if (const Baseline& beside = c.scaled.beside; beside.name) {
    r.beside = beside.name;
    r.beside_cpu_ms = measure::baseline_cpu_ms(beside, c.scaled.usual, device, o.seconds);
  }
  return r;
}

Result run_model(const std::string& name, const RunSetup& setup, const Device& device, const Options& o) {
  CompiledModel compiled = compile_model(setup, device);
  const Progress progress(formatted("running {}", short_name(name)));
  Result r{.name = name,
           .load_ms = setup.load_ms,
           .compile_ms = compiled.compile_ms,
           .upload_ms = compiled.upload_ms};
  r.time = measure::measure_runs(compiled.exe, setup.leaves.inputs, o.seconds, 2000);
  const PlanReport plan = compiled.exe.plan_report(setup.open);
  o.graph.note_unused_kernels(plan);
  r.add_plan(plan);
  return r;
}

// --- Reporting ---

Json to_json(const Result& r) {
  Json out = Json::object({{"case", r.name},
                           {"wall_ms", r.time.wall_ms},
                           {"p90_ms", r.time.p90_ms},
                           {"cpu_ms", r.time.cpu_ms},
                           {"runs", r.time.runs},
                           {"first_run_ms", r.time.first_ms},
                           {"compile_ms", r.compile_ms},
                           {"upload_ms", r.upload_ms},
                           {"dispatches", r.dispatches},
                           {"load_dispatches", r.load_dispatches},
                           {"bytes", r.bytes},
                           {"flops", r.flops},
                           {"weight_bytes", r.memory.weight_bytes},
                           {"derived_bytes", r.memory.derived_bytes},
                           {"state_bytes", r.memory.state_bytes},
                           {"input_bytes", r.memory.input_bytes},
                           {"intermediate_bytes", r.memory.intermediate_bytes}});
  if (r.load_ms) out.set("load_ms", *r.load_ms);
  if (!r.beside.empty()) out.set("beside", r.beside);
  if (!r.beside.empty()) out.set("beside_cpu_ms", r.beside_cpu_ms);
  return out;
}

// Of all reports of cases, whatever each of them has.
Json report_json(const Device& device, const Json& cases) {
  return Json::object({{"adapter", device.info().name}, {"cases", cases}});
}

std::vector<std::string> to_row(const Result& r) {
  const double gflops = r.flops / r.time.wall_ms / 1e6;
  return {r.name,
          ms_text(r.time.wall_ms),
          ms_text(r.time.cpu_ms),
          r.flops > 0 ? formatted("{:.1f}", gflops) : "",
          std::to_string(r.dispatches),
          bytes_text(r.bytes),
          formatted("{:.1f}", static_cast<double>(r.bytes) / r.time.wall_ms / 1e6),
          ms_text(r.compile_ms),
          ms_text(r.time.first_ms),
          std::to_string(r.time.runs)};
}

void print_cases(const std::vector<Result>& results) {
  std::vector<std::vector<std::string>> rows = {
      {"case", "wall", "cpu", "GFLOP/s", "dispatches", "bytes", "GB/s", "compile", "first run", "runs"}};
  for (const Result& r : results) {
    if (!r.load_ms) rows.push_back(to_row(r));
  }
  if (rows.size() > 1) print("\n" + table(rows, {1, 2, 3, 4, 5, 6, 7, 8, 9}));
  bool first = true;
  for (const Result& r : results) {
    if (r.beside.empty()) continue;
    print(formatted("{}{}: {:.2f} times the CPU time of {} ({})\n", std::exchange(first, false) ? "\n" : "",
                    r.name, r.time.cpu_ms / r.beside_cpu_ms, r.beside, ms_text(r.beside_cpu_ms)));
  }
}

void print_model(const Result& r) {
  const auto line = [](std::string_view title, const std::string& text) {
    print(formatted("  {:12} {}\n", title, text));
  };
  const MemoryReport& m = r.memory;
  print(formatted("\n{}\n", r.name));
  line("load", ms_text(*r.load_ms));
  line("compile", formatted("{}, upload of the weights {}", ms_text(r.compile_ms), ms_text(r.upload_ms)));
  line("first run", ms_text(r.time.first_ms));
  line("warm runs", formatted("{} wall (nine of ten within {}), {} CPU, {} runs", ms_text(r.time.wall_ms),
                              ms_text(r.time.p90_ms), ms_text(r.time.cpu_ms), r.time.runs));
  line("memory", formatted("weights {}, derived {}, states {}, inputs {}, intermediates {}",
                           bytes_text(m.weight_bytes), bytes_text(m.derived_bytes), bytes_text(m.state_bytes),
                           bytes_text(m.input_bytes), bytes_text(m.intermediate_bytes)));
  line("dispatches", formatted("{} per run, {} in the load phase", r.dispatches, r.load_dispatches));
}

// What an argument names.
struct Subject {
  const Case* known = nullptr;
  std::string name = {};  // of a model, in reports
  std::string file = {};
  std::optional<RunSetup> setup = {};
};

Subject model_subject(const std::string& name, const std::string& file, const GraphFlags& flags,
                      const Options& o) {
  GraphFlags graph = flags;
  graph.model.file = file;
  return {.name = name, .file = file, .setup = set_up_run(graph, o.values)};
}

// With its usual sizes, except for those that --dim gives.
Subject network_subject(const Network& network, const Options& o) {
  if (!std::filesystem::exists(network.path()))
    fail(ErrorKind::invalid_file,
         "there is no file {}: in a checkout of the sources, ./rlx bench {} downloads it", network.path(),
         network.name);
  GraphFlags graph = o.graph;
  const SymbolValues given = parse_dims(graph.dims);
  for (const std::string& dim : network.dims) {
    if (!given.contains(dim.substr(0, dim.find('=')))) graph.dims.push_back(dim);
  }
  const measure::TemporaryFolder folder;
  if (network.true_input) {
    write_npy(folder.file("true.npy"), Tensor::of<bool>({1}, {true}));
    graph.model.inputs.push_back(formatted("{}={}", network.true_input, folder.file("true.npy")));
  }
  return model_subject(network.name, network.path(), graph, o);
}

// A case as ONNX Runtime can run it: both sides then read the same file.
Subject onnx_case(const std::string& name, const Options& o) {
  if (!std::ranges::contains(measure::onnx_cases(), name)) {
    throw Misuse(formatted("--peer: the case '{}' has no ONNX form; those that have one are: {}", name,
                           joined(measure::onnx_cases())));
  }
  const std::string file = measure::ort_case_file(name);
  if (!std::filesystem::exists(file)) {
    fail(ErrorKind::invalid_file,
         "there is no file {}: in a checkout of the sources, ./rlx bench {} --peer ort makes it, with "
         "python3-onnx",
         file, name);
  }
  return model_subject(name, file, o.graph, o);
}

bool for_ort(const Options& o) { return o.peer == "ort" || o.peer == "ort-cpu"; }

Subject subject(const std::string& name, const Options& o) {
  if (const Case* known = measure::find_case(name))
    return for_ort(o) ? onnx_case(name, o) : Subject{.known = known};
  if (const Network* network = measure::find_network(name)) return network_subject(*network, o);
  if (name == "-")
    throw Misuse(
        "'-' is no case, network or file: models are measured from files, and --json takes no value");
  // Something that looks like a path is one, so that a wrong one is a file that is missing.
  if (!std::filesystem::exists(name) && name.find_first_of("./") == std::string::npos) {
    throw Misuse(formatted("there is no case, network or file '{}'; the cases are: {}; the networks: {}",
                           name, joined(measure::bench_cases(), &Case::name),
                           joined(measure::networks(), &Network::name)));
  }
  if (for_ort(o)) {
    ModelFlags file = o.graph.model;
    file.file = name;
    if (std::filesystem::exists(name) && !file.is_onnx())
      throw Misuse(formatted("--peer {} takes ONNX files, and {} is a graph text", o.peer, name));
  }
  return model_subject(name, name, o.graph, o);
}

std::vector<Subject> subjects(const Options& o) {
  std::vector<Subject> out;
  const GraphFlags& g = o.graph;
  const bool for_models = !g.model.inputs.empty() || !g.dims.empty() || !g.capacities.empty() ||
                          !g.kernels.empty() || g.no_optimize || g.precision != "exact" ||
                          !o.values.load.empty();
  if (for_models && std::ranges::all_of(o.cases, measure::find_case)) {
    throw Misuse(
        "--input, --dim, --capacity, --kernel, --precision, --no-optimize and --load are for models, and "
        "none is given");
  }
  for (const std::string& name : o.cases) out.push_back(subject(name, o));
  if (o.cases.empty() && for_ort(o)) {
    for (const std::string_view name : measure::onnx_cases()) out.push_back(onnx_case(std::string(name), o));
  } else if (o.cases.empty()) {
    // Those that are for llama.cpp take minutes: only by name.
    for (const Case& c : measure::bench_cases()) {
      if (!std::ranges::contains(measure::ggml_cases(), c.name, &GgmlCase::name))
        out.push_back({.known = &c});
    }
  }
  return out;
}

// What `work` announces is what the program is doing, in the words that `title` makes of it.
template <class Work>
auto with_progress(Work&& work,
                   const std::function<std::string(const std::string&)>& title = std::identity()) {
  std::optional<Progress> progress;
  return work([&](const std::string& what) { progress.emplace(title(what)); });
}

void run_growth(const Options& o, const std::vector<Subject>& all) {
  std::vector<const Case*> cases;
  for (const Subject& s : all) {
    if (s.known && s.known->scaled.usual > 0) {
      cases.push_back(s.known);
    } else if (!o.cases.empty()) {
      throw Misuse(formatted("--growth: '{}' has one size", s.known ? s.known->name : s.name));
    }
  }
  for (const Case* c : cases) {
    if (measure::growth_sizes(*c, o.largest).empty())
      throw Misuse(formatted("--largest is {}, but the smallest size of {} is {}", o.largest, c->name,
                             c->scaled.first));
  }
  const Device device = o.device.open();
  const std::vector<Growth> grown = with_progress([&](const measure::Announce& announce) {
    return measure::measure_growth(cases, device, o.seconds, o.largest, announce);
  });
  if (!o.plot.empty()) write_report(o.plot, measure::growth_svg(grown, device.info().name));
  o.report.write(report_json(device, cli::to_json(grown)));
  if (o.report.only_json() || o.plot == "-") return;
  print(
      formatted("{}\nmedians of warm runs; the exponent is that of n in the CPU time since the size before\n",
                device.info().name));
  for (const Growth& g : grown) print(growth_table(g));
}

// --- Beside a peer ---

constexpr std::string_view kInTurns = "warm runs in turns; ratios are rlx to its peer\n";

// With our own figures printed: the comparison that was asked for is not there.
void fail_if_all_refused(const std::vector<Beside>& results) {
  const auto refused = [](const Beside& b) { return !b.refusal.empty(); };
  if (std::ranges::all_of(results, refused)) fail(ErrorKind::unsupported, "{}", results[0].refusal);
}

// ONNX Runtime chooses an adapter itself and does not say which. Fails unless there is only one.
void check_only_adapter(const DeviceFlags& flags) {
  const std::vector<AdapterInfo> adapters = flags.adapters();
  if (adapters.size() == 1) return;
  fail(ErrorKind::unsupported,
       "--peer: there must be exactly one {} adapter, so that both sides use the same, but there are {}{}; "
       "VK_DRIVER_FILES=FILE.json leaves only the driver of that file",
       flags.backend, adapters.size(),
       adapters.empty() ? "" : formatted(": {}", joined(adapters, &AdapterInfo::name)));
}

measure::BesideModel beside_model(const Subject& s) {
  const RunSetup& setup = *s.setup;
  measure::BesideModel out{
      .name = s.name,
      .compile = [&setup](const Device& d) { return compile_model(setup, d).exe; },
      .inputs = setup.leaves.inputs,
      .open = setup.open,
      .peer = {.file = s.file, .inputs = setup.leaves.inputs, .types = setup.model.types}};
  out.peer.inputs.insert(setup.model.fixed_inputs.begin(), setup.model.fixed_inputs.end());
  return out;
}

void run_beside_ort(const Options& o) {
  const bool webgpu = o.peer == "ort";
  std::vector<measure::OrtProvider> providers = {measure::OrtProvider::cpu};
  if (webgpu) providers.insert(providers.begin(), measure::OrtProvider::webgpu);
  const std::vector<Subject> all = subjects(o);
  std::vector<measure::BesideModel> models;
  for (const Subject& s : all) models.push_back(beside_model(s));
  measure::check_ort();
  DeviceFlags flags = o.device;
  if (webgpu) {
    if (flags.backend.empty()) flags.backend = "vulkan";
    check_only_adapter(flags);
  }
  const Device device = flags.open();
  const std::vector<std::vector<Beside>> results = with_progress(
      [&](const measure::Announce& announce) {
        return measure::beside_ort(providers, models, device, {o.rounds ? o.rounds : 3, o.seconds}, announce);
      },
      [](const std::string& name) { return formatted("{} in rlx and in ONNX Runtime", short_name(name)); });
  o.report.write(
      report_json(device, webgpu ? cli::to_json(results[0], results[1]) : cli::to_json(results[0])));
  if (o.report.only_json()) return fail_if_all_refused(results[0]);
  print(formatted(
      "{}; {}ort-cpu with its CPU provider\n{}", device.info().name,
      webgpu ? "ort is ONNX Runtime 1.30.0 with its WebGPU provider, " : "ONNX Runtime 1.30.0: ", kInTurns));
  for (size_t i = 0; i < results.size(); ++i) {
    const std::string peer = providers[i] == measure::OrtProvider::webgpu ? "ort" : "ort-cpu";
    print(formatted("\n{}\n{}", beside_table(results[i], peer), beside_notes(results[i], peer)));
  }
  fail_if_all_refused(results[0]);
}

// Its cases are those of llama.cpp's benchmark.
void run_beside_ggml(const Options& o) {
  std::vector<const Case*> cases;
  for (const std::string& name : o.cases) {
    if (!std::ranges::contains(measure::ggml_cases(), name, &GgmlCase::name)) {
      throw Misuse(formatted("--peer ggml: '{}' is none of the cases that llama.cpp measures: {}", name,
                             joined(measure::ggml_cases(), &GgmlCase::name)));
    }
    cases.push_back(measure::find_case(name));
  }
  if (o.cases.empty()) {
    for (const GgmlCase& c : measure::ggml_cases()) cases.push_back(measure::find_case(c.name));
  }
  measure::ggml_program();  // an error if it is not there
  const Device device = o.device.open();
  const std::vector<Beside> results = with_progress(
      [&](const measure::Announce& announce) {
        return measure::beside_ggml(cases, device, {o.rounds ? o.rounds : 1, o.seconds}, announce);
      },
      [](const std::string& name) { return formatted("{} in rlx and in llama.cpp", name); });
  o.report.write(report_json(device, cli::to_json(results)));
  if (o.report.only_json()) return;
  print(formatted("{}; ggml is llama.cpp's Vulkan backend, measured by test-backend-ops\n{}\n{}\n{}",
                  device.info().name, kInTurns, beside_table(results, o.peer),
                  beside_notes(results, o.peer)));
}

std::vector<std::string> input_files(const Options& o) {
  std::vector<std::string> out = o.values.files(o.graph);
  for (const std::string& name : o.cases) {
    const Network* const network = measure::find_network(name);
    out.push_back(network ? network->path() : name);
  }
  return out;
}

void run_bench(const Options& o) {
  if (!o.peer.empty() && !for_ort(o) && o.peer != "ggml")
    throw Misuse(formatted("--peer is '{}'; the peers are: ort, ort-cpu, ggml", o.peer));
  check_outputs(o.report.outputs({{"--plot", o.plot, FileKind::svg}}), input_files(o));
  if (!o.peer.empty() && o.growth) throw Misuse("--peer and --growth cannot be given together");
  if (o.peer.empty() && o.rounds != 0) throw Misuse("--rounds is for --peer, which is not given");
  if (for_ort(o)) return run_beside_ort(o);
  if (o.peer == "ggml") return run_beside_ggml(o);
  if (!o.growth && (!o.plot.empty() || o.largest > 0))
    throw Misuse("--plot and --largest are for --growth, which is not given");
  const std::vector<Subject> all = subjects(o);
  if (o.growth) return run_growth(o, all);
  const Device device = o.device.open();
  std::vector<Result> results;
  for (const Subject& s : all)
    results.push_back(s.known ? run_case(*s.known, device, o) : run_model(s.name, *s.setup, device, o));
  Json measured = Json::array();
  for (const Result& r : results) measured.add(to_json(r));
  o.report.write(report_json(device, measured));
  if (o.report.only_json()) return;
  print(formatted("{}\nmedians of warm runs, inputs uploaded and outputs read back in each\n",
                  device.info().name));
  print_cases(results);
  for (const Result& r : results) {
    if (r.load_ms) print_model(r);
  }
}

}  // namespace

void add_bench(Arguments& arguments) {
  const auto o = std::make_shared<Options>();
  Command command = arguments.command("bench", "Wall and CPU time of models and of known cases");
  std::string cases = "A model's file, or which cases; all but wide_* if nothing is given:";
  for (const Network& n : measure::networks()) cases += formatted("\n{}: {}", n.name, n.what);
  for (const Case& c : measure::bench_cases()) cases += formatted("\n{}: {}", c.name, c.what);
  command.list("CASE", o->cases, cases);
  o->report.add_to(command, "the results");
  command.seconds("--seconds", o->seconds, "How long to measure each case (default 1)");
  command.flag("--growth", o->growth, "Measure the cases that can be scaled for growing sizes");
  command.text("--plot", o->plot, "With --growth: draw the times by size as SVG", {.value = "FILE"});
  command.number("--largest", o->largest, 1, int64_t{1} << 30,
                 "With --growth: no sizes beyond this one (default: what each case says)");
  command.text(
      "--peer", o->peer,
      "In turns with another runtime: ort is ONNX Runtime with its WebGPU and its CPU provider, ort-cpu "
      "with the latter alone, ggml is llama.cpp's Vulkan backend",
      {.value = "PEER"});
  command.number("--rounds", o->rounds, 1, 1000,
                 "With --peer: how many turns each side has (default 3; 1 beside ggml)");
  o->graph.model.add_inputs_to(command);
  o->graph.add_flags_to(command);
  o->values.add_to(command);
  o->device.add_to(command);
  command.footer(
      "Examples:\n"
      "  rlx bench model.onnx --dim batch=1 --seconds 5\n"
      "  rlx bench matmul512 softmax --json-file out.json\n"
      "  rlx bench ocr_det moonshine_decoder --peer ort\n"
      "  rlx bench sort cumsum --growth --plot growth.svg");
  command.action([o] { run_bench(*o); });
}

}  // namespace rlx::cli
