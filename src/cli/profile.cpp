#include <algorithm>
#include <memory>

#include "base/fail.h"
#include "cli/commands.h"
#include "cli/device_flags.h"
#include "cli/profile_page.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/run_setup.h"
#include "cli/standard_input.h"
#include "cli/text.h"
#include "rlx/diagnostics.h"

namespace rlx::cli {
namespace {

struct Options {
  GraphFlags graph;
  ValueFlags values;
  DeviceFlags device;
  int64_t repeat = 5;
  std::string trace;
  std::string html;
  ReportFlags report;
};

uint64_t total_ns(const std::vector<DispatchReport>& run) {
  uint64_t sum = 0;
  for (const DispatchReport& d : run) sum += d.end_ns - d.begin_ns;
  return sum;
}

// Of several timed runs the one in the middle, by the sum of its dispatches.
std::vector<DispatchReport> median_run(Executable& exe, const NamedTensors& inputs, int64_t repeat) {
  // A driver compiles at the first dispatch of each pipeline.
  Progress progress("running");
  exe.run(inputs);
  std::vector<std::vector<DispatchReport>> runs;
  for (int64_t i = 0; i < repeat; ++i) {
    progress.update(i, repeat, "timed runs");
    runs.push_back(exe.profile(inputs));
  }
  const auto middle = runs.begin() + std::ssize(runs) / 2;
  std::ranges::nth_element(runs, middle, {}, total_ns);
  return std::move(*middle);
}

Json to_json(const std::vector<DispatchReport>& dispatches, const PlanReport& plan) {
  const std::vector<double> flops = dispatch_flops(dispatches, plan);
  Json out = Json::array();
  for (size_t i = 0; i < dispatches.size(); ++i) {
    const DispatchReport& d = dispatches[i];
    out.add(Json::object({{"node", d.node},
                          {"kernel", d.kernel},
                          {"variant", d.variant},
                          {"step", d.step},
                          {"begin_ns", d.begin_ns},
                          {"end_ns", d.end_ns},
                          {"bytes", plan.run[static_cast<size_t>(d.step)].bytes},
                          {"flops", flops[i]}}));
  }
  return out;
}

void show(const Options& o, const std::string& graph, const Device& device, const PlanReport& plan,
          const std::vector<DispatchReport>& dispatches) {
  print(
      formatted("{} on {}: the run in the middle of {}, with a timestamp around each dispatch\n\n{}"
                "\nGB/s: of the memory that is bound, each byte once. GFLOP/s: of products and attention.\n",
                graph, device.info().name, o.repeat, profile_table(dispatches, &plan)));
  if (!o.trace.empty())
    print(formatted("trace written to {}; open it in chrome://tracing or ui.perfetto.dev\n", o.trace));
  if (!o.html.empty()) print(formatted("page written to {}; any browser shows it\n", o.html));
}

void profile_graph(const Options& o) {
  check_outputs(o.report.outputs({{"--html", o.html, FileKind::html}, {"--trace", o.trace, FileKind::json}}),
                o.values.files(o.graph));
  const RunSetup setup = set_up_run(o.graph, o.values);
  const Device device = o.device.open();
  if (!device.caps().timestamps) {
    fail(ErrorKind::unsupported, "the device '{}' has no timestamps, so there is nothing to measure with",
         device.info().name);
  }
  CompiledModel compiled = compile_model(setup, device);
  Executable& exe = compiled.exe;
  const std::vector<DispatchReport> dispatches = median_run(exe, setup.leaves.inputs, o.repeat);
  const PlanReport plan = exe.plan_report(setup.open);
  o.graph.note_unused_kernels(plan);
  if (!o.trace.empty()) write_report(o.trace, trace_json(dispatches, setup.graph.name));
  if (!o.html.empty()) {
    write_report(o.html, ProfilePage{.adapter = device.info().name,
                                     .runs = o.repeat,
                                     .graph = *exe.graph(),
                                     .plan = plan,
                                     .dispatches = dispatches}
                             .html());
  }
  o.report.write(Json::object({{"file", with_shown_names(o.graph.model.file)},
                               {"graph", setup.graph.name},
                               {"adapter", device.info().name},
                               {"runs", o.repeat},
                               {"device_ns", total_ns(dispatches)},
                               {"dispatches", to_json(dispatches, plan)}}));
  const bool has_stdout = o.html == "-" || o.trace == "-";
  if (!o.report.only_json() && !has_stdout) show(o, setup.graph.name, device, plan, dispatches);
}

}  // namespace

void add_profile(Arguments& arguments) {
  const auto o = std::make_shared<Options>();
  Command command = arguments.command("profile", "Where a model's time goes, by kernel, node and dispatch");
  o->graph.add_to(command);
  o->values.add_to(command);
  command.number("--repeat", o->repeat, 1, 10000,
                 "How many runs to time; the one in the middle counts (default 5)");
  command.text("--html", o->html, "Write a page with a timeline, the graph and the memory plan",
               {.value = "FILE"});
  command.text("--trace", o->trace, "Write the times as a Chrome/Perfetto trace", {.value = "FILE"});
  o->report.add_to(command, "the time of each dispatch");
  o->device.add_to(command);
  command.footer(
      "Each dispatch is timed on the device, in a pass of its own, so the sum is more than a plain run "
      "takes:\n"
      "`rlx bench` measures that.\n"
      "\n"
      "Examples:\n"
      "  rlx profile model.onnx --dim batch=1\n"
      "  rlx profile model.onnx --input image=image.npy --html profile.html\n"
      "  rlx profile model.rlx --random 7 --kernel matmul=plain --trace out.json");
  command.action([o] {
    o->graph.model.take_standard_input();
    profile_graph(*o);
  });
}

}  // namespace rlx::cli
