// Every kernel file compiles as it is, with plain f32 operands, for each team that may make its rows.
#include <gtest/gtest.h>

#include <algorithm>

#include "gpu/device.h"
#include "kernels/binder.h"
#include "kernels/registry.h"
#include "rlx/error.h"

namespace rlx {
namespace {

std::vector<KernelPtr> forms(const KernelPtr& kernel, const Caps& caps) {
  std::vector<KernelPtr> out = {kernel};
  if (!std::ranges::contains(kernel->libs, "team_serial")) return out;
  out.push_back(with_fragment(*kernel, "team_serial", "team_workgroup"));
  if (caps.subgroups) out.push_back(with_fragment(*kernel, "team_serial", "team_subgroup"));
  return out;
}

TEST(Kernels, EachCompilesWithTheDefaultPrelude) {
  const auto device = gpu::Device::open();
  for (const auto& kernel : kernels::all()) {
    for (const KernelPtr& form : forms(kernel, device->caps())) {
      gpu::PipelineRequest request{.label = form->name, .wgsl = default_module_text(form)};
      request.bindings = {gpu::BindingKind::uniform, gpu::BindingKind::uniform};
      for (const OperandDecl& o : form->operands) {
        request.bindings.push_back(o.out ? gpu::BindingKind::read_write : gpu::BindingKind::read);
      }
      try {
        device->pipeline(request);
      } catch (const Error& e) {
        ADD_FAILURE() << e.what();
      }
    }
  }
}

}  // namespace
}  // namespace rlx
