#include "runtime/commands.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "base/checked.h"
#include "base/fail.h"

namespace rlx {
namespace {

// Each dispatch has a slot for the words of its views and one for its own parameters.
uint64_t slot_bytes(size_t bytes) {
  return static_cast<uint64_t>(round_up(static_cast<int64_t>(bytes), kBindingAlignment));
}

}  // namespace

Commands::Requests Commands::requests(std::span<const BoundDispatch> dispatches) {
  struct Known {
    const Pattern* pattern;
    size_t request;
  };
  std::unordered_map<const Kernel*, std::vector<Known>> known;  // to write no text twice: it takes a while
  Requests out;
  for (const BoundDispatch& d : dispatches) {
    std::vector<Known>& of_kernel = known[d.kernel.get()];
    const auto like =
        std::ranges::find_if(of_kernel, [&](const Known& k) { return *k.pattern == d.pattern; });
    if (like != of_kernel.end()) {
      out.of.push_back(like->request);
      continue;
    }
    of_kernel.push_back({&d.pattern, out.all.size()});
    out.of.push_back(out.all.size());
    gpu::PipelineRequest& request = out.all.emplace_back(d.kernel->name, module_text(*d.kernel, d.pattern));
    request.bindings = {gpu::BindingKind::uniform, gpu::BindingKind::uniform};
    for (const BindingPattern& b : d.pattern.bindings)
      request.bindings.push_back(b.writable ? gpu::BindingKind::read_write : gpu::BindingKind::read);
  }
  return out;
}

namespace {

std::vector<gpu::Pipeline> for_each(const std::vector<size_t>& of, const std::vector<gpu::Pipeline>& made) {
  std::vector<gpu::Pipeline> out;
  for (const size_t i : of) out.push_back(made[i]);
  return out;
}

}  // namespace

std::vector<gpu::Pipeline> Commands::pipelines(gpu::Device& device,
                                               std::span<const BoundDispatch> dispatches) {
  Requests wanted = requests(dispatches);
  return for_each(wanted.of, device.pipelines(std::move(wanted.all)));
}

Commands::Step Commands::next_step(const BoundDispatch& d, uint64_t& bytes) {
  Step step;
  step.views_offset = bytes;
  step.params_offset = bytes += slot_bytes(d.views.size() * 4);
  step.end = bytes += slot_bytes(d.params.size());
  return step;
}

Commands::Commands(std::shared_ptr<gpu::Device> device, std::vector<BoundDispatch> dispatches,
                   std::vector<gpu::Pipeline> pipelines, FindBuffer buffer, StateIds states)
    : device_(std::move(device)),
      buffer_(std::move(buffer)),
      dispatches_(std::move(dispatches)),
      state_ids_(states) {
  uint64_t size = 0;
  for (const BoundDispatch& d : dispatches_) steps_.push_back(next_step(d, size));
  if (dispatches_.empty()) return;
  uniforms_ = device_->create_buffer(gpu::BufferUse::uniform, size, "params");
  uniform_bytes_.resize(size);
  for (size_t i = 0; i < steps_.size(); ++i) put(i);
  flush();
  for (size_t i = 0; i < steps_.size(); ++i) {
    steps_[i].pipeline = std::move(pipelines[i]);
    if (!uses_states(dispatches_[i])) steps_[i].group = make_group(steps_[i], dispatches_[i]);
  }
  list_commands();
}

bool Commands::uses_states(const BoundDispatch& d) const {
  return std::ranges::any_of(d.ranges, [&](const BoundRange& r) {
    return r.buffer >= state_ids_.first && r.buffer < state_ids_.end;
  });
}

// Those of all contexts: they are for other dispatches than the ones there are now.
void Commands::drop_state_groups() {
  states_.reset();
  parked_.clear();
}

void Commands::select(const std::shared_ptr<const StateBuffers>& states) {
  if (states_ == states || state_steps_.empty()) return;
  // Groups may name memory that is gone: of a context that is gone, or that has other memory now.
  const std::shared_ptr<Context::Impl> context = states->context.lock();
  std::erase_if(parked_, [&](const Parked& p) {
    const std::shared_ptr<Context::Impl> other = p.states->context.lock();
    return !other || (other == context && p.states != states);
  });
  auto known = std::ranges::find(parked_, states, &Parked::states);
  if (known == parked_.end()) {
    Parked made{states, {}};
    for (const size_t i : state_steps_) made.groups.push_back(make_group(steps_[i], dispatches_[i]));
    parked_.push_back(std::move(made));
    known = parked_.end() - 1;
  }
  // What was bound so far takes the place of what is bound now.
  for (size_t i = 0; i < state_steps_.size(); ++i) std::swap(steps_[state_steps_[i]].group, known->groups[i]);
  if (states_) {
    known->states = states_;
  } else {
    parked_.erase(known);
  }
  states_ = states;
}

void Commands::list_commands() {
  commands_.clear();
  state_steps_.clear();
  for (size_t i = 0; i < steps_.size(); ++i) {
    const BoundDispatch& d = dispatches_[i];
    commands_.push_back({&steps_[i].pipeline, &steps_[i].group, d.grid[0], d.grid[1], d.grid[2]});
    if (uses_states(d)) state_steps_.push_back(i);
  }
}

void Commands::replace(size_t first, size_t count, std::vector<BoundDispatch> dispatches) {
  std::vector<Step> steps;
  for (const BoundDispatch& d : dispatches) {
    uint64_t size = 0;
    steps.push_back(next_step(d, size));
    steps.back().uniforms =
        std::make_shared<gpu::Buffer>(device_->create_buffer(gpu::BufferUse::uniform, size, "params"));
  }
  std::vector<gpu::Pipeline> made = pipelines(*device_, dispatches);
  for (size_t i = 0; i < steps.size(); ++i) {
    steps[i].pipeline = std::move(made[i]);
    if (!uses_states(dispatches[i])) steps[i].group = make_group(steps[i], dispatches[i]);
  }
  const auto exchange = [&](auto& all, auto& with) {
    const auto at = all.begin() + static_cast<int64_t>(first);
    const auto rest = all.erase(at, at + static_cast<int64_t>(count));
    all.insert(rest, std::make_move_iterator(with.begin()), std::make_move_iterator(with.end()));
  };
  const size_t added = steps.size();
  exchange(steps_, steps);
  exchange(dispatches_, dispatches);
  for (size_t i = first; i < first + added; ++i) put(i);
  drop_state_groups();
  list_commands();
}

gpu::BindGroup Commands::make_group(const Step& step, const BoundDispatch& d) {
  const gpu::Buffer* const uniforms = step.uniforms ? step.uniforms.get() : &uniforms_;
  const size_t views_bytes = d.views.size() * 4;
  std::vector<gpu::BufferRange> ranges = {{uniforms, step.views_offset, views_bytes}};
  if (d.params.empty()) {
    ranges.push_back(ranges[0]);  // a kernel without parameters declares no binding 1; the layout has one
  } else {
    // A struct with vectors ends at a multiple of 16.
    const int64_t bytes = round_up(static_cast<int64_t>(d.params.size()), 16);
    ranges.push_back({uniforms, step.params_offset, static_cast<uint64_t>(bytes)});
  }
  for (const BoundRange& r : d.ranges) {
    ranges.push_back({&buffer_(r.buffer), static_cast<uint64_t>(r.offset), static_cast<uint64_t>(r.bytes)});
  }
  return device_->bind_group(step.pipeline, ranges);
}

void Commands::put(size_t i) {
  const Step& step = steps_[i];
  const BoundDispatch& d = dispatches_[i];
  if (step.uniforms) {
    device_->write(*step.uniforms, step.views_offset, std::as_bytes(std::span(d.views)));
    if (!d.params.empty()) device_->write(*step.uniforms, step.params_offset, d.params);
    return;
  }
  std::memcpy(uniform_bytes_.data() + step.views_offset, d.views.data(), d.views.size() * 4);
  if (!d.params.empty())
    std::memcpy(uniform_bytes_.data() + step.params_offset, d.params.data(), d.params.size());
  const bool none = changed_begin_ == changed_end_;
  changed_begin_ = none ? step.views_offset : std::min(changed_begin_, step.views_offset);
  changed_end_ = none ? step.end : std::max(changed_end_, step.end);
}

void Commands::flush() {
  if (changed_begin_ == changed_end_) return;
  const auto changed = std::span(uniform_bytes_).subspan(changed_begin_, changed_end_ - changed_begin_);
  device_->write(uniforms_, changed_begin_, changed);
  changed_begin_ = changed_end_ = 0;
}

void Commands::update(size_t i, BoundDispatch now) {
  BoundDispatch& d = dispatches_[i];
  Step& step = steps_[i];
  // What is bound stays bound if it covers the new ranges.
  const bool holds = std::ranges::equal(now.ranges, d.ranges, [](const BoundRange& a, const BoundRange& b) {
    return a.buffer == b.buffer && a.offset == b.offset && a.bytes <= b.bytes;
  });
  if (holds) now.ranges = std::move(d.ranges);
  const bool same_words = now.views == d.views && now.params == d.params;
  d = std::move(now);
  if (!holds && uses_states(d)) {
    drop_state_groups();
  } else if (!holds) {
    step.group = make_group(step, d);
  }
  commands_[i] = {&step.pipeline, &step.group, d.grid[0], d.grid[1], d.grid[2]};
  if (!same_words) put(i);
}

Task<std::vector<gpu::Pipeline>> make_pipelines(gpu::Device& device,
                                                std::span<const BoundDispatch> dispatches,
                                                const std::vector<Program::NodeName>& names) {
  Commands::Requests wanted = Commands::requests(dispatches);
  gpu::PipelineBatch batch = device.start_pipelines(std::move(wanted.all));
  try {
    co_await batch;
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::invalid_argument && e.kind() != ErrorKind::internal) throw;
    const auto first = std::ranges::find(wanted.of, batch.failed()) - wanted.of.begin();
    const BoundDispatch& failed = dispatches[static_cast<size_t>(first)];
    throw e.within(formatted("'{}'", names[static_cast<size_t>(failed.node)].name));
  }
  co_return for_each(wanted.of, batch.take());
}

}  // namespace rlx
