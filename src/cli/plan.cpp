#include <memory>

#include "base/format.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/device_flags.h"
#include "cli/graph_flags.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/text.h"
#include "rlx/diagnostics.h"

namespace rlx::cli {
namespace {

struct Options {
  GraphFlags graph;
  DeviceFlags device;
  ReportFlags report;
  bool print_graph = false;
};

Json to_json(const std::vector<StepReport>& steps) {
  Json out = Json::array();
  for (const StepReport& s : steps) {
    out.add(Json::object({{"node", s.node},
                          {"op", s.op},
                          {"kernel", s.kernel},
                          {"variant", s.variant},
                          {"reason", s.reason},
                          {"expected_ns", s.expected_ns},
                          {"grid", Json::array({s.grid[0], s.grid[1], s.grid[2]})},
                          {"bindings", s.bindings},
                          {"bytes", s.bytes}}));
  }
  return out;
}

Json to_json(const PlanReport& plan, const std::string& graph, const std::string& adapter) {
  const MemoryReport& m = plan.memory;
  Json control = Json::array();
  for (const std::string& sentence : plan.control) control.add(sentence);
  return Json::object({{"graph", graph},
                       {"adapter", adapter},
                       {"load", to_json(plan.load)},
                       {"dispatches", to_json(plan.run)},
                       {"control", control},
                       {"submits", plan.submits},
                       {"memory", Json::object({{"weight_bytes", m.weight_bytes},
                                                {"derived_bytes", m.derived_bytes},
                                                {"state_bytes", m.state_bytes},
                                                {"input_bytes", m.input_bytes},
                                                {"intermediate_bytes", m.intermediate_bytes},
                                                {"lower_bound_bytes", m.lower_bound_bytes}})}});
}

// "measurement, 1.24 ms"
std::string why(const StepReport& s) {
  return s.expected_ns > 0 ? formatted("{}, {}", s.reason, ms_text(s.expected_ns * 1e-6)) : s.reason;
}

void print_steps(const char* title, const std::vector<StepReport>& steps) {
  if (steps.empty()) return;
  std::vector<std::vector<std::string>> rows = {
      {"  #", "node", "op", "kernel", "variant", "why", "grid", "bindings", "bytes"}};
  for (size_t i = 0; i < steps.size(); ++i) {
    const StepReport& s = steps[i];
    rows.push_back({formatted("  {}", i), s.node, s.op, s.kernel, s.variant, why(s),
                    formatted("{}x{}x{}", s.grid[0], s.grid[1], s.grid[2]), std::to_string(s.bindings),
                    bytes_text(s.bytes)});
  }
  print(formatted("{} ({} dispatches)\n{}\n", title, steps.size(), table(rows, {7, 8})));
}

void show_plan(const Options& o) {
  check_outputs(o.report.outputs(), o.graph.model.files());
  const Model model = o.graph.load();
  const CompileOptions compile_options = o.graph.options(model);
  const Device device = o.device.open();
  const Executable exe = [&] {
    const Progress progress("compiling");
    return compile(model.graph, device, compile_options);
  }();
  const PlanReport plan = exe.plan_report(o.graph.open_symbols(model));
  o.graph.note_unused_kernels(plan);
  if (o.report.wanted()) {
    Json out = to_json(plan, model.graph.name, device.info().name);
    if (o.print_graph) out.set("optimized", rlx::to_text(*exe.graph()));
    o.report.write(out);
  }
  if (o.report.only_json()) return;
  if (o.print_graph) print(rlx::to_text(*exe.graph(), 16) + "\n");
  print_steps("load phase, once for each change of params", plan.load);
  print_steps("each run", plan.run);
  for (const std::string& sentence : plan.control) print(sentence + "\n");
  if (!plan.control.empty()) print("\n");
  if (plan.submits > 1) print(formatted("{} submits (RLX_SUBMIT_MS)\n", plan.submits));
  for (const StepReport& s : plan.run) {
    if (s.too_long) note(formatted("'{}' ({}) is estimated to take longer than a submit may", s.node, s.op));
  }
  print(schedule_summary(plan));
}

}  // namespace

void add_plan(Arguments& arguments) {
  const auto o = std::make_shared<Options>();
  Command command = arguments.command("plan", "What a model becomes: dispatches, kernels, bytes, memory");
  o->graph.add_to(command);
  command.flag("--print-graph", o->print_graph, "Also print the graph after optimisation");
  o->report.add_to(command, "the same");
  o->device.add_to(command);
  command.footer(
      "The column `why` says what the choice of a kernel was made by: an estimate, a measurement (rlx tune), "
      "force\n"
      "(--kernel) or replay, and what it expects all dispatches of the op to take.\n"
      "\n"
      "Examples:\n"
      "  rlx plan model.onnx --dim batch=4 --dim seq=128\n"
      "  rlx plan model.rlx --print-graph --kernel matmul=plain\n"
      "  rlx plan model.rlx --limit binding=1M,buffers=8,no-f16");
  command.action([o] {
    o->graph.model.take_standard_input();
    show_plan(*o);
  });
}

}  // namespace rlx::cli
