#include "cli/commands.h"
#include "cli/device_flags.h"
#include "cli/verify_run.h"

namespace rlx::cli {
namespace {

struct Options {
  GraphFlags graph;
  ValueFlags values;
  DeviceFlags device;
};

void verify_model(const Options& o) {
  const ReadyModel model = ready_model(o.graph, o.values, {.keep_intermediates = true});
  CompiledModel compiled = compile_model(model, o.device.open());
  const NamedTensors outputs = compiled.exe.run(model.leaves.inputs);
  o.graph.note_unused_kernels(compiled.exe.plan_report());
  verify_run(compiled.exe, model, outputs);
}

}  // namespace

void add_verify(Arguments& arguments) {
  const auto o = std::make_shared<Options>();
  Command command = arguments.command("verify", "Compares a run on the device with the CPU reference");
  o->graph.add_to(command);
  o->values.add_to(command);
  o->device.add_to(command);
  command.footer(
      "Every node is computed again on the CPU from what the device had for its inputs, which finds the "
      "node\n"
      "that is wrong; then all of the model from its inputs on, which finds what optimisation changed.\n"
      "\n"
      "Examples:\n"
      "  rlx verify model.onnx --input image=image.npy\n"
      "  rlx verify model.rlx --dim batch=2 --random 7 --no-optimize");
  command.action([o] { verify_model(*o); });
}

}  // namespace rlx::cli
