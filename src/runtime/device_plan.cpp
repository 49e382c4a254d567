#include "runtime/device_plan.h"

#include <algorithm>
#include <cstring>

#include "base/fail.h"
#include "ir/op.h"
#include "ir/reference.h"
#include "runtime/transfer.h"

namespace rlx {

DevicePlan::DevicePlan(std::shared_ptr<gpu::Device> device, const Weights& weights, const Target& target,
                       LoweredGraph lowered, Plan plan)
    : device_(std::move(device)),
      fixed_(weights.buffers()),
      target_(target),
      lowered_(std::move(lowered)),
      plan_(std::move(plan)) {
  for (int64_t bytes : plan_.buffers) {
    buffers_.push_back(device_->create_buffer(
        gpu::BufferUse::storage, static_cast<uint64_t>(std::max<int64_t>(bytes, 256)), lowered_.graph.name));
  }
  for (size_t s = 0; s < lowered_.program.storages.size(); ++s) {
    const Storage& storage = lowered_.program.storages[s];
    if (!storage.table) continue;
    const Placement& place = plan_.placements[s];
    upload(*device_, buffer(place.buffer), place.offset, storage.table->dtype(), storage.table->bytes(),
           lowered_.graph.node(storage.node).name);
  }
  commands_ = std::make_unique<Commands>(device_, std::move(plan_.dispatches),
                                         [this](int32_t id) -> const gpu::Buffer& { return buffer(id); });
  read_slots();
}

const gpu::Buffer& DevicePlan::buffer(int32_t id) const {
  return id < plan_.fixed_buffers ? fixed_[static_cast<size_t>(id)]
                                  : buffers_[static_cast<size_t>(id - plan_.fixed_buffers)];
}

void DevicePlan::read_slots() {
  const std::vector<InputSlot> before = std::move(inputs_);
  inputs_.clear();
  outputs_.clear();
  const Graph& graph = lowered_.graph;
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    if (!n.op->is(LeafKind::input)) continue;
    const Operand& value = lowered_.program.values.at({id, 0});
    const TensorType& type = n.outputs[0];
    const bool resident = !before.empty() && before[inputs_.size()].resident;
    inputs_.push_back({n.name, type, plan_.placements[static_cast<size_t>(value.storage)],
                       host_bytes_of(type.dtype, type.shape.elements().value()), resident});
  }
  for (const Program::Output& out : lowered_.program.outputs) {
    const Operand& o = lowered_.program.operand(out);
    const TensorType& type = graph.type(out.value);
    const Placement& place = plan_.placements[static_cast<size_t>(o.storage)];
    const auto elements = static_cast<uint64_t>(o.view.elements());
    outputs_.push_back(
        {out.name, type, type.shape.values(), place.buffer,
         static_cast<uint64_t>(place.offset) + static_cast<uint64_t>(o.view.offset) * device_bytes(o.dtype),
         elements * device_bytes(o.dtype), elements * host_bytes(o.dtype)});
  }
}

const DevicePlan::OutputSlot& DevicePlan::output(std::string_view name) const {
  const auto it = std::ranges::find(outputs_, name, &OutputSlot::name);
  if (it == outputs_.end()) {
    fail(ErrorKind::invalid_argument, "the graph '{}' has no output named '{}'", lowered_.graph.name, name);
  }
  return *it;
}

Tensor DevicePlan::read_value(std::string_view node, int32_t output) const {
  const int32_t id = lowered_.graph.find(node);
  if (id < 0) {
    fail(ErrorKind::invalid_argument,
         "the graph '{}' has no node named '{}' (after optimisation; nodes may have been fused)",
         lowered_.graph.name, node);
  }
  const auto outputs = std::ssize(lowered_.graph.node(id).outputs);
  if (output < 0 || output >= outputs) {
    fail(ErrorKind::invalid_argument, "output {} was requested from the node '{}', which has {}", output,
         node, outputs);
  }
  const Operand& o = lowered_.program.values.at({id, output});
  const Placement& place = plan_.placements[static_cast<size_t>(o.storage)];
  // Reads the whole storage and applies the view here.
  std::vector<std::byte> raw(static_cast<size_t>(place.bytes));
  if (place.buffer >= 0) device_->read(buffer(place.buffer), static_cast<uint64_t>(place.offset), raw);
  if (is_encoded(o.dtype)) {
    const int64_t elements = device_elements_in(o.dtype, place.bytes);
    std::vector<std::byte> blocks(host_bytes_of(o.dtype, elements));
    from_device(o.dtype, raw, blocks);
    const std::vector<double> values = Tensor(o.dtype, {elements}, std::move(blocks)).doubles();
    return Tensor::from_doubles(DType::f32, o.view.dims, gather_view(values, o.view));
  }
  const size_t element = host_bytes(o.dtype);
  std::vector<std::byte> host(raw.size() / device_bytes(o.dtype) * element);
  from_device(o.dtype, raw, host);
  std::vector<std::byte> out(static_cast<size_t>(o.view.elements()) * element);
  std::byte* to = out.data();
  o.view.for_each_position([&](int64_t at) {
    std::memcpy(to, host.data() + static_cast<size_t>(at) * element, element);
    to += element;
  });
  return Tensor(o.dtype, o.view.dims, std::move(out));
}

// Whether `now` works on the memory of `planned`: on the same storages, and where the plan lets two of them
// share a place, that must still be allowed.
bool DevicePlan::same_memory(const Dispatch& planned, const Dispatch& now) const {
  if (!std::ranges::equal(planned.operands, now.operands, {}, &Operand::storage, &Operand::storage))
    return false;
  const auto place = [&](int32_t operand) {
    return plan_.placements[static_cast<size_t>(now.operands[static_cast<size_t>(operand)].storage)];
  };
  return std::ranges::all_of(planned.in_place, [&](const Dispatch::InPlace& pair) {
    const Placement out = place(pair.output);
    const Placement in = place(pair.input);
    return out.buffer != in.buffer || out.offset != in.offset || std::ranges::contains(now.in_place, pair);
  });
}

// Binds the dispatches of a node as those it has now are bound.
std::optional<std::string> DevicePlan::bind(const Relowered& node, std::vector<BoundDispatch>& into) const {
  const Program::Work& work = lowered_.program.work[node.work];
  const std::string& name = lowered_.graph.node(work.node).name;
  const auto planned = std::span(lowered_.program.dispatches).subspan(work.first, work.count);
  if (planned.size() != node.dispatches.size()) return formatted("'{}' takes other steps", name);
  const size_t begin = plan_.first_bound[work.first];
  const size_t end = plan_.first_bound[work.first + work.count];
  const size_t before = into.size();
  for (size_t i = 0; i < planned.size(); ++i) {
    if (!same_memory(planned[i], node.dispatches[i])) return formatted("'{}' uses memory differently", name);
    const size_t first = plan_.first_bound[work.first + i];
    for (BoundDispatch& b :
         bind_dispatch(node.dispatches[i], plan_.placements, device_->caps(), &dispatches()[first].pattern)) {
      const size_t at = begin + into.size() - before;
      if (at >= end || b.kernel != dispatches()[at].kernel || !(b.pattern == dispatches()[at].pattern))
        return formatted("'{}' needs another kernel", name);
      into.push_back(std::move(b));
    }
  }
  if (into.size() - before != end - begin) return formatted("'{}' takes other steps", name);
  return std::nullopt;
}

std::optional<std::string> DevicePlan::retarget(const SymbolValues& values) {
  for (int32_t id : lowered_.changing)
    lowered_.graph.replace_op(id, bind_symbols(lowered_.symbolic.node(id).op, values));
  std::vector<Relowered> nodes;
  if (auto reason = relower(lowered_.program, lowered_.graph, target_, lowered_.changing, false, nodes))
    return reason;
  std::vector<BoundDispatch> bound;
  for (const Relowered& node : nodes) {
    if (auto reason = bind(node, bound)) return reason;
  }
  relowered_ += std::ssize(nodes);
  auto next = bound.begin();
  for (const Relowered& node : nodes) {
    const Program::Work& work = lowered_.program.work[node.work];
    for (size_t i = plan_.first_bound[work.first]; i < plan_.first_bound[work.first + work.count]; ++i)
      commands_->update(i, std::move(*next++));
  }
  commands_->flush();
  read_slots();
  return std::nullopt;
}

}  // namespace rlx
