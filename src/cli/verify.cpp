#include "cli/commands.h"
#include "cli/device_flags.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/standard_input.h"
#include "cli/verify_run.h"

namespace rlx::cli {
namespace {

struct Options {
  GraphFlags graph;
  ValueFlags values;
  DeviceFlags device;
  ReportFlags report;
};

void verify_model(const Options& o) {
  check_outputs(o.report.outputs(), o.values.files(o.graph));
  const RunSetup setup = set_up_run(o.graph, o.values, {.keep_intermediates = true});
  const Device device = o.device.open();
  CompiledModel compiled = compile_model(setup, device);
  const NamedTensors outputs = [&] {
    const Progress progress("running");
    return compiled.exe.run(setup.leaves.inputs);
  }();
  o.graph.note_unused_kernels(compiled.exe.plan_report(setup.open));
  const Verification result = verify_run(compiled.exe, setup, outputs);
  Json report = to_json(result);
  report.set("file", with_shown_names(o.graph.model.file));
  report.set("adapter", device.info().name);
  o.report.write(report);
  if (!o.report.only_json()) show(result);
  require_right(result);
}

}  // namespace

void add_verify(Arguments& arguments) {
  const auto o = std::make_shared<Options>();
  Command command = arguments.command("verify", "Compares a run on the device with the CPU reference");
  o->graph.add_to(command);
  o->values.add_to(command);
  o->report.add_to(command, "what agrees and what does not");
  o->device.add_to(command);
  command.footer(
      "Every node is computed again on the CPU from what the device had for its inputs, which finds the "
      "node\n"
      "that is wrong; then all of the model from its inputs on, which finds what optimisation changed.\n"
      "\n"
      "Examples:\n"
      "  rlx verify model.onnx --input image=image.npy\n"
      "  rlx verify model.rlx --dim batch=2 --random 7 --no-optimize");
  command.action([o] {
    o->graph.model.take_standard_input();
    verify_model(*o);
  });
}

}  // namespace rlx::cli
