// Every kernel file compiles as it stands, with plain f32 operands.
#include <gtest/gtest.h>

#include "gpu/device.h"
#include "kernels/binder.h"
#include "kernels/registry.h"

namespace rlx {
namespace {

TEST(Kernels, EachCompilesWithTheDefaultPrelude) {
  const auto device = gpu::Device::open();
  for (const auto& kernel : kernels::all()) {
    gpu::PipelineRequest request{.label = kernel->name, .wgsl = default_module_text(*kernel), .bindings = {}};
    request.bindings = {gpu::BindingKind::uniform, gpu::BindingKind::uniform};
    for (const OperandDecl& o : kernel->operands) {
      request.bindings.push_back(o.out ? gpu::BindingKind::read_write : gpu::BindingKind::read);
    }
    EXPECT_NO_THROW(device->pipeline(request)) << request.wgsl;
  }
}

}  // namespace
}  // namespace rlx
