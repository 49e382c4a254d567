// The modules of WGSL that graphs become on a device, and how its driver compiles each of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gpu/device.h"
#include "rlx/compile.h"

namespace rlx {

// Plans graphs on a device, with its limits and choices, and makes none of their pipelines before it is
// asked to.
class ModuleSurvey {
 public:
  struct Module {
    std::string kernel;
    std::string variant;   // as in StepReport
    std::string op, node;  // of the first dispatch that uses it
    bool load = false;     // that dispatch is of the load phase
    int64_t dispatches = 0;
    gpu::PipelineRequest request;
  };

  explicit ModuleSurvey(const DeviceOptions& options);

  const AdapterInfo& info() const { return device_->info(); }
  const Caps& caps() const { return device_->caps(); }

  // Compiles and plans the graph, for these values of the symbols that the options leave open. The modules
  // that it adds follow those that there are.
  void add(const Graph& graph, const CompileOptions& options = {}, const SymbolValues& open = {});
  const std::vector<Module>& modules() const { return modules_; }

  // Has the driver compile the module, alone. The error of a module that does not compile.
  void compile(size_t module) const { device_->compile_alone(modules_[module].request); }

 private:
  std::shared_ptr<gpu::Device> device_;
  std::vector<Module> modules_;
};

}  // namespace rlx
