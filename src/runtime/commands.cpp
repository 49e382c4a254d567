#include "runtime/commands.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"

namespace rlx {
namespace {

// Each dispatch has a slot for the words of its views and one for its own parameters.
uint64_t slot_bytes(size_t bytes) {
  return static_cast<uint64_t>(round_up(static_cast<int64_t>(bytes), kBindingAlignment));
}

}  // namespace

Commands::Commands(std::shared_ptr<gpu::Device> device, std::vector<BoundDispatch> dispatches,
                   FindBuffer buffer)
    : device_(std::move(device)), buffer_(std::move(buffer)), dispatches_(std::move(dispatches)) {
  std::vector<gpu::PipelineRequest> requests;
  uint64_t size = 0;
  for (const BoundDispatch& d : dispatches_) {
    gpu::PipelineRequest request{
        .label = d.kernel->name, .wgsl = module_text(*d.kernel, d.pattern), .bindings = {}};
    request.bindings = {gpu::BindingKind::uniform, gpu::BindingKind::uniform};
    for (const BindingPattern& b : d.pattern.bindings) {
      request.bindings.push_back(b.writable ? gpu::BindingKind::read_write : gpu::BindingKind::read);
    }
    requests.push_back(std::move(request));
    Step& step = steps_.emplace_back();
    step.views_offset = size;
    step.params_offset = size += slot_bytes(d.views.size() * 4);
    step.end = size += slot_bytes(d.params.size());
  }
  if (dispatches_.empty()) return;
  uniforms_ = device_->create_buffer(gpu::BufferUse::uniform, size, "params");
  uniform_bytes_.resize(size);
  for (size_t i = 0; i < steps_.size(); ++i) put(i);
  flush();
  std::vector<gpu::Pipeline> pipelines = device_->pipelines(requests);
  for (size_t i = 0; i < steps_.size(); ++i) {
    Step& step = steps_[i];
    const BoundDispatch& d = dispatches_[i];
    step.pipeline = std::move(pipelines[i]);
    step.group = make_group(step, d);
    commands_.push_back({&step.pipeline, &step.group, d.grid[0], d.grid[1], d.grid[2]});
  }
}

gpu::BindGroup Commands::make_group(const Step& step, const BoundDispatch& d) {
  const size_t views_bytes = d.views.size() * 4;
  std::vector<gpu::BufferRange> ranges = {{&uniforms_, step.views_offset, views_bytes}};
  if (d.params.empty()) {
    ranges.push_back(ranges[0]);  // a kernel without parameters declares no binding 1; the layout has one
  } else {
    // A struct with vectors ends at a multiple of 16.
    const int64_t bytes = round_up(static_cast<int64_t>(d.params.size()), 16);
    ranges.push_back({&uniforms_, step.params_offset, static_cast<uint64_t>(bytes)});
  }
  for (const BoundRange& r : d.ranges) {
    ranges.push_back({&buffer_(r.buffer), static_cast<uint64_t>(r.offset), static_cast<uint64_t>(r.bytes)});
  }
  return device_->bind_group(step.pipeline, ranges);
}

void Commands::put(size_t i) {
  const Step& step = steps_[i];
  const BoundDispatch& d = dispatches_[i];
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
  if (!holds) step.group = make_group(step, d);
  commands_[i] = {&step.pipeline, &step.group, d.grid[0], d.grid[1], d.grid[2]};
  if (!same_words) put(i);
}

}  // namespace rlx
