#include <memory>
#include <optional>

#include "base/fail.h"
#include "cli/bench_subjects.h"
#include "cli/commands.h"
#include "cli/cost_report.h"
#include "cli/device_flags.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/run_setup.h"
#include "cli/standard_input.h"
#include "cli/text.h"
#include "measure/measure.h"

namespace rlx::cli {
namespace {

struct Options {
  GraphFlags graph;
  ValueFlags values;
  DeviceFlags device;
  int64_t repeat = 10;
  bool predict_only = false;
  ReportFlags report;
};

// All sizes are those of this run, also those for which memory is planned.
GraphCost predict(const RunSetup& setup, const Device& device, CompileOptions options) {
  options.symbols.insert(setup.open.begin(), setup.open.end());
  return predict_cost(setup.model.graph, device, options);
}

measure::CostComparison measure_model(const RunSetup& setup, const Device& device, GraphCost predicted,
                                      int64_t repeat) {
  Executable exe = compile_model(setup, device).exe;
  Progress progress("running");
  const NamedTensors& inputs = setup.leaves.inputs;
  const double run_ns = 1e6 * measure::measure_runs(exe, inputs, 0, repeat).wall_ms;
  std::vector<std::vector<DispatchReport>> runs;
  for (int64_t i = 0; i < repeat; ++i) {
    progress.update(i, repeat, "timed runs");
    runs.push_back(exe.profile(inputs));
  }
  return measure::compare_cost(std::move(predicted), runs, run_ns);
}

void show_cost(const Options& o) {
  check_outputs(o.report.outputs(), o.values.files(o.graph));
  RunSetup setup = set_up_subject(o.graph, o.values);
  const Device device = o.device.open();
  setup.options.calibration = [&] {
    const Progress progress("calibrating");
    return Calibration::load_or_measure(device, {.log = [](const std::string& text) { note(text); }});
  }();
  GraphCost predicted = predict(setup, device, setup.options);
  const measure::CostComparison report = o.predict_only
                                             ? measure::compare_cost(std::move(predicted), {}, 0)
                                             : measure_model(setup, device, std::move(predicted), o.repeat);
  Json json = to_json(report);
  json.set("file", with_shown_names(o.graph.model.file));
  json.set("adapter", device.info().name);
  json.set("calibration", Json::read(setup.options.calibration->to_json()).value());
  o.report.write(json);
  if (o.report.only_json()) return;
  print(formatted("{} on {}\n\n{}", setup.graph.name, device.info().name, to_text(report)));
}

}  // namespace

void add_cost(Arguments& arguments) {
  const auto o = std::make_shared<Options>();
  Command command = arguments.command("cost", "What a model is predicted to take, and what it takes");
  o->graph.add_to(command);
  o->values.add_to(command);
  command.flag("--predict-only", o->predict_only, "Run nothing");
  command.number("--repeat", o->repeat, 1, 10000,
                 "How many runs to time; the least of each dispatch counts (default 10)");
  o->report.add_to(command, "all nodes");
  o->device.add_to(command);
  command.footer(
      "Predicts from the calibration of the device (`rlx calibrate`; made now if there is none) before "
      "anything\n"
      "has run, then runs the model with a timestamp around each dispatch. FILE may also be a case or a "
      "network\n"
      "of `rlx bench`.\n"
      "\n"
      "Examples:\n"
      "  rlx cost model.onnx --dim batch=1\n"
      "  rlx cost bert-base --predict-only --json\n"
      "  rlx cost model.rlx --random 7 --kernel matmul=plain");
  command.action([o] {
    o->graph.model.take_standard_input();
    show_cost(*o);
  });
}

}  // namespace rlx::cli
