#include "runtime/run.h"

#include <algorithm>

#include "base/border.h"
#include "base/fail.h"
#include "runtime/transfer.h"

namespace rlx {

Run::Run() = default;
Run::Run(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Run::Run(Run&&) noexcept = default;
Run& Run::operator=(Run&&) noexcept = default;
Run::~Run() = default;

bool Run::ready() {
  if (!impl_) return true;
  try {
    if (impl_->runner && !impl_->runner->advance(false)) return false;
  } catch (const Error&) {
    return true;  // get() throws it
  }
  return !impl_->readback || impl_->readback.ready();
}

NamedTensors Run::get() try {
  if (!impl_)
    fail(ErrorKind::invalid_argument, "the run was never started, or its outputs have already been taken");
  const std::shared_ptr<Impl> run = std::move(impl_);
  return run->get();
} catch (...) {
  throw_as_error("running a graph");
}

Run::Impl::Impl(const std::vector<Graph::Output>& outputs, const std::vector<std::string>& wanted)
    : names_(wanted) {
  if (wanted.empty()) {
    for (const Graph::Output& o : outputs) names_.push_back(o.name);
  }
  for (const Graph::Output& o : outputs) {
    if (o.count.empty() || !std::ranges::contains(names_, o.name)) continue;
    const bool count_wanted = wanted.empty() || std::ranges::contains(wanted, o.count);
    counted_.push_back({o.name, o.count, o.axis, count_wanted});
    if (!std::ranges::contains(names_, o.count)) names_.push_back(o.count);
  }
}

NamedTensors Run::Impl::get() {
  if (runner) runner->advance(true);
  const std::span<const std::byte> bytes = readback ? readback.wait() : std::span<const std::byte>();
  if (plan && readback) check_overflow(bytes.subspan(overflow_offset), plan->names());
  NamedTensors out;
  for (const Slot& slot : slots) {
    std::vector<std::byte> host(slot.host_bytes);
    if (!zeros) from_device(slot.dtype, bytes.subspan(slot.offset, slot.device_bytes), host);
    out.emplace(slot.name, Tensor(slot.dtype, slot.shape, std::move(host)));
  }
  for (const Counted& c : counted_) out.at(c.name) = out.at(c.name).head(c.axis, out.at(c.count).integer(0));
  for (const Counted& c : counted_) {
    if (!c.count_wanted) out.erase(c.count);
  }
  return out;
}

}  // namespace rlx
