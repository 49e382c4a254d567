#include "runtime/device_plan.h"

#include <algorithm>
#include <cstring>

#include "base/fail.h"
#include "ir/op.h"
#include "ir/reference.h"
#include "runtime/transfer.h"

namespace rlx {
namespace {

// Each dispatch has a slot for the words of its views and one for its own parameters.
uint64_t slot_bytes(size_t bytes) {
  return static_cast<uint64_t>(round_up(static_cast<int64_t>(bytes), kBindingAlignment));
}

bool same_table(const Storage& a, const Storage& b) {
  return a.table && b.table ? *a.table == *b.table : !a.table && !b.table;
}

}  // namespace

DevicePlan::DevicePlan(std::shared_ptr<gpu::Device> device, const Weights& weights, Graph graph,
                       Program program, Plan plan)
    : device_(std::move(device)),
      fixed_(weights.buffers()),
      graph_(std::move(graph)),
      program_(std::move(program)),
      plan_(std::move(plan)) {
  for (int64_t bytes : plan_.buffers) {
    buffers_.push_back(device_->create_buffer(
        gpu::BufferUse::storage, static_cast<uint64_t>(std::max<int64_t>(bytes, 256)), graph_.name));
  }
  for (size_t s = 0; s < program_.storages.size(); ++s) {
    const Storage& storage = program_.storages[s];
    if (!storage.table) continue;
    const Placement& place = plan_.placements[s];
    upload(*device_, buffer(place.buffer), place.offset, storage.table->dtype(), storage.table->bytes(),
           graph_.node(storage.node).name);
  }
  create_steps();
  read_slots();
}

const gpu::Buffer& DevicePlan::buffer(int32_t id) const {
  return id < plan_.fixed_buffers ? fixed_[static_cast<size_t>(id)]
                                  : buffers_[static_cast<size_t>(id - plan_.fixed_buffers)];
}

void DevicePlan::create_steps() {
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
    Step& step = steps_.emplace_back();
    step.views_offset = uniform_size;
    step.params_offset = uniform_size += slot_bytes(d->views.size() * 4);
    uniform_size += slot_bytes(d->params.size());
  }
  uniforms_ = device_->create_buffer(gpu::BufferUse::uniform,
                                     std::max<uint64_t>(uniform_size, kBindingAlignment), "params");
  uniform_bytes_.resize(uniform_size);
  write_uniforms();
  std::vector<gpu::Pipeline> pipelines = device_->pipelines(requests);
  for (size_t i = 0; i < all.size(); ++i) {
    Step& step = steps_[i];
    step.pipeline = std::move(pipelines[i]);
    step.group = make_group(step, *all[i]);
    commands_.push_back({&step.pipeline, &step.group, all[i]->grid[0], all[i]->grid[1], all[i]->grid[2]});
  }
}

gpu::BindGroup DevicePlan::make_group(const Step& step, const BoundDispatch& d) {
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
    ranges.push_back({&buffer(r.buffer), static_cast<uint64_t>(r.offset), static_cast<uint64_t>(r.bytes)});
  }
  return device_->bind_group(step.pipeline, ranges);
}

void DevicePlan::write_uniforms() {
  const auto put = [&](const Step& step, const BoundDispatch& d) {
    std::memcpy(uniform_bytes_.data() + step.views_offset, d.views.data(), d.views.size() * 4);
    if (!d.params.empty())
      std::memcpy(uniform_bytes_.data() + step.params_offset, d.params.data(), d.params.size());
  };
  size_t i = 0;
  for (const BoundDispatch& d : plan_.load) put(steps_[i++], d);
  for (const BoundDispatch& d : plan_.main) put(steps_[i++], d);
  if (!uniform_bytes_.empty()) device_->write(uniforms_, 0, uniform_bytes_);
}

void DevicePlan::read_slots() {
  inputs_.clear();
  outputs_.clear();
  for (const Node& n : graph_.nodes()) {
    if (!n.op->is(LeafKind::input)) continue;
    const ValueId v{graph_.find(n.name), 0};
    const Placement& place = plan_.placements[static_cast<size_t>(program_.values.at(v).storage)];
    const TensorType& type = n.outputs[0];
    inputs_.push_back({n.name, type, place, host_bytes_of(type.dtype, type.shape.elements().value()), false});
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

const DevicePlan::OutputSlot& DevicePlan::output(std::string_view name) const {
  const auto it = std::ranges::find(outputs_, name, &OutputSlot::name);
  if (it == outputs_.end()) {
    fail(ErrorKind::invalid_argument, "the graph '{}' has no output named '{}'", graph_.name, name);
  }
  return *it;
}

Tensor DevicePlan::read_value(std::string_view node, int32_t output) const {
  const int32_t id = graph_.find(node);
  if (id < 0) {
    fail(ErrorKind::invalid_argument,
         "the graph '{}' has no node named '{}' (after optimisation; nodes may have been fused)", graph_.name,
         node);
  }
  const auto outputs = std::ssize(graph_.node(id).outputs);
  if (output < 0 || output >= outputs) {
    fail(ErrorKind::invalid_argument, "output {} was requested from the node '{}', which has {}", output,
         node, outputs);
  }
  const Operand& o = program_.values.at({id, output});
  const Placement& place = plan_.placements[static_cast<size_t>(o.storage)];
  // Reads the whole storage and applies the view here.
  std::vector<std::byte> raw(static_cast<size_t>(place.bytes));
  if (place.buffer >= 0) device_->read(buffer(place.buffer), static_cast<uint64_t>(place.offset), raw);
  if (is_encoded(o.dtype)) {
    const int64_t elements = device_elements_in(o.dtype, place.bytes);
    raw.resize(host_bytes_of(o.dtype, elements));
    const std::vector<double> values = Tensor(o.dtype, {elements}, std::move(raw)).doubles();
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

void DevicePlan::load(const Weights& weights) {
  if (loaded_version_ == weights.version()) return;
  const auto load = std::span(commands_).first(plan_.load.size());
  if (!load.empty()) device_->submit({.dispatches = load});
  loaded_version_ = weights.version();
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

bool DevicePlan::retarget(const Graph& graph, const Program& program) {
  if (program.storages.size() != program_.storages.size()) return false;
  for (size_t s = 0; s < program.storages.size(); ++s) {
    const Storage& now = program.storages[s];
    const Storage& planned = program_.storages[s];
    if (now.leaf != planned.leaf || !same_table(now, planned)) return false;
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
        if (i >= like.size() || b.kernel != like[i].kernel || !(b.pattern == like[i].pattern)) return false;
        into.push_back(std::move(b));
      }
    }
    return into.size() == like.size();
  };
  std::vector<BoundDispatch> load;
  std::vector<BoundDispatch> main;
  if (!bind_all(program.load, plan_.load, load) || !bind_all(program.main, plan_.main, main)) return false;
  adopt(plan_.load, load, 0);
  adopt(plan_.main, main, load.size());
  const auto same_work = [](const BoundDispatch& a, const BoundDispatch& b) {
    return a.views == b.views && a.params == b.params && a.ranges == b.ranges;
  };
  if (!std::ranges::equal(load, plan_.load, same_work)) loaded_version_ = 0;
  plan_.load = std::move(load);
  plan_.main = std::move(main);
  // The planned dispatches stay, for same_memory; sizes and outputs are the new ones.
  program_.values = program.values;
  program_.outputs = program.outputs;
  graph_ = graph;
  write_uniforms();
  std::vector<InputSlot> before = std::move(inputs_);
  read_slots();
  for (size_t i = 0; i < inputs_.size(); ++i) inputs_[i].resident = before[i].resident;
  return true;
}

// Adopts the grids of `now`, and its ranges where those bound so far do not cover them.
void DevicePlan::adopt(const std::vector<BoundDispatch>& bound, std::vector<BoundDispatch>& now,
                       size_t first) {
  for (size_t i = 0; i < now.size(); ++i) {
    Step& step = steps_[first + i];
    commands_[first + i] = {&step.pipeline, &step.group, now[i].grid[0], now[i].grid[1], now[i].grid[2]};
    const bool holds =
        std::ranges::equal(now[i].ranges, bound[i].ranges, [](const BoundRange& a, const BoundRange& b) {
          return a.buffer == b.buffer && a.offset == b.offset && a.bytes <= b.bytes;
        });
    if (holds) {
      now[i].ranges = bound[i].ranges;
    } else {
      step.group = make_group(step, now[i]);
    }
  }
}

}  // namespace rlx
