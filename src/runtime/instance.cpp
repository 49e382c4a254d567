#include "runtime/instance.h"

#include <algorithm>
#include <cstring>

#include "ir/op.h"

namespace rlx {
namespace {

std::vector<Placement> fixed_placements(const Program& program, const Graph& graph, const Weights& weights) {
  std::vector<Placement> fixed(program.storages.size());
  for (size_t s = 0; s < fixed.size(); ++s) {
    const Storage& storage = program.storages[s];
    if (storage.kind == Storage::Kind::temp || storage.kind == Storage::Kind::input) continue;
    const Weights::Entry* entry = weights.find(graph.node(storage.node).name);
    check(entry != nullptr, "every param, constant and state has a place");
    fixed[s] = entry->place;
  }
  return fixed;
}

// Each dispatch has a slot for the words of its views and one for its own parameters.
uint64_t slot_bytes(size_t bytes) {
  return static_cast<uint64_t>(round_up(static_cast<int64_t>(bytes), kBindingAlignment));
}

}  // namespace

Instance::Instance(std::shared_ptr<gpu::Device> device, const Weights& weights, Graph graph, Program program,
                   const PlanOptions& options)
    : device_(std::move(device)),
      fixed_(weights.buffers()),
      graph_(std::move(graph)),
      program_(std::move(program)) {
  plan_ = make_plan(program_, fixed_placements(program_, graph_, weights),
                    static_cast<int32_t>(fixed_.size()), device_->caps(), options);
  for (int64_t bytes : plan_.buffers) {
    buffers_.push_back(device_->create_buffer(
        gpu::BufferUse::storage, static_cast<uint64_t>(std::max<int64_t>(bytes, 256)), graph_.name));
  }
  create_pipelines();
  read_slots();
}

const gpu::Buffer& Instance::buffer(int32_t id) const {
  return id < plan_.fixed_buffers ? fixed_[static_cast<size_t>(id)]
                                  : buffers_[static_cast<size_t>(id - plan_.fixed_buffers)];
}

void Instance::create_pipelines() {
  std::vector<const BoundDispatch*> all;
  for (const BoundDispatch& d : plan_.load) all.push_back(&d);
  for (const BoundDispatch& d : plan_.main) all.push_back(&d);
  std::vector<gpu::PipelineRequest> requests;
  uint64_t uniform_size = 0;
  for (const BoundDispatch* d : all) {
    gpu::PipelineRequest request{
        .label = d->kernel->name, .wgsl = module_text(*d->kernel, d->pattern), .bindings = {}};
    request.bindings = {gpu::BindingKind::uniform, gpu::BindingKind::uniform};
    for (const BindingPattern& b : d->pattern.bindings) {
      request.bindings.push_back(b.writable ? gpu::BindingKind::read_write : gpu::BindingKind::read);
    }
    requests.push_back(std::move(request));
    uniform_size += slot_bytes(d->views.size() * 4) + slot_bytes(d->params.size());
  }
  pipelines_ = device_->pipelines(requests);
  uniforms_ = device_->create_buffer(gpu::BufferUse::uniform,
                                     std::max<uint64_t>(uniform_size, kBindingAlignment), "params");
  uniform_bytes_.resize(uniform_size);
  write_uniforms();

  uint64_t offset = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    uniform_offsets_.push_back(offset);
    groups_.push_back(make_group(i, *all[i]));
    offset += slot_bytes(all[i]->views.size() * 4) + slot_bytes(all[i]->params.size());
  }
  for (size_t i = 0; i < all.size(); ++i) {
    (i < plan_.load.size() ? load_ : main_)
        .push_back({&pipelines_[i], &groups_[i], all[i]->grid[0], all[i]->grid[1], all[i]->grid[2]});
  }
}

gpu::BindGroup Instance::make_group(size_t index, const BoundDispatch& d) {
  const uint64_t views = uniform_offsets_[index];
  const uint64_t params = d.params.empty() ? views : views + slot_bytes(d.views.size() * 4);
  std::vector<gpu::BufferRange> ranges = {
      {&uniforms_, views, d.views.size() * 4},
      // A kernel without parameters declares no binding 1; the layout has one all the same.
      {&uniforms_, params, d.params.empty() ? d.views.size() * 4 : d.params.size()},
  };
  for (const BoundRange& r : d.ranges) {
    ranges.push_back({&buffer(r.buffer), static_cast<uint64_t>(r.offset), static_cast<uint64_t>(r.bytes)});
  }
  return device_->bind_group(pipelines_[index], ranges);
}

void Instance::write_uniforms() {
  uint64_t offset = 0;
  const auto put = [&](const BoundDispatch& d) {
    std::memcpy(uniform_bytes_.data() + offset, d.views.data(), d.views.size() * 4);
    offset += slot_bytes(d.views.size() * 4);
    if (!d.params.empty()) std::memcpy(uniform_bytes_.data() + offset, d.params.data(), d.params.size());
    offset += slot_bytes(d.params.size());
  };
  for (const BoundDispatch& d : plan_.load) put(d);
  for (const BoundDispatch& d : plan_.main) put(d);
  if (!uniform_bytes_.empty()) device_->write(uniforms_, 0, uniform_bytes_);
}

void Instance::read_slots() {
  inputs_.clear();
  outputs_.clear();
  for (const Node& n : graph_.nodes()) {
    if (n.op->name() != Input::kName) continue;
    const ValueId v{graph_.find(n.name), 0};
    const Placement& place = plan_.placements[static_cast<size_t>(program_.values.at(v).storage)];
    inputs_.push_back({n.name, n.outputs[0], place, false});
  }
  for (size_t i = 0; i < program_.outputs.size(); ++i) {
    const Operand& o = program_.outputs[i].operand;
    const TensorType& type = graph_.type(graph_.outputs()[i].value);
    const Placement& place = plan_.placements[static_cast<size_t>(o.storage)];
    const auto elements = static_cast<uint64_t>(o.view.elements());
    outputs_.push_back(
        {program_.outputs[i].name, type, type.shape.values(), place.buffer,
         static_cast<uint64_t>(place.offset) + static_cast<uint64_t>(o.view.offset) * device_bytes(o.dtype),
         elements * device_bytes(o.dtype), elements * host_bytes(o.dtype)});
  }
}

void Instance::load(const Weights& weights) {
  if (loaded_version_ == weights.version()) return;
  if (!load_.empty()) device_->submit({.dispatches = load_});
  loaded_version_ = weights.version();
}

// Whether the dispatch works on the memory of `planned`: the same storages, and where the plan lets two of
// them share a place, that must still be allowed.
bool Instance::same_memory(const Dispatch& planned, const Dispatch& now) const {
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

bool Instance::retarget(const Graph& graph, const Program& program) {
  if (program.storages.size() != program_.storages.size()) return false;
  for (size_t s = 0; s < program.storages.size(); ++s) {
    if (program.storages[s].kind != program_.storages[s].kind) return false;
    if (program.storages[s].bytes > plan_.placements[s].bytes && plan_.placements[s].buffer >= 0)
      return false;
  }
  const auto same = [&](const Dispatch& a, const Dispatch& b) { return same_memory(a, b); };
  if (!std::ranges::equal(program_.load, program.load, same) ||
      !std::ranges::equal(program_.main, program.main, same)) {
    return false;
  }
  const auto bind_all = [&](const std::vector<Dispatch>& dispatches, const std::vector<BoundDispatch>& like,
                            std::vector<BoundDispatch>& into) {
    for (const Dispatch& d : dispatches) {
      if (into.size() >= like.size()) return false;
      for (BoundDispatch& b :
           bind_dispatch(d, plan_.placements, device_->caps(), &like[into.size()].pattern)) {
        const size_t i = into.size();
        if (i >= like.size() || b.kernel->source != like[i].kernel->source || !(b.pattern == like[i].pattern))
          return false;
        into.push_back(std::move(b));
      }
    }
    return into.size() == like.size();
  };
  std::vector<BoundDispatch> load;
  std::vector<BoundDispatch> main;
  if (!bind_all(program.load, plan_.load, load) || !bind_all(program.main, plan_.main, main)) return false;
  adopt(plan_.load, load, 0, load_);
  adopt(plan_.main, main, load.size(), main_);
  const auto same_work = [](const BoundDispatch& a, const BoundDispatch& b) {
    return a.views == b.views && a.params == b.params && a.ranges == b.ranges;
  };
  if (!std::ranges::equal(load, plan_.load, same_work)) loaded_version_ = 0;
  plan_.load = std::move(load);
  plan_.main = std::move(main);
  // The dispatches that were planned stay, for same_memory; sizes and outputs are those of now.
  program_.values = program.values;
  program_.outputs = program.outputs;
  graph_ = graph;
  write_uniforms();
  std::vector<InputSlot> before = std::move(inputs_);
  read_slots();
  for (size_t i = 0; i < inputs_.size(); ++i) inputs_[i].resident = before[i].resident;
  return true;
}

// Takes over the grids of `now`, and its ranges where those that are bound do not hold all that is touched.
void Instance::adopt(const std::vector<BoundDispatch>& bound, std::vector<BoundDispatch>& now, size_t first,
                     std::vector<gpu::Dispatch>& encoded) {
  for (size_t i = 0; i < now.size(); ++i) {
    encoded[i].x = now[i].grid[0];
    encoded[i].y = now[i].grid[1];
    encoded[i].z = now[i].grid[2];
    const bool holds =
        std::ranges::equal(now[i].ranges, bound[i].ranges, [](const BoundRange& a, const BoundRange& b) {
          return a.buffer == b.buffer && a.offset == b.offset && a.bytes <= b.bytes;
        });
    if (holds) {
      now[i].ranges = bound[i].ranges;
    } else {
      groups_[first + i] = make_group(first + i, now[i]);
    }
  }
}

}  // namespace rlx
