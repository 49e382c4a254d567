#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/format.h"
#include "base/json.h"
#include "cli/adapter_json.h"
#include "cli/announced.h"
#include "cli/bench_options.h"
#include "cli/bench_peers.h"
#include "cli/bench_record.h"
#include "cli/bench_report.h"
#include "cli/bench_subjects.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/standard_input.h"
#include "cli/text.h"
#include "measure/bench_cases.h"
#include "measure/compiler_report.h"
#include "measure/growth.h"
#include "measure/networks.h"

namespace rlx::cli {
namespace {

using measure::Baseline;
using measure::Case;
using measure::Growth;
using measure::Measured;
using measure::Network;

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
  PlanReport plan = {};
  std::vector<DispatchReport> timed = {};  // for --report and --check

  void add_plan(const PlanReport& made) {
    plan = made;
    dispatches = std::ssize(plan.run);
    load_dispatches = std::ssize(plan.load);
    for (const StepReport& s : plan.run) bytes += s.bytes;
    memory = plan.memory;
  }
};

bool times_dispatches(const BenchOptions& o, const Device& device) {
  return (!o.record.empty() || !o.check.empty()) && device.caps().timestamps;
}

Result run_case(const Case& c, const Device& device, const BenchOptions& o) {
  const Progress progress(c.what);
  const measure::CaseRun run =
      measure::run_case_graph(c.graph(), c.growing, device, o.seconds, times_dispatches(o, device));
  Result r{.name = c.name,
           .flops = c.flops,
           .compile_ms = run.compile_ms,
           .upload_ms = run.upload_ms,
           .time = run.time,
           .timed = run.dispatches};
  r.add_plan(run.plan);
  if (const Baseline& beside = c.scaled.beside; beside.name) {
    r.beside = beside.name;
    r.beside_cpu_ms = measure::baseline_cpu_ms(beside, c.scaled.usual, device, o.seconds);
  }
  return r;
}

Result run_model(const std::string& name, const RunSetup& setup, const Device& device,
                 const BenchOptions& o) {
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
  if (times_dispatches(o, device))
    r.timed = measure::fastest_dispatches(compiled.exe, setup.leaves.inputs, setup.open);
  return r;
}

// --- Reporting ---

CaseRecord record_of(const Result& r) {
  CaseRecord out{.name = r.name,
                 .wall_ms = r.time.wall_ms,
                 .cpu_ms = r.time.cpu_ms,
                 .first_ms = r.time.first_ms,
                 .compile_ms = r.compile_ms};
  for (const StepReport& s : r.plan.run)
    out.steps.push_back({.node = s.node, .op = s.op, .kernel = s.kernel, .variant = s.variant});
  for (const DispatchReport& d : r.timed) {
    const double us = static_cast<double>(d.end_ns - d.begin_ns) / 1e3;
    out.device_ms = out.device_ms.value_or(0) + us / 1e3;
    double& total = out.steps[static_cast<size_t>(d.step)].device_us;
    total += us;
  }
  return out;
}

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

void run_growth(const BenchOptions& o, const std::vector<BenchSubject>& all) {
  std::vector<const Case*> cases;
  for (const BenchSubject& s : all) {
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
  o.report.write(report_json(device.info().name, cli::to_json(grown)));
  if (o.report.only_json() || o.plot == "-") return;
  print(
      formatted("{}\nmedians of warm runs; the exponent is that of n in the CPU time since the size before\n",
                device.info().name));
  for (const Growth& g : grown) print(growth_table(g));
}

// The cases that nobody named: those of the other report, or the ones that say most about a device.
BenchOptions with_cases_to_record(const BenchOptions& given, const std::optional<BenchRecord>& then) {
  BenchOptions o = given;
  if (!o.cases.empty() || (o.record.empty() && !then)) return o;
  if (!then) {
    o.cases.assign(measure::main_cases().begin(), measure::main_cases().end());
    o.cases.insert(o.cases.end(), {"triad", "negate", "bert-4"});
    return o;
  }
  for (const CaseRecord& c : then->cases) {
    if (measure::find_case(c.name) || measure::find_network(c.name)) o.cases.push_back(c.name);
  }
  if (o.cases.empty())
    throw Misuse(formatted("--check: {} has only models; give the files to measure", o.check));
  return o;
}

void check_record_flags(const BenchOptions& o) {
  const bool any = !o.record.empty() || !o.check.empty();
  if (any && (!o.peer.empty() || o.growth))
    throw Misuse("--report and --check cannot be given with --peer or --growth");
  if (!o.with.empty() && o.check.empty()) throw Misuse("--with is for --check, which is not given");
  if (!o.with.empty() && o.report.wanted())
    throw Misuse("--with prints what differs as text; --json and --json-file are not for it");
  if (!o.with.empty() && (!o.record.empty() || !o.cases.empty()))
    throw Misuse("--with compares two files: nothing is measured, so there are no cases and no --report");
}

void run_bench(const BenchOptions& given) {
  check_peer(given);
  check_record_flags(given);
  std::vector<std::string> read = bench_files(given);
  for (const std::string& file : {given.check, given.with}) {
    if (!file.empty()) read.push_back(file);
  }
  check_outputs(given.report.outputs(
                    {{"--plot", given.plot, FileKind::svg}, {"--report", given.record, FileKind::json}}),
                read);
  const std::optional<BenchRecord> then =
      given.check.empty() ? std::nullopt : std::optional(read_record(given.check));
  if (!given.with.empty()) return print(differences(*then, read_record(given.with)));
  const BenchOptions o = with_cases_to_record(given, then);
  if (!o.peer.empty() && o.growth) throw Misuse("--peer and --growth cannot be given together");
  if (o.peer.empty() && o.rounds != 0) throw Misuse("--rounds is for --peer, which is not given");
  if (!o.peer.empty()) return run_beside(o);
  if (!o.growth && (!o.plot.empty() || o.largest > 0))
    throw Misuse("--plot and --largest are for --growth, which is not given");
  const std::vector<BenchSubject> all = bench_subjects(o);
  if (o.growth) return run_growth(o, all);
  const Device device = o.device.open();
  std::vector<Result> results;
  for (const BenchSubject& s : all)
    results.push_back(s.known ? run_case(*s.known, device, o) : run_model(s.name, *s.setup, device, o));
  Json measured = Json::array();
  for (const Result& r : results) measured.add(to_json(r));
  o.report.write(report_json(device.info().name, measured));
  BenchRecord now{.adapter = cli::to_json(device.info())};
  for (const Result& r : results) now.cases.push_back(record_of(r));
  if (!o.record.empty()) write_report(o.record, cli::to_json(now).text(2) + "\n");
  if (o.report.only_json() || o.record == "-") return;
  if (then) return print(differences(*then, now));
  print(formatted("{}\nmedians of warm runs, inputs uploaded and outputs read back in each\n",
                  device.info().name));
  print_cases(results);
  for (const Result& r : results) {
    if (r.load_ms) print_model(r);
  }
}

}  // namespace

void add_bench(Arguments& arguments) {
  const auto o = std::make_shared<BenchOptions>();
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
      "In turns with another program: ort is ONNX Runtime with its WebGPU and its CPU provider, ort-cpu "
      "with the latter alone, ggml is llama.cpp's Vulkan backend, rlx=PROGRAM another build of rlx",
      {.value = "PEER"});
  command.number("--rounds", o->rounds, 1, 1000,
                 "With --peer: how many turns each side has (default 3; 1 beside ggml)");
  command.text(
      "--report", o->record,
      "Write all that is worth sending from a device to a file: adapter, limits, choices of kernels, "
      "times of each dispatch; without a case, of the main ones",
      {.value = "FILE"});
  command.text("--check", o->check,
               "Compare with such a file: measures its cases, or those that are named, and says what differs",
               {.value = "FILE"});
  command.text("--with", o->with, "With --check: compare with this other file instead of measuring",
               {.value = "FILE"});
  o->graph.model.add_inputs_to(command);
  o->graph.add_flags_to(command);
  o->values.add_to(command);
  o->device.add_to(command);
  command.footer(
      "Examples:\n"
      "  rlx bench model.onnx --dim batch=1 --seconds 5\n"
      "  rlx bench matmul512 softmax --json-file out.json\n"
      "  rlx bench ocr_det moonshine_decoder --peer ort\n"
      "  rlx bench softmax bert-base --peer rlx=../before/build/release/rlx --rounds 5\n"
      "  rlx bench --report my_gpu.json\n"
      "  rlx bench --check my_gpu.json\n"
      "  rlx bench sort cumsum --growth --plot growth.svg");
  command.action([o] { run_bench(*o); });
}

}  // namespace rlx::cli
