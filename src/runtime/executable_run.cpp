// The ways to run an executable: where outputs go, and who waits for them.
#include <algorithm>
#include <cstring>

#include "base/border.h"
#include "base/fail.h"
#include "runtime/executable.h"
#include "runtime/pending_work.h"
#include "runtime/run_outputs.h"
#include "runtime/transfer.h"

namespace rlx {

namespace {

InputRef ref_to(std::string_view name, const Tensor& tensor) {
  return {.name = name, .dtype = tensor.dtype(), .bytes = tensor.byte_size(), .shape = tensor.shape()};
}
InputRef ref_to(std::string_view name, const DeviceTensor& tensor) { return input_from(name, tensor); }

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
  const Graph& graph = *device_side->compiled.graph;
  for (const std::string& name : outputs) {
    if (!std::ranges::contains(graph.outputs(), name, &Graph::Output::name))
      fail(ErrorKind::invalid_argument, "the graph '{}' has no output named '{}'", graph.name, name);
  }
}

// --- Outputs as new tensors of the host ---

namespace {

class RunWork final : public PendingWork<NamedTensors>, public RunCaller {
 public:
  RunWork(Executable::Impl& exe, const RunInputs& inputs, const std::vector<std::string>& outputs)
      : exe_(exe),
        device_(exe.device_side->store->device),
        outputs_(exe.device_side->compiled.graph->outputs(), outputs) {
    // The run may begin later: it has the tensors, which share their elements with those of the caller.
    inputs.for_each([&](const std::string& name, const auto& tensor) { items_.push_back({name, tensor}); });
    refs_ = input_refs(*exe.device_side->compiled.graph, items_);
    outputs_.zeros = exe.device_side->compiled.options.debug.dispatch_only;
  }
  // With the executable's lock held.
  static Run start(const std::shared_ptr<RunWork>& work, const Context* context, SymbolList symbols) {
    work->run_ = work->exe_.launch({*work, work->refs_, symbols, context}, work);
    if (work->run_) work->run_->position.cancelled = &work->cancelled_;
    return Run(work);
  }

  void add_data() override { rlx::add_data(refs_, items_); }
  gpu::Readback* add_outputs(const DevicePlan& plan) override {
    outputs_.slots.clear();
    uint64_t total = 0;
    for (const std::string& name : outputs_.names()) {
      const DevicePlan::OutputSlot& slot = plan.output(name);
      outputs_.slots.push_back(
          {slot.name, slot.type.dtype, slot.dims, total, slot.device_bytes, slot.host_bytes});
      exe_.add_readback(plan, slot, total);
    }
    outputs_.overflow_offset = exe_.add_overflow(plan, total);
    if (plan.overflow().buffer) outputs_.node_names = plan.names();
    if (outputs_.zeros) exe_.copies.clear();
    if (total > 0 && !outputs_.zeros) readback_ = device_->readback(total);
    return readback_ ? &readback_ : nullptr;
  }
  gpu::Device* device() override { return device_.get(); }

 private:
  const char* what() const override { return "the run"; }
  bool step(bool block) override {
    if (run_) {
      const std::lock_guard lock(run_->store->mutex);
      if (!run_->advance(block)) return false;
    }
    run_.reset();
    if (!readback_) return true;
    if (block) readback_.wait();
    return readback_.ready();
  }
  NamedTensors result() override {
    return outputs_.read(readback_ ? readback_.bytes() : std::span<const std::byte>());
  }
  void stop() override {
    if (!run_) return;
    const std::lock_guard lock(run_->store->mutex);
    run_->cancel();
  }
  ProgressReport step_progress() const override {
    if (!run_) return {};
    const std::lock_guard lock(run_->store->mutex);
    return run_->position.awaited ? run_->position.awaited->progress() : ProgressReport{};
  }

  Executable::Impl& exe_;  // while the run has not made all of its submits
  std::shared_ptr<gpu::Device> device_;
  std::vector<RunInputs::Item> items_;
  std::vector<InputRef> refs_;
  RunOutputs outputs_;
  gpu::Readback readback_;
  std::shared_ptr<Executable::Impl::ActiveRun> run_;  // null if everything has been submitted
};

}  // namespace

Run Executable::Impl::run_async(const Context* context, const RunInputs& inputs,
                                const std::vector<std::string>& outputs, SymbolList symbols) {
  const Lock held = lock();
  check_names(outputs);
  return RunWork::start(std::make_shared<RunWork>(*this, inputs, outputs), context, symbols);
}

namespace {

// The run, and after it what background tuning has time for.
template <class F>
auto with_tuning(Executable::Impl& exe, F&& run) {
  if (!exe.tuner) return run();
  const double start = BackgroundTuner::now_ms();
  auto result = run();
  exe.tune_after(BackgroundTuner::now_ms() - start);
  return result;
}

}  // namespace

void Executable::Impl::tune_after(double run_ms) {
  const Lock held = lock();
  if (active || !device_side->last || !device_side->weights.is_loaded()) return;
  tuner->after_run(device_side->last, run_ms);
}

NamedTensors Executable::run(const RunInputs& inputs, SymbolList symbols) try {
  return with_tuning(impl(), [&] { return impl().run_async(nullptr, inputs, {}, symbols).get(); });
} catch (...) {
  throw_as_error("running a graph");
}

NamedTensors Executable::run(const Context& context, const RunInputs& inputs, SymbolList symbols) try {
  return with_tuning(impl(), [&] { return impl().run_async(&context, inputs, {}, symbols).get(); });
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
  struct Caller final : RunCaller {
    Caller(Impl& executable, List<OutputRef> given) : exe(executable), outputs(given) {}
    gpu::Readback* add_outputs(const DevicePlan& plan) override {
      for (const OutputRef& out : outputs) {
        check_output(plan.output(out.name), out, *exe.device_side->store->device);
        check_alone(out, outputs);
      }
      uint64_t total = 0;
      for (const OutputRef& out : outputs) {
        const DevicePlan::OutputSlot& slot = plan.output(out.name);
        if (out.on_device) {
          exe.add_on_device(plan, slot, *out.on_device);
        } else {
          exe.add_readback(plan, slot, total);
        }
      }
      overflow_offset = exe.add_overflow(plan, total);
      if (exe.device_side->compiled.options.debug.dispatch_only) {
        exe.copies.clear();
      } else if (total > 0) {
        readback = exe.device_side->store->device->readback(total);
      }
      return readback ? &readback : nullptr;
    }
    Impl& exe;
    List<OutputRef> outputs;
    gpu::Readback readback;
    uint64_t overflow_offset = 0;
  } caller(*this, outputs);
  std::shared_ptr<DevicePlan> plan;
  {
    const Lock held = lock();
    launch_and_wait({caller, inputs, symbols, context});
    plan = device_side->last;
  }
  if (!caller.readback) {
    for (const OutputRef& out : outputs) {
      if (out.bytes > 0) std::memset(out.data, 0, out.bytes);
    }
    return;
  }
  const std::span<const std::byte> bytes = caller.readback.bytes();
  check_overflow(bytes.subspan(caller.overflow_offset), plan->names());
  uint64_t offset = 0;
  for (const OutputRef& out : outputs) {
    if (out.on_device) continue;
    const uint64_t size = out.bytes / host_bytes(out.dtype) * device_bytes(out.dtype);
    from_device(out.dtype, bytes.subspan(offset, size), {static_cast<std::byte*>(out.data), out.bytes});
    offset += readback_bytes(size);
  }
}

void Executable::run(List<InputRef> inputs, List<OutputRef> outputs, SymbolList symbols) try {
  with_tuning(impl(), [&] {
    impl().run(nullptr, inputs, outputs, symbols);
    return true;
  });
} catch (...) {
  throw_as_error("running a graph");
}

void Executable::run(const Context& context, List<InputRef> inputs, List<OutputRef> outputs,
                     SymbolList symbols) try {
  with_tuning(impl(), [&] {
    impl().run(&context, inputs, outputs, symbols);
    return true;
  });
} catch (...) {
  throw_as_error("running a graph");
}

// --- Outputs that stay on the device ---

NamedDeviceTensors Executable::Impl::run_on_device(const Context* context, const RunInputs& inputs,
                                                   const std::vector<std::string>& outputs,
                                                   SymbolList symbols) {
  struct Caller final : RunCaller {
    Caller(Impl& executable, const RunInputs& given, const std::vector<std::string>& wanted)
        : exe(executable), inputs(given), names(wanted) {
      refs = input_refs(*exe.device_side->compiled.graph, inputs);
      if (!names.empty()) return;
      for (const Graph::Output& o : exe.device_side->compiled.graph->outputs()) names.push_back(o.name);
    }
    void add_data() override { rlx::add_data(refs, inputs); }
    gpu::Readback* add_outputs(const DevicePlan& plan) override {
      made.clear();
      for (const std::string& name : names) {
        const DevicePlan::OutputSlot& slot = plan.output(name);
        const auto [it, fresh] = made.try_emplace(
            name, DeviceTensorAccess::make(exe.device_side->store->device, slot.type.dtype, slot.dims));
        if (fresh) exe.add_on_device(plan, slot, it->second);
      }
      uint64_t total = 0;
      exe.add_overflow(plan, total);
      if (total > 0) readback = exe.device_side->store->device->readback(total);
      return readback ? &readback : nullptr;
    }
    Impl& exe;
    const RunInputs& inputs;
    std::vector<InputRef> refs;
    std::vector<std::string> names;
    NamedDeviceTensors made;
    gpu::Readback readback;
  };
  std::optional<Caller> caller;
  std::shared_ptr<DevicePlan> plan;
  {
    const Lock held = lock();
    check_names(outputs);
    caller.emplace(*this, inputs, outputs);
    launch_and_wait({*caller, caller->refs, symbols, context});
    plan = device_side->last;
  }
  if (caller->readback) check_overflow(caller->readback.bytes(), plan->names());
  return std::move(caller->made);
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
  struct Caller final : RunCaller {
    Caller(const Graph& graph, const RunInputs& given) : inputs(given), refs(input_refs(graph, given)) {}
    void add_data() override { rlx::add_data(refs, inputs); }
    gpu::Readback* add_outputs(const DevicePlan&) override { return nullptr; }
    const RunInputs& inputs;
    std::vector<InputRef> refs;
  };
  Impl& self = impl();
  const Impl::Lock held = self.lock();
  Caller caller(*self.device_side->compiled.graph, inputs);
  std::vector<DispatchReport> times;
  self.launch_and_wait({caller, caller.refs, symbols, nullptr, &times});
  return times;
} catch (...) {
  throw_as_error("profiling a graph");
}

}  // namespace rlx
