#include "runtime/device_plan.h"

#include <algorithm>
#include <cstring>

#include "base/fail.h"
#include "ir/dtype.h"
#include "ir/op.h"
#include "ir/reference.h"
#include "runtime/transfer.h"

namespace rlx {
namespace {

std::string label_of(const Graph& graph) { return "inputs and intermediates of " + graph.name; }

}  // namespace

DevicePlan::DevicePlan(const Weights& weights, const Target& target, ResizableProgram lowered, Plan plan,
                       std::vector<gpu::Pipeline> pipelines)
    : device_(weights.device()),
      what_(std::make_shared<std::string>(formatted("the graph '{}'", lowered.sized.graph.name))),
      weights_(weights),
      target_(target),
      lowered_(std::move(lowered)),
      plan_(std::move(plan)),
      rates_(rates_of(target.caps)) {
  for (int64_t bytes : plan_.buffers) {
    buffers_.push_back(create_storage(*device_, bytes, label_of(graph())));
  }
  for (size_t s = 0; s < lowered_.program.storages.size(); ++s) {
    const Storage& storage = lowered_.program.storages[s];
    if (!storage.table) continue;
    const Placement& place = plan_.placements[s];
    upload(*device_, buffer(place.buffer), place.offset, storage.table->dtype(), storage.table->bytes(),
           lowered_.program.names[static_cast<size_t>(storage.node)].name);
  }
  for (const Program::Work& work : lowered_.program.work) {
    Bound& bound = bound_.emplace_back(plan_.first_bound[work.first]);
    for (size_t i = 0; i <= work.count; ++i)
      bound.starts.push_back(plan_.first_bound[work.first + i] - bound.first);
    has_segments_ |= !work.code.empty();
  }
  commands_ = std::make_unique<Commands>(
      device_, std::move(plan_.dispatches), std::move(pipelines),
      [this](int32_t id) -> const gpu::Buffer& { return buffer(id); },
      Commands::StateIds{weights.weight_buffers(), weights.fixed_buffers()});
  expect();
  make_slots();
}

void DevicePlan::expect() {
  if (target_.longest_ns == 0) return;
  expected_ns_ = 0;
  for (size_t i = 0; i < dispatches().size(); ++i) expected_ns_ += expected_ns(i);
}

size_t DevicePlan::end_of_submit(std::span<const size_t> commands, size_t first, size_t count) const {
  const double longest = target_.longest_ns;
  if (longest == 0 || (commands.empty() && expected_ns_ <= longest)) return count;
  double ns = 0;
  for (size_t i = first; i < count; ++i) {
    ns += expected_ns(commands.empty() ? i : commands[i]);
    if (i > first && ns > longest) return i;
  }
  return count;
}

bool DevicePlan::is_too_long(size_t command) const {
  return target_.longest_ns > 0 && expected_ns(command) > target_.longest_ns;
}

const gpu::Buffer& DevicePlan::buffer(int32_t id) const {
  if (id >= plan_.fixed_buffers) return buffers_[static_cast<size_t>(id - plan_.fixed_buffers)];
  if (id < weights_.weight_buffers()) return weights_.buffer(id);
  if (!states_ || states_->context.expired())
    fail(ErrorKind::invalid_argument, "the states of the last run are gone with their context");
  return *states_->buffers[static_cast<size_t>(id - weights_.weight_buffers())];
}

void DevicePlan::select(const std::shared_ptr<const StateBuffers>& states) {
  states_ = states;
  commands_->select(states);
}

void DevicePlan::make_slots() {
  for (int32_t id = 0; id < graph().size(); ++id) {
    const Node& n = graph().node(id);
    if (!n.op->is(LeafKind::input)) continue;
    inputs_.push_back(
        {.name = n.name, .value = {id, 0}, .place = place_of(lowered_.program.values.at({id, 0}).storage)});
  }
  for (const Program::Output& out : lowered_.program.outputs)
    outputs_.push_back({.name = out.name, .value = out.value});
  size_slots();
}

void DevicePlan::size_slots() {
  for (InputSlot& slot : inputs_) {
    slot.type = graph().type(slot.value);
    const int64_t elements = slot.type.shape.elements().value();
    slot.host_bytes = host_bytes_of(slot.type.dtype, elements);
    slot.device_bytes = static_cast<uint64_t>(device_bytes_of(slot.type.dtype, elements));
  }
  for (OutputSlot& slot : outputs_) {
    const Operand& o = lowered_.program.values.at(slot.value);
    const Placement& place = place_of(o.storage);
    const auto elements = static_cast<uint64_t>(o.view.elements());
    slot.type = graph().type(slot.value);
    slot.dims = dims_of(slot.type.shape);
    slot.buffer = place.buffer;
    slot.offset =
        static_cast<uint64_t>(place.offset) + static_cast<uint64_t>(o.view.offset) * device_bytes(o.dtype);
    slot.device_bytes = elements * device_bytes(o.dtype);
    slot.host_bytes = elements * host_bytes(o.dtype);
  }
}

const DevicePlan::OutputSlot& DevicePlan::output(std::string_view name) const {
  const auto it = std::ranges::find(outputs_, name, &OutputSlot::name);
  if (it == outputs_.end()) {
    fail(ErrorKind::invalid_argument, "the graph '{}' has no output named '{}'", graph().name, name);
  }
  return *it;
}

Tensor DevicePlan::read_value(std::string_view node, int32_t output) const {
  const int32_t id = graph().find(node);
  if (id < 0) {
    fail(ErrorKind::invalid_argument,
         "the graph '{}' has no node named '{}' (after optimisation; nodes may have been fused)",
         graph().name, node);
  }
  const auto outputs = std::ssize(graph().node(id).outputs);
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

OverflowWords DevicePlan::overflow() const {
  if (lowered_.program.overflow < 0) return {};
  const Placement& place = place_of(lowered_.program.overflow);
  return {&buffer(place.buffer), static_cast<uint64_t>(place.offset), static_cast<uint64_t>(place.bytes)};
}

DevicePlan::Range DevicePlan::commands_of(size_t work, size_t first, size_t count) const {
  const Bound& bound = bound_[work];
  return {bound.first + bound.starts[first], bound.starts[first + count] - bound.starts[first]};
}

std::vector<StorageReport> DevicePlan::storages() const {
  const std::vector<Storage>& storages = lowered_.program.storages;
  const Lifetime always{0, static_cast<int32_t>(dispatches().size())};
  std::vector<StorageReport> out;
  for (size_t s = 0; s < plan_.placements.size(); ++s) {
    const Placement& at = plan_.placements[s];
    // What was added for other sizes has a buffer of its own, throughout.
    const Lifetime life = s < plan_.lives.size() ? plan_.lives[s] : always;
    if (at.buffer < plan_.fixed_buffers || !life.used()) continue;
    const Storage& storage = storages[s];
    if (storage.overflow) continue;
    out.push_back({.node = storage.node < 0 ? "" : names()[static_cast<size_t>(storage.node)].name,
                   .kind = storage.leaf    ? "input"
                           : storage.table ? "table"
                                           : "intermediate",
                   .buffer = at.buffer,
                   .offset = at.offset,
                   .bytes = at.bytes,
                   .first = life.first,
                   .last = life.last});
  }
  return out;
}

std::vector<std::string> DevicePlan::control() const {
  using enum Instruction::Kind;
  std::vector<std::string> out;
  for (size_t w = 0; w < work().size(); ++w) {
    const std::vector<Instruction>& code = work()[w].code;
    const auto commands_in = [&](size_t from, size_t to) {
      size_t first = SIZE_MAX;
      size_t end = 0;
      for (size_t i = from; i < to; ++i) {
        const Range r = code[i].kind == run ? commands_of(w, code[i].first, code[i].count) : Range{0, 0};
        if (r.count == 0) continue;
        first = std::min(first, r.first);
        end = std::max(end, r.first + r.count);
      }
      return end == 0 ? std::string("none") : formatted("{} to {}", first, end - 1);
    };
    const std::string& owner = graph().node(work()[w].node).name;
    for (size_t i = 0; i < code.size(); ++i) {
      const Instruction& in = code[i];
      if (in.kind == unless) {
        out.push_back(formatted("a branch of '{}': dispatches {}, or {}", owner,
                                commands_in(i + 1, in.target),
                                commands_in(in.target, code[in.target - 1].target)));
      } else if (in.kind == test) {
        const auto start = std::ranges::find_if(
            code, [&](const Instruction& b) { return b.kind == begin && b.loop == in.loop; });
        std::string limit = start->word != Instruction::kNoWord     ? ", as many as the graph computes"
                            : start->trips == Instruction::kNoLimit ? ""
                                                                    : formatted(", {} of them", start->trips);
        if (in.word != Instruction::kNoWord)
          limit += in.masked ? ", while a condition holds, read after 1, 2, 4 ... of them"
                             : ", while a condition holds, read after each";
        out.push_back(formatted("a loop of '{}': dispatches {} in each iteration{}", owner,
                                commands_in(i + 1, in.target), limit));
      } else if (in.kind == Instruction::Kind::size) {
        out.push_back(formatted("'{}' determines {}, at most {}", names()[static_cast<size_t>(in.name)].name,
                                in.symbol, in.capacity));
      }
    }
  }
  return out;
}

// Whether it writes memory that it also reads, in another storage, without being allowed to: the plan lets
// two storages share a place where that is right for the sizes for which it was made.
bool DevicePlan::overwrites_input(const Dispatch& d) const {
  const auto same_place = [&](const Operand& a, const Operand& b) {
    const Placement& p = place_of(a.storage);
    const Placement& q = place_of(b.storage);
    return a.storage != b.storage && p.buffer == q.buffer && p.offset < q.offset + q.bytes &&
           q.offset < p.offset + p.bytes;
  };
  for (size_t out = 0; out < d.operands.size(); ++out) {
    if (!d.operands[out].present() || !d.kernel->operands[out].out) continue;
    for (size_t in = 0; in < d.operands.size(); ++in) {
      if (!d.operands[in].present() || d.kernel->operands[in].out) continue;
      const Dispatch::InPlace pair{static_cast<int32_t>(out), static_cast<int32_t>(in)};
      if (same_place(d.operands[out], d.operands[in]) && !std::ranges::contains(d.in_place, pair))
        return true;
    }
  }
  return false;
}

// Nodes that need more intermediates than before have them in buffers of their own.
void DevicePlan::place_new_storages() {
  const std::vector<Storage>& storages = lowered_.program.storages;
  for (size_t s = plan_.placements.size(); s < storages.size(); ++s) {
    const auto id = plan_.fixed_buffers + static_cast<int32_t>(buffers_.size());
    buffers_.push_back(create_storage(*device_, storages[s].bytes, label_of(graph())));
    plan_.placements.push_back({id, 0, storages[s].bytes});
    if (const std::shared_ptr<const Tensor>& table = storages[s].table)
      upload(*device_, buffer(id), 0, table->dtype(), table->bytes(), graph().name);
  }
}

std::optional<std::string> DevicePlan::relower_nodes(const std::vector<int32_t>& nodes) {
  if (auto node = relower(lowered_.program, lowered_.sized, target_, nodes, false, relowering_))
    return formatted("'{}' does not fit in the memory that was planned", *node);
  place_new_storages();
  for (const Dispatch& d : relowering_.dispatches) {
    if (overwrites_input(d))
      return formatted("'{}' cannot work in place", names()[static_cast<size_t>(d.node)].name);
  }
  relowered_ += std::ssize(relowering_.nodes);
  for (Relowered::Node& node : relowering_.nodes) adopt(node);
  commands_->flush();
  expect();
  size_slots();
  return std::nullopt;
}

// Binds the dispatches as those of the node are bound so far; where that cannot be, by other pipelines.
void DevicePlan::adopt(Relowered::Node& node) {
  Bound& bound = bound_[node.work];
  const auto before = std::span(dispatches()).subspan(bound.first, bound.starts.back());
  std::vector<BoundDispatch>& now = rebound_;
  now.clear();
  starts_.assign(1, 0);
  for (const Dispatch& d : relowering_.of(node)) {
    const bool alike = now.size() < before.size() && before[now.size()].kernel == d.kernel;
    const Pattern* const like = alike ? &before[now.size()].pattern : nullptr;
    for (BoundDispatch& b : bind_dispatch(d, plan_.placements, device_->caps(), like))
      now.push_back(std::move(b));
    starts_.push_back(now.size());
  }
  const bool same = std::ranges::equal(now, before, [](const BoundDispatch& a, const BoundDispatch& b) {
    return a.kernel == b.kernel && a.pattern == b.pattern;
  });
  if (same) {
    for (size_t i = 0; i < now.size(); ++i) commands_->update(bound.first + i, std::move(now[i]));
  } else {
    const size_t replaced = before.size();
    const size_t count = now.size();
    commands_->replace(bound.first, replaced, std::move(now));
    for (size_t w = node.work + 1; w < bound_.size(); ++w) bound_[w].first += count - replaced;
  }
  bound.starts = starts_;
  lowered_.program.work[node.work].code = std::move(node.code);
}

std::optional<std::string> DevicePlan::retarget(const SymbolValues& values) {
  lowered_.bind(values, lowered_.changing);
  return relower_nodes(lowered_.changing);
}

void DevicePlan::set_run_symbol(const std::string& symbol, int64_t value) {
  constexpr int64_t kUnknown = -1;  // also after a failure, so that the next run lowers the nodes again
  int64_t& known = run_values_.try_emplace(symbol, kUnknown).first->second;
  if (std::exchange(known, kUnknown) == value) {
    known = value;
    return;
  }
  const std::vector<int32_t>& nodes = lowered_.run_symbols.at(symbol).changing;
  try {
    lowered_.bind({{symbol, value}}, nodes);
  } catch (const Error& e) {
    run_values_.erase(symbol);  // the nodes fit no value now
    throw e.within(
        formatted("'{}' makes the symbol '{}' {}", lowered_.run_symbols.at(symbol).node, symbol, value));
  }
  if (auto reason = relower_nodes(nodes)) {
    fail(ErrorKind::internal, "the plan was made for every value of '{}' up to its capacity, but for {} {}",
         symbol, value, *reason);
  }
  commands_->select(states_);  // some may be bound anew
  known = value;
}

}  // namespace rlx
