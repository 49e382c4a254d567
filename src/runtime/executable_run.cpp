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

void check_input(const DevicePlan::InputSlot& slot, const InputRef& given) {
  if (given.dtype != slot.type.dtype) {
    fail(ErrorKind::invalid_argument, "the input '{}' has type {}, but {} values were given", slot.name,
         to_string(slot.type.dtype), to_string(given.dtype));
  }
  const bool same_shape = std::ranges::equal(given.shape, slot.type.shape,
                                             [](int64_t size, const Dim& dim) { return dim.is(size); });
  if (!given.shape.empty() && !same_shape) {
    fail(ErrorKind::invalid_argument, "the input '{}' is {}, but {} was given", slot.name,
         slot.type.shape.text(), Shape(given.shape).text());
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

void Executable::Impl::prepare(DevicePlan& plan, List<InputRef> inputs) {
  const auto given = [&](const DevicePlan::InputSlot& slot) {
    return std::ranges::find(inputs, slot.name, &InputRef::name);
  };
  for (const DevicePlan::InputSlot& slot : plan.inputs()) {
    if (const auto it = given(slot); it != inputs.end()) {
      check_input(slot, *it);
      check_elements(slot.type.dtype, bytes_of(*it), slot.name);
    } else if (!slot.resident || loaded->compiled.options.force_input_upload) {
      fail(ErrorKind::invalid_argument, "the input '{}' ({}) was not given", slot.name, slot.type.text());
    }
  }
  loaded->weights.finish_loading();
  for (DevicePlan::InputSlot& slot : plan.inputs()) {
    const auto it = given(slot);
    if (it == inputs.end()) continue;
    slot.resident = false;  // what an earlier run has fed is gone, should this one fail from here on
    write_elements(*loaded->compiled.device, plan.buffer(slot.place.buffer), slot.place.offset,
                   slot.type.dtype, bytes_of(*it));
  }
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

void Executable::Impl::add_feeds(DevicePlan& plan) {
  for (const Feed& feed : feeds) {
    const DevicePlan::OutputSlot& from = plan.output(feed.output);
    const DevicePlan::InputSlot& to = plan.input(feed.input);
    const uint64_t bytes = readback_bytes(from.device_bytes);
    if (bytes == 0) continue;
    copies.push_back({&plan.buffer(from.buffer), from.offset, &plan.buffer(to.place.buffer),
                      static_cast<uint64_t>(to.place.offset), bytes});
  }
}

void Executable::Impl::mark_fed(DevicePlan& plan) const {
  for (const Feed& feed : feeds) plan.input(feed.input).resident = true;
}

void Executable::Impl::submit(DevicePlan& plan, gpu::Readback* readback) {
  add_feeds(plan);
  const OverflowWords words = plan.overflow();
  const gpu::Copy clear = words.clearing();
  const gpu::Work work{.before = {&clear, words.buffer ? 1u : 0u},
                       .dispatches = plan.commands(),
                       .after = copies,
                       .readback = readback};
  ++submits;
  if (diagnostics && diagnostics->traces()) {
    const double start_us = diagnostics->now_us();
    diagnostics->timed(start_us, submit_timed(plan, {}, work));
  } else {
    loaded->compiled.device->submit(work);
  }
  mark_fed(plan);
  report_run(plan);
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
    out.push_back({plan.names()[static_cast<size_t>(d.node)].name, d.kernel->name, d.variant,
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

std::shared_ptr<Runner> Executable::Impl::start(const std::shared_ptr<DevicePlan>& plan,
                                                std::vector<DispatchReport>* times,
                                                std::function<gpu::Readback*()> read) {
  const bool timed = times || (diagnostics && diagnostics->traces());
  const auto submit_part = [this, plan, times, timed](std::span<const size_t> commands,
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
    mark_fed(*plan);
    report_run(*plan);
  };
  active = std::make_shared<Runner>(loaded->compiled.device, plan, submit_part, finish);
  active->advance(false);
  return active;
}

namespace {

// Without their data: a uniform tensor is written out only when its size is known to be right.
std::vector<InputRef> input_refs(const Graph& graph, const NamedTensors& inputs) {
  std::vector<InputRef> refs;
  for (const auto& [name, tensor] : inputs) {
    // In an InputRef no axes mean that the caller does not say; a tensor always does.
    const int32_t node = tensor.rank() == 0 ? graph.find(name) : -1;
    if (node >= 0 && graph.node(node).outputs[0].shape.rank() != 0) {
      fail(ErrorKind::invalid_argument, "the input '{}' is {}, but [] was given", name,
           graph.node(node).outputs[0].shape.text());
    }
    refs.push_back({name, tensor.dtype(), nullptr, tensor.byte_size(), tensor.shape()});
  }
  return refs;
}

void add_data(std::vector<InputRef>& refs, const NamedTensors& inputs) {
  for (InputRef& ref : refs) ref.data = inputs.find(ref.name)->second.bytes().data();
}

}  // namespace

NamedTensors Executable::run(const NamedTensors& inputs, SymbolList symbols) try {
  return run_async(inputs, {}, symbols).get();
} catch (...) {
  throw_as_error("running a graph");
}

Run Executable::run_async(const NamedTensors& inputs, const std::vector<std::string>& outputs,
                          SymbolList symbols) try {
  Impl& self = impl();
  const std::lock_guard lock(self.mutex);
  std::vector<InputRef> refs = input_refs(*self.loaded->compiled.graph, inputs);
  const std::shared_ptr<DevicePlan> plan = self.plan_for_run(refs, symbols);
  add_data(refs, inputs);
  auto run = std::make_shared<Run::Impl>(self.loaded->compiled.graph->outputs(), outputs);
  for (const std::string& name : run->names()) plan->output(name);  // an error if there is none
  run->zeros = self.loaded->compiled.options.debug.dispatch_only;
  // Sizes are final when all but the last submit have been made.
  const auto read = [&self, plan, run = run.get()]() -> gpu::Readback* {
    uint64_t total = 0;
    for (const std::string& name : run->names()) {
      const DevicePlan::OutputSlot& slot = plan->output(name);
      run->slots.push_back(
          {slot.name, slot.type.dtype, slot.dims, total, slot.device_bytes, slot.host_bytes});
      self.add_readback(*plan, slot, total);
    }
    if (plan->overflow().buffer) run->plan = plan;
    run->overflow_offset = self.add_overflow(*plan, total);
    if (run->zeros) self.copies.clear();
    if (total > 0 && !run->zeros) run->readback = self.loaded->compiled.device->readback(total);
    return run->readback ? &run->readback : nullptr;
  };
  if (plan->has_segments()) {
    self.prepare(*plan, refs);
    run->runner = self.start(plan, nullptr, [read, run] { return read(); });
  } else {
    gpu::Readback* const readback = read();
    self.prepare(*plan, refs);
    self.submit(*plan, readback);
  }
  return Run(std::move(run));
} catch (...) {
  throw_as_error("running a graph");
}

void Executable::run(List<InputRef> inputs, List<OutputRef> outputs, SymbolList symbols) try {
  Impl& self = impl();
  gpu::Readback readback;
  std::shared_ptr<DevicePlan> plan;
  uint64_t overflow_offset = 0;
  {
    const std::lock_guard lock(self.mutex);
    plan = self.plan_for_run(inputs, symbols);
    const auto check_outputs = [&] {
      for (const OutputRef& out : outputs) {
        const DevicePlan::OutputSlot& slot = plan->output(out.name);
        if (out.dtype != slot.type.dtype || out.bytes != slot.host_bytes) {
          fail(ErrorKind::invalid_argument,
               "the output '{}' is {}, {} bytes, but memory for {} bytes of {} was given", slot.name,
               slot.type.text(), slot.host_bytes, out.bytes, to_string(out.dtype));
        }
        if (!out.data && out.bytes > 0) {
          fail(ErrorKind::invalid_argument, "the output '{}' would have its {} bytes at a null pointer",
               slot.name, out.bytes);
        }
      }
    };
    const auto read = [&]() -> gpu::Readback* {
      uint64_t total = 0;
      check_outputs();
      for (const OutputRef& out : outputs) self.add_readback(*plan, plan->output(out.name), total);
      overflow_offset = self.add_overflow(*plan, total);
      if (self.loaded->compiled.options.debug.dispatch_only) {
        self.copies.clear();
      } else if (total > 0) {
        readback = self.loaded->compiled.device->readback(total);
      }
      return readback ? &readback : nullptr;
    };
    if (plan->has_segments()) {
      self.prepare(*plan, inputs);
      self.start(plan, nullptr, read)->advance(true);
      self.active.reset();
    } else {
      gpu::Readback* const into = read();
      self.prepare(*plan, inputs);
      self.submit(*plan, into);
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
    const uint64_t size = out.bytes / host_bytes(out.dtype) * device_bytes(out.dtype);
    from_device(out.dtype, bytes.subspan(offset, size), {static_cast<std::byte*>(out.data), out.bytes});
    offset += readback_bytes(size);
  }
} catch (...) {
  throw_as_error("running a graph");
}

std::vector<DispatchReport> Executable::profile(const NamedTensors& inputs, SymbolList symbols) try {
  Impl& self = impl();
  const std::lock_guard lock(self.mutex);
  std::vector<InputRef> refs = input_refs(*self.loaded->compiled.graph, inputs);
  const std::shared_ptr<DevicePlan> plan = self.plan_for_run(refs, symbols);
  add_data(refs, inputs);
  self.prepare(*plan, refs);
  if (plan->has_segments()) {
    std::vector<DispatchReport> times;
    self.start(plan, &times, []() -> gpu::Readback* { return nullptr; })->advance(true);
    self.active.reset();
    return times;
  }
  ++self.submits;
  return self.submit_timed(*plan, {}, {.dispatches = plan->commands()});
} catch (...) {
  throw_as_error("profiling a graph");
}

}  // namespace rlx
