#include "runtime/run_outputs.h"

#include <algorithm>

#include "runtime/overflow.h"
#include "runtime/transfer.h"

namespace rlx {

RunOutputs::RunOutputs(const std::vector<Graph::Output>& outputs, const std::vector<std::string>& wanted)
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

NamedTensors RunOutputs::read(std::span<const std::byte> bytes) const {
  if (!node_names.empty() && !bytes.empty()) check_overflow(bytes.subspan(overflow_offset), node_names);
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
