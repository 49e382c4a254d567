// Every kernel file compiles as it is, with plain f32 operands, for each team that may make its rows and each
// encoding of an encoded operand.
#include <gtest/gtest.h>

#include <algorithm>

#include "encodings/encoding.h"
#include "gpu/device.h"
#include "kernels/binder.h"
#include "kernels/registry.h"
#include "rlx/compile.h"
#include "rlx/error.h"

namespace rlx {
namespace {

std::vector<KernelPtr> forms(const KernelPtr& kernel, const Caps& caps) {
  std::vector<KernelPtr> out = {kernel};
  if (!std::ranges::contains(kernel->libs, "team_serial")) return out;
  out.push_back(with_fragment(*kernel, "team_serial", "team_workgroup"));
  if (!caps.subgroups) return out;
  for (const char* team : {"team_subgroup", "team_whole_subgroup"})
    out.push_back(with_fragment(*kernel, "team_serial", team));
  return out;
}

void compile(gpu::Device& device, const KernelPtr& kernel, DType encoding) {
  // No dispatch has all operands of the forms of attention; the sweep compiles those that a device can bind.
  if (kernel->operands.size() > device.caps().max_storage_buffers) return;
  gpu::PipelineRequest request{.label = kernel->name, .wgsl = default_module_text(kernel, encoding)};
  request.bindings = {gpu::BindingKind::uniform, gpu::BindingKind::uniform};
  for (const OperandDecl& o : kernel->operands) {
    request.bindings.push_back(o.out ? gpu::BindingKind::read_write : gpu::BindingKind::read);
  }
  try {
    device.pipeline(request);
  } catch (const Error& e) {
    ADD_FAILURE() << e.what();
  }
}

TEST(Kernels, EachCompilesWithTheDefaultPrelude) {
  const auto device = gpu::Device::open();
  for (const auto& kernel : kernels::all()) {
    const bool encoded =
        std::ranges::contains(kernel->operands, OperandDecl::Kind::encoded, &OperandDecl::kind);
    for (const Encoding& e : encoding_table().all()) {
      for (const KernelPtr& form : forms(kernel, device->caps())) compile(*device, form, e.dtype);
      if (!encoded) break;  // one is like the other
    }
  }
}

}  // namespace
}  // namespace rlx
