// How an executable runs: inputs in, submits, outputs out.
#include <algorithm>
#include <cstring>

#include "base/border.h"
#include "base/fail.h"
#include "runtime/executable.h"
#include "runtime/run.h"
#include "runtime/transfer.h"

namespace rlx {

namespace {

bool is_shape(const Shape& shape, const std::vector<int64_t>& sizes) {
  return std::ranges::equal(sizes, shape, [](int64_t size, const Dim& dim) { return dim.is(size); });
}

void check_input(const DevicePlan::InputSlot& slot, const InputRef& given, const gpu::Device& device) {
  if (given.dtype != slot.type.dtype) {
    fail(ErrorKind::invalid_argument, "the input '{}' has type {}, but {} values were given", slot.name,
         to_string(slot.type.dtype), to_string(given.dtype));
  }
  if (!given.shape.empty() && !is_shape(slot.type.shape, given.shape)) {
    fail(ErrorKind::invalid_argument, "the input '{}' is {}, but {} was given", slot.name,
         slot.type.shape.text(), Shape(given.shape).text());
  }
  if (given.on_device) {
    const DeviceTensor::Impl& tensor = DeviceTensorAccess::get(*given.on_device);
    if (tensor.device.get() != &device)
      fail(ErrorKind::invalid_argument, "the tensor for the input '{}' is on another device", slot.name);
    if (!is_shape(slot.type.shape, tensor.shape)) {
      fail(ErrorKind::invalid_argument, "the input '{}' is {}, but {} was given", slot.name,
           slot.type.shape.text(), Shape(tensor.shape).text());
    }
    return;
  }
  if (given.bytes != slot.host_bytes) {
    fail(ErrorKind::invalid_argument, "the input '{}' is {}, {} bytes, but {} bytes were given", slot.name,
         slot.type.text(), slot.host_bytes, given.bytes);
  }
  if (!given.data && given.bytes > 0)
    fail(ErrorKind::invalid_argument, "the input '{}' has {} bytes at a null pointer", slot.name,
         given.bytes);
}

std::span<const std::byte> bytes_of(const InputRef& given) {
  return {static_cast<const std::byte*>(given.data), given.bytes};
}

}  // namespace

void Executable::Impl::prepare(DevicePlan& plan, List<InputRef> inputs,
                               const std::shared_ptr<Context::Impl>& context) {
  const auto given = [&](const DevicePlan::InputSlot& slot) {
    return std::ranges::find(inputs, slot.name, &InputRef::name);
  };
  const auto copy = [&](const DeviceTensor& tensor, const DevicePlan::InputSlot& slot) {
    const DeviceTensor::Impl& from = DeviceTensorAccess::get(tensor);
    if (from.bytes() == 0) return;
    before.push_back({&from.buffer, 0, &plan.buffer(slot.place.buffer),
                      static_cast<uint64_t>(slot.place.offset), from.bytes()});
  };
  for (const DevicePlan::InputSlot& slot : plan.inputs()) {
    if (const auto it = given(slot); it != inputs.end()) {
      check_input(slot, *it, *loaded->store->device);
      if (it->on_device) {
        copy(*it->on_device, slot);
      } else {
        check_elements(slot.type.dtype, bytes_of(*it), slot.name);
      }
    } else if (const DeviceTensor* const fed = fed_to(slot)) {
      copy(*fed, slot);
    } else {
      fail(ErrorKind::invalid_argument, "the input '{}' ({}) was not given", slot.name, slot.type.text());
    }
  }
  loaded->weights.finish_loading();
  plan.select(loaded->store->with_room([&] { return loaded->weights.states_in(context); }));
  for (const DevicePlan::InputSlot& slot : plan.inputs()) {
    const auto it = given(slot);
    if (it == inputs.end() || it->on_device) continue;
    write_elements(*loaded->compiled.device, plan.buffer(slot.place.buffer), slot.place.offset,
                   slot.type.dtype, bytes_of(*it));
  }
  loaded->weights.wrote_params();  // whoever reads them next does so after this run
}

// What an earlier run has left for the input, if it has the size of this run's.
const DeviceTensor* Executable::Impl::fed_to(const DevicePlan::InputSlot& slot) const {
  if (loaded->compiled.options.force_input_upload) return nullptr;
  const auto feed = std::ranges::find(feeds, slot.name, &Feed::input);
  const bool fits = feed != feeds.end() && feed->value && feed->value->dtype() == slot.type.dtype &&
                    is_shape(slot.type.shape, feed->value->shape());
  return fits ? &*feed->value : nullptr;
}

void Executable::Impl::add_readback(const DevicePlan& plan, const DevicePlan::OutputSlot& slot,
                                    uint64_t& total) {
  const uint64_t bytes = readback_bytes(slot.device_bytes);
  if (bytes > 0) copies.push_back({&plan.buffer(slot.buffer), slot.offset, nullptr, total, bytes});
  total += bytes;
}

uint64_t Executable::Impl::add_overflow(const DevicePlan& plan, uint64_t& total) {
  const OverflowWords words = plan.overflow();
  if (words.buffer) copies.push_back({words.buffer, words.offset, nullptr, total, words.bytes});
  return std::exchange(total, total + words.bytes);
}

void Executable::Impl::add_on_device(const DevicePlan& plan, const DevicePlan::OutputSlot& slot,
                                     const DeviceTensor& tensor) {
  const uint64_t bytes = readback_bytes(slot.device_bytes);
  if (bytes > 0)
    copies.push_back(
        {&plan.buffer(slot.buffer), slot.offset, &DeviceTensorAccess::get(tensor).buffer, 0, bytes});
}

void Executable::Impl::add_feeds(const DevicePlan& plan) {
  for (Feed& feed : feeds) {
    const DevicePlan::OutputSlot& from = plan.output(feed.output);
    if (!feed.next || feed.next->dtype() != from.type.dtype ||
        !std::ranges::equal(feed.next->shape(), from.dims))
      feed.next = DeviceTensorAccess::make(loaded->store->device, from.type.dtype,
                                           {from.dims.begin(), from.dims.end()});
    add_on_device(plan, from, *feed.next);
  }
}

void Executable::Impl::note_run(const DevicePlan& plan) {
  for (Feed& feed : feeds) std::swap(feed.value, feed.next);
  report_run(plan);
}

void Executable::Impl::submit(DevicePlan& plan, gpu::Readback* readback, std::vector<DispatchReport>* times) {
  add_feeds(plan);
  if (const OverflowWords words = plan.overflow(); words.buffer) before.push_back(words.clearing());
  const gpu::Work work{
      .before = before, .dispatches = plan.commands(), .after = copies, .readback = readback};
  ++submits;
  if (times) {
    *times = submit_timed(plan, {}, work);
  } else if (diagnostics && diagnostics->traces()) {
    const double start_us = diagnostics->now_us();
    diagnostics->timed(start_us, submit_timed(plan, {}, work));
  } else {
    loaded->compiled.device->submit(work);
  }
  note_run(plan);
}

void Executable::Impl::report_run(const DevicePlan& plan) {
  if (!diagnostics) return;
  diagnostics->ran(*loaded->compiled.graph,
                   [&](std::string_view node, int32_t output) { return plan.read_value(node, output); });
}

std::vector<DispatchReport> Executable::Impl::submit_timed(const DevicePlan& plan,
                                                           std::span<const size_t> commands,
                                                           const gpu::Work& work) {
  const std::vector<gpu::DispatchTime> times = loaded->compiled.device->submit_timed(work);
  std::vector<DispatchReport> out;
  for (size_t i = 0; i < times.size(); ++i) {
    const size_t step = commands.empty() ? i : commands[i];
    const BoundDispatch& d = plan.dispatches()[step];
    out.push_back({plan.names()[static_cast<size_t>(d.node)].name, d.kernel->name, d.variant.text(),
                   times[i].begin_ns - times[0].begin_ns, times[i].end_ns - times[0].begin_ns,
                   static_cast<int64_t>(step)});
  }
  return out;
}

void Executable::Impl::finish_active() {
  if (!active) return;
  const std::shared_ptr<Runner> runner = std::move(active);
  active.reset();
  try {
    runner->advance(true);
  } catch (...) {
    // Whoever waits for that run is told.
  }
}

template <class Read>
std::shared_ptr<Runner> Executable::Impl::launch(const std::shared_ptr<DevicePlan>& plan,
                                                 List<InputRef> inputs,
                                                 const std::shared_ptr<Context::Impl>& context,
                                                 std::vector<DispatchReport>* times, Read read) {
  if (plan->has_segments()) {
    prepare(*plan, inputs, context);
    return start(plan, context, times, std::move(read));
  }
  gpu::Readback* const into = read();
  prepare(*plan, inputs, context);
  submit(*plan, into, times);
  return nullptr;
}

std::shared_ptr<Runner> Executable::Impl::start(const std::shared_ptr<DevicePlan>& plan,
                                                const std::shared_ptr<Context::Impl>& context,
                                                std::vector<DispatchReport>* times,
                                                std::function<gpu::Readback*()> read) {
  const bool timed = times || (diagnostics && diagnostics->traces());
  // The context is kept: its states are used until the last submit.
  const auto submit_part = [this, plan, context, times, timed](std::span<const size_t> commands,
                                                               const gpu::Work& work) {
    ++submits;
    if (!timed || commands.empty()) {
      loaded->compiled.device->submit(work);
      return;
    }
    const double start_us = diagnostics ? diagnostics->now_us() : 0;
    std::vector<DispatchReport> part = submit_timed(*plan, commands, work);
    if (diagnostics && diagnostics->traces()) diagnostics->timed(start_us, part);
    if (!times) return;
    // After those of the submits before: what the host does in between is not a dispatch's time.
    const uint64_t end = times->empty() ? 0 : times->back().end_ns;
    for (DispatchReport& d : part) {
      d.begin_ns += end;
      d.end_ns += end;
      times->push_back(std::move(d));
    }
  };
  const auto finish = [this, plan, submit_part, read = std::move(read)](std::span<const size_t> commands,
                                                                        gpu::Work work) {
    copies.clear();
    work.readback = read();
    add_feeds(*plan);
    work.after = copies;
    submit_part(commands, work);
    note_run(*plan);
  };
  active = std::make_shared<Runner>(loaded->compiled.device, plan, before, submit_part, finish);
  active->advance(false);
  return active;
}

namespace {

InputRef ref_to(std::string_view name, const Tensor& tensor) {
  return {.name = name, .dtype = tensor.dtype(), .bytes = tensor.byte_size(), .shape = tensor.shape()};
}
InputRef ref_to(std::string_view name, const DeviceTensor& tensor) { return input(name, tensor); }

// Without the data of the host's: a uniform tensor is written out only when its size is known to be right.
std::vector<InputRef> input_refs(const Graph& graph, const RunInputs& inputs) {
  std::vector<InputRef> refs;
  inputs.for_each([&](const std::string& name, const auto& tensor) {
    if (std::ranges::contains(refs, name, &InputRef::name))
      fail(ErrorKind::invalid_argument, "the input '{}' was given twice", name);
    // In an InputRef no axes mean that the caller does not say; a tensor always does.
    const int32_t node = tensor.shape().empty() ? graph.find(name) : -1;
    if (node >= 0 && graph.node(node).outputs[0].shape.rank() != 0) {
      fail(ErrorKind::invalid_argument, "the input '{}' is {}, but [] was given", name,
           graph.node(node).outputs[0].shape.text());
    }
    refs.push_back(ref_to(name, tensor));
  });
  return refs;
}

const void* data_of(const Tensor& tensor) { return tensor.bytes().data(); }
const void* data_of(const DeviceTensor&) { return nullptr; }

void add_data(std::vector<InputRef>& refs, const RunInputs& inputs) {
  size_t i = 0;
  inputs.for_each([&](const std::string&, const auto& tensor) { refs[i++].data = data_of(tensor); });
}

}  // namespace

// Before anything else: symbols that are given in their place are a slip that compiles.
void Executable::Impl::check_names(const std::vector<std::string>& outputs) const {
  const Graph& graph = *loaded->compiled.graph;
  for (const std::string& name : outputs) {
    if (!std::ranges::contains(graph.outputs(), name, &Graph::Output::name))
      fail(ErrorKind::invalid_argument, "the graph '{}' has no output named '{}'", graph.name, name);
  }
}

// --- Outputs as new tensors of the host ---

Run Executable::Impl::run_async(const Context* context, const RunInputs& inputs,
                                const std::vector<std::string>& outputs, SymbolList symbols) {
  const Lock held = lock();
  check_names(outputs);
  std::vector<InputRef> refs = input_refs(*loaded->compiled.graph, inputs);
  const std::shared_ptr<DevicePlan> plan = plan_for_run(refs, symbols);
  add_data(refs, inputs);
  auto run = std::make_shared<Run::Impl>(loaded->compiled.graph->outputs(), outputs);
  run->zeros = loaded->compiled.options.debug.dispatch_only;
  // Sizes are final when all but the last submit have been made.
  const auto read = [this, plan, run]() -> gpu::Readback* {
    uint64_t total = 0;
    for (const std::string& name : run->names()) {
      const DevicePlan::OutputSlot& slot = plan->output(name);
      run->slots.push_back(
          {slot.name, slot.type.dtype, slot.dims, total, slot.device_bytes, slot.host_bytes});
      add_readback(*plan, slot, total);
    }
    if (plan->overflow().buffer) run->plan = plan;
    run->overflow_offset = add_overflow(*plan, total);
    if (run->zeros) copies.clear();
    if (total > 0 && !run->zeros) run->readback = loaded->compiled.device->readback(total);
    return run->readback ? &run->readback : nullptr;
  };
  run->runner = launch(plan, refs, context_of(context), nullptr, read);
  return Run(std::move(run));
}

NamedTensors Executable::run(const RunInputs& inputs, SymbolList symbols) try {
  return impl().run_async(nullptr, inputs, {}, symbols).get();
} catch (...) {
  throw_as_error("running a graph");
}

NamedTensors Executable::run(const Context& context, const RunInputs& inputs, SymbolList symbols) try {
  return impl().run_async(&context, inputs, {}, symbols).get();
} catch (...) {
  throw_as_error("running a graph");
}

Run Executable::run_async(const RunInputs& inputs, const std::vector<std::string>& outputs,
                          SymbolList symbols) try {
  return impl().run_async(nullptr, inputs, outputs, symbols);
} catch (...) {
  throw_as_error("running a graph");
}

Run Executable::run_async(const Context& context, const RunInputs& inputs,
                          const std::vector<std::string>& outputs, SymbolList symbols) try {
  return impl().run_async(&context, inputs, outputs, symbols);
} catch (...) {
  throw_as_error("running a graph");
}

// --- Outputs in memory of the caller ---

namespace {

// Two outputs in one tensor would leave one of them.
void check_alone(const OutputRef& out, List<OutputRef> outputs) {
  for (const OutputRef& other : outputs) {
    if (out.on_device && other.on_device && other.name != out.name &&
        &DeviceTensorAccess::get(*other.on_device) == &DeviceTensorAccess::get(*out.on_device)) {
      fail(ErrorKind::invalid_argument, "the outputs '{}' and '{}' were given the same tensor", out.name,
           other.name);
    }
  }
}

void check_output(const DevicePlan::OutputSlot& slot, const OutputRef& out, const gpu::Device& device) {
  if (out.on_device) {
    const DeviceTensor::Impl& into = DeviceTensorAccess::get(*out.on_device);
    if (into.dtype != slot.type.dtype || !std::ranges::equal(into.shape, slot.dims)) {
      fail(ErrorKind::invalid_argument, "the output '{}' is {}, but a tensor of {} was given for it",
           slot.name, slot.type.text(), out.on_device->type_text());
    }
    if (into.device.get() != &device)
      fail(ErrorKind::invalid_argument, "the tensor for the output '{}' is on another device", slot.name);
    return;
  }
  if (out.dtype != slot.type.dtype || out.bytes != slot.host_bytes) {
    fail(ErrorKind::invalid_argument,
         "the output '{}' is {}, {} bytes, but memory for {} bytes of {} was given", slot.name,
         slot.type.text(), slot.host_bytes, out.bytes, to_string(out.dtype));
  }
  if (!out.data && out.bytes > 0) {
    fail(ErrorKind::invalid_argument, "the output '{}' would have its {} bytes at a null pointer", slot.name,
         out.bytes);
  }
}

}  // namespace

void Executable::Impl::run(const Context* context, List<InputRef> inputs, List<OutputRef> outputs,
                           SymbolList symbols) {
  gpu::Readback readback;
  std::shared_ptr<DevicePlan> plan;
  uint64_t overflow_offset = 0;
  {
    const Lock held = lock();
    plan = plan_for_run(inputs, symbols);
    const auto read = [&]() -> gpu::Readback* {
      uint64_t total = 0;
      for (const OutputRef& out : outputs) {
        check_output(plan->output(out.name), out, *loaded->store->device);
        check_alone(out, outputs);
      }
      for (const OutputRef& out : outputs) {
        const DevicePlan::OutputSlot& slot = plan->output(out.name);
        if (out.on_device) {
          add_on_device(*plan, slot, *out.on_device);
        } else {
          add_readback(*plan, slot, total);
        }
      }
      overflow_offset = add_overflow(*plan, total);
      if (loaded->compiled.options.debug.dispatch_only) {
        copies.clear();
      } else if (total > 0) {
        readback = loaded->compiled.device->readback(total);
      }
      return readback ? &readback : nullptr;
    };
    if (const std::shared_ptr<Runner> runner =
            launch(plan, inputs, context_of(context), nullptr, std::ref(read))) {
      runner->advance(true);
      active.reset();
    }
  }
  if (!readback) {
    for (const OutputRef& out : outputs) {
      if (out.bytes > 0) std::memset(out.data, 0, out.bytes);
    }
    return;
  }
  const std::span<const std::byte> bytes = readback.wait();
  check_overflow(bytes.subspan(overflow_offset), plan->names());
  uint64_t offset = 0;
  for (const OutputRef& out : outputs) {
    if (out.on_device) continue;
    const uint64_t size = out.bytes / host_bytes(out.dtype) * device_bytes(out.dtype);
    from_device(out.dtype, bytes.subspan(offset, size), {static_cast<std::byte*>(out.data), out.bytes});
    offset += readback_bytes(size);
  }
}

void Executable::run(List<InputRef> inputs, List<OutputRef> outputs, SymbolList symbols) try {
  impl().run(nullptr, inputs, outputs, symbols);
} catch (...) {
  throw_as_error("running a graph");
}

void Executable::run(const Context& context, List<InputRef> inputs, List<OutputRef> outputs,
                     SymbolList symbols) try {
  impl().run(&context, inputs, outputs, symbols);
} catch (...) {
  throw_as_error("running a graph");
}

// --- Outputs that stay on the device ---

NamedDeviceTensors Executable::Impl::run_on_device(const Context* context, const RunInputs& inputs,
                                                   const std::vector<std::string>& outputs,
                                                   SymbolList symbols) {
  NamedDeviceTensors out;
  gpu::Readback readback;
  std::shared_ptr<DevicePlan> plan;
  {
    const Lock held = lock();
    check_names(outputs);
    std::vector<InputRef> refs = input_refs(*loaded->compiled.graph, inputs);
    plan = plan_for_run(refs, symbols);
    add_data(refs, inputs);
    std::vector<std::string> names = outputs;
    if (names.empty()) {
      for (const Graph::Output& o : loaded->compiled.graph->outputs()) names.push_back(o.name);
    }
    const auto read = [&]() -> gpu::Readback* {
      for (const std::string& name : names) {
        const DevicePlan::OutputSlot& slot = plan->output(name);
        const auto [it, fresh] = out.try_emplace(
            name, DeviceTensorAccess::make(loaded->store->device, slot.type.dtype, slot.dims));
        if (fresh) add_on_device(*plan, slot, it->second);
      }
      uint64_t total = 0;
      add_overflow(*plan, total);
      if (total > 0) readback = loaded->compiled.device->readback(total);
      return readback ? &readback : nullptr;
    };
    if (const std::shared_ptr<Runner> runner =
            launch(plan, refs, context_of(context), nullptr, std::ref(read))) {
      runner->advance(true);
      active.reset();
    }
  }
  if (readback) check_overflow(readback.wait(), plan->names());
  return out;
}

NamedDeviceTensors Executable::run_on_device(const RunInputs& inputs, const std::vector<std::string>& outputs,
                                             SymbolList symbols) try {
  return impl().run_on_device(nullptr, inputs, outputs, symbols);
} catch (...) {
  throw_as_error("running a graph");
}

NamedDeviceTensors Executable::run_on_device(const Context& context, const RunInputs& inputs,
                                             const std::vector<std::string>& outputs,
                                             SymbolList symbols) try {
  return impl().run_on_device(&context, inputs, outputs, symbols);
} catch (...) {
  throw_as_error("running a graph");
}

// --- Times ---

std::vector<DispatchReport> Executable::profile(const RunInputs& inputs, SymbolList symbols) try {
  Impl& self = impl();
  const Impl::Lock held = self.lock();
  std::vector<InputRef> refs = input_refs(*self.loaded->compiled.graph, inputs);
  const std::shared_ptr<DevicePlan> plan = self.plan_for_run(refs, symbols);
  add_data(refs, inputs);
  std::vector<DispatchReport> times;
  const auto read_nothing = []() -> gpu::Readback* { return nullptr; };
  if (const auto runner = self.launch(plan, refs, self.context_of(nullptr), &times, read_nothing)) {
    runner->advance(true);
    self.active.reset();
  }
  return times;
} catch (...) {
  throw_as_error("profiling a graph");
}

}  // namespace rlx
