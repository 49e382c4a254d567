#include "runtime/module_survey.h"

#include <algorithm>
#include <span>

#include "runtime/commands.h"
#include "runtime/device_access.h"
#include "runtime/executable.h"

namespace rlx {
namespace {

void add_steps(std::vector<ModuleSurvey::Module>& modules, std::span<const BoundDispatch> dispatches,
               const std::vector<Program::NodeName>& names, bool load) {
  const Commands::Requests requests = Commands::requests(dispatches);
  for (size_t i = 0; i < dispatches.size(); ++i) {
    const gpu::PipelineRequest& request = requests.all[requests.of[i]];
    const auto same = [&](const ModuleSurvey::Module& m) {
      return m.request.wgsl == request.wgsl && m.request.bindings == request.bindings;
    };
    auto it = std::ranges::find_if(modules, same);
    if (it == modules.end()) {
      const BoundDispatch& d = dispatches[i];
      const Program::NodeName& name = names[static_cast<size_t>(d.node)];
      modules.push_back({.kernel = d.kernel->name,
                         .variant = d.variant.text(),
                         .op = name.op,
                         .node = name.name,
                         .load = load,
                         .request = request});
      it = modules.end() - 1;
    }
    ++it->dispatches;
  }
}

}  // namespace

ModuleSurvey::ModuleSurvey(const DeviceOptions& options) : device_(gpu::Device::open(options)) {
  device_->describe_pipelines_only();
}

void ModuleSurvey::add(const Graph& graph, const CompileOptions& options, const SymbolValues& open) {
  const Executable exe = rlx::compile(graph, DeviceAccess::make(device_), options);
  Executable::Impl& impl = ExecutableAccess::get(exe);
  const Executable::Impl::Lock lock = impl.lock();
  const std::shared_ptr<DevicePlan> plan = blocking(impl.device_side->plan_for(open));
  const Weights& weights = impl.device_side->weights;
  add_steps(modules_, weights.load_dispatches(), weights.load_names(), true);
  add_steps(modules_, plan->dispatches(), plan->names(), false);
}

}  // namespace rlx
