#include "rlx/tuning.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include "base/flags.h"
#include "base/format.h"
#include "cli/bench_subjects.h"
#include "cli/commands.h"
#include "cli/device_flags.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/run_setup.h"
#include "cli/standard_input.h"
#include "cli/text.h"
#include "rlx/error.h"
#include "runtime/tuning_records.h"

namespace rlx::cli {
namespace {

struct Options {
  GraphFlags graph;
  ValueFlags values;
  DeviceFlags device;
  TuneOptions tune;
  bool all = false;
  ReportFlags report;
};

// Of several runs, since a candidate may take the device with it: what is tried after that is on a new one.
TuneReport tune_model(const Options& o, const RunSetup& setup, std::string& adapter) {
  constexpr int kMostLosses = 5;
  for (int losses = 0;; ++losses) {
    const Device device = o.device.open();
    adapter = device.info().name;
    try {
      CompiledModel compiled = compile_model(setup, device);
      Progress progress("tuning");
      TuneOptions options = o.tune;
      options.progress = [&](const TuneProgress& p) { progress.update(p.done, p.problems, p.problem); };
      TuneReport report = tune(compiled.exe, setup.leaves.inputs, options);
      o.graph.note_unused_kernels(compiled.exe.plan_report(setup.open));
      return report;
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::device_lost || losses == kMostLosses) throw;
      note(formatted("a candidate took the device with it and is left out from now on: {}", e.what()));
    }
  }
}

double ratio_of(const TunedProblem& p) {
  return p.static_ns > 0 && p.tuned_ns > 0 ? p.tuned_ns / p.static_ns : 1;
}

Json to_json(const TuneReport& report) {
  Json problems = Json::array();
  for (const TunedProblem& p : report.problems) {
    problems.add(Json::object({{"family", p.family},
                               {"op", p.op},
                               {"key", p.key},
                               {"node", p.node},
                               {"nodes", p.nodes},
                               {"static_choice", p.static_choice},
                               {"tuned_choice", p.tuned_choice},
                               {"static_ns", p.static_ns},
                               {"tuned_ns", p.tuned_ns},
                               {"tried", p.tried},
                               {"excluded", p.excluded},
                               {"left", p.left}}));
  }
  return problems;
}

void show(const TuneReport& report) {
  std::vector<std::vector<std::string>> rows = {
      {"op", "problem", "nodes", "static choice", "tuned choice", "static", "tuned", "ratio"}};
  int64_t left = 0;
  double static_ms = 0;
  double tuned_ms = 0;
  for (const TunedProblem& p : report.problems) {
    const bool timed = p.tuned_ns > 0;
    if (!timed) {
      ++left;
      continue;
    }
    const auto nodes = static_cast<double>(p.nodes);
    static_ms += nodes * (p.static_ns > 0 ? p.static_ns : p.tuned_ns) * 1e-6;
    tuned_ms += nodes * p.tuned_ns * 1e-6;
    rows.push_back({p.op, p.key, std::to_string(p.nodes), p.static_choice,
                    p.tuned_choice == p.static_choice ? "the same" : p.tuned_choice,
                    p.static_ns > 0 ? ms_text(p.static_ns * 1e-6) : "-", ms_text(p.tuned_ns * 1e-6),
                    formatted("{:.2f}", ratio_of(p))});
  }
  if (rows.size() > 1) print(table(rows, {2, 5, 6, 7}) + "\n");
  for (const TunedProblem& p : report.problems) {
    for (const std::string& excluded : p.excluded)
      print(formatted("not to be chosen again for {} {}: {}\n", p.op, p.key, excluded));
  }
  const auto known = std::ranges::count(report.problems, std::string("known"), &TunedProblem::left);
  print(
      formatted("{} problem{} measured, {} known before, {} left alone (one candidate, forced, or little of "
                "the run)\n",
                report.measured, report.measured == 1 ? "" : "s", known, left));
  if (static_ms > 0)
    print(
        formatted("by these times their nodes take {} of a run with the static choices and {} with the tuned "
                  "ones: {:.2f}; the run took {} on the device\n",
                  ms_text(static_ms), ms_text(tuned_ms), tuned_ms / static_ms, ms_text(report.run_ms)));
  print(formatted("records: {}\n", report.file));
}

void run_tune(Options o) {
  if (env_flag("RLX_NO_TUNE"))
    throw Misuse("RLX_NO_TUNE is set, with which no measured times are used: there is nothing to tune");
  if (!(o.tune.seconds > 0)) throw Misuse("--seconds must be more than 0");
  if (o.tune.file == "-") throw Misuse("--records: standard output is no file that can be read again");
  if (std::filesystem::is_directory(o.tune.file))
    throw Misuse(formatted("--records: '{}' is a folder; it must be a file", o.tune.file));
  if (std::filesystem::exists(o.tune.file) && !std::filesystem::is_regular_file(o.tune.file))
    throw Misuse(formatted("--records: '{}' is no regular file", o.tune.file));
  if (!TuningFile(o.tune.file).is_ours())
    throw Misuse(
        formatted("--records: '{}' exists and has no measured times that this version can read; it is not "
                  "overwritten",
                  o.tune.file));
  if (o.all) o.tune.least_share = 0;
  check_outputs(o.report.outputs({{"--records", o.tune.file, FileKind::json}}), o.values.files(o.graph));
  // What is measured serves deterministic executables too; to measure is not deterministic.
  const RunSetup setup = set_up_subject(o.graph, o.values, {.deterministic = false});
  std::string adapter;
  const TuneReport report = tune_model(o, setup, adapter);
  o.report.write(Json::object({{"file", with_shown_names(o.graph.model.file)},
                               {"graph", setup.graph.name},
                               {"adapter", adapter},
                               {"records", report.file},
                               {"run_ms", report.run_ms},
                               {"measured", report.measured},
                               {"problems", to_json(report)}}));
  if (o.report.only_json()) return;
  print(formatted("{} on {}\n\n", setup.graph.name, adapter));
  show(report);
}

}  // namespace

void add_tune(Arguments& arguments) {
  const auto o = std::make_shared<Options>();
  Command command = arguments.command(
      "tune", "Measures which kernels are fastest for a model on this device, once and for all");
  o->graph.add_to(command);
  o->values.add_to(command);
  command.seconds("--seconds", o->tune.seconds,
                  "How long the candidates for each problem are timed, on the device (default 1)");
  command.number("--candidates", o->tune.candidates, 2, 100,
                 "How many are tried for each problem (default 6)");
  command.flag("--all", o->all, "Also problems that take less than a hundredth of the run");
  command.text("--records", o->tune.file,
               "The file with measured times (default: tuning.json in the cache folder)", {.value = "FILE"});
  o->report.add_to(command, "what was gained");
  o->device.add_to(command);
  command.footer(
      "What is found is used by all commands and programs from then on; RLX_NO_TUNE=1 ignores it, and "
      "RLX_TUNING_FILES\n"
      "names other files to read. What has a record is not measured again. docs/tuning.md has more.\n"
      "\n"
      "Examples:\n"
      "  rlx tune model.onnx --dim batch=1\n"
      "  rlx tune ocr_det                         a network or a case of rlx bench, by its name\n"
      "  rlx tune model.rlx --records shipped.json --seconds 3 --candidates 20");
  command.action([o] {
    o->graph.model.take_standard_input();
    run_tune(*o);
  });
}

}  // namespace rlx::cli
