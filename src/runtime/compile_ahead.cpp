#include "runtime/compile_ahead.h"

#include <iterator>

#include "gpu/device.h"
#include "runtime/commands.h"
#include "runtime/executable.h"

namespace rlx {

CompiledAhead compile_ahead(const Executable& executable, const SymbolValues& open) {
  Executable::Impl& impl = ExecutableAccess::get(executable);
  const Executable::Impl::Lock lock = impl.lock();
  const Weights& weights = impl.device_side->weights;
  blocking(make_pipelines(*weights.device(), weights.load_dispatches(), weights.load_names()));
  const std::shared_ptr<DevicePlan> plan = blocking(impl.device_side->plan_for(open));
  const gpu::CacheStats stats = weights.device()->stats();
  return {.dispatches = std::ssize(weights.load_dispatches()) + std::ssize(plan->dispatches()),
          .pipelines = static_cast<int64_t>(stats.pipelines_created),
          .translated = static_cast<int64_t>(stats.shaders_translated)};
}

}  // namespace rlx
