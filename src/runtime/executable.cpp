#include "runtime/executable.h"

#include <algorithm>

#include "ir/op.h"

namespace rlx {

// --- Run ---

struct Run::Impl {
  struct Slot {
    std::string name;
    DType dtype;
    std::vector<int64_t> dims;
    uint64_t offset, device_size, host_size;
  };
  struct Counted {
    std::string name, count;
    int64_t axis;
    bool count_wanted;  // else it was read for this output only
  };
  gpu::Readback readback;
  std::vector<Slot> slots;
  std::vector<Counted> counted;
  bool empty = false;  // nothing is to be read
  bool zeros = false;  // DebugOptions::dispatch_only
};

Run::Run() = default;
Run::Run(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Run::Run(Run&&) noexcept = default;
Run& Run::operator=(Run&&) noexcept = default;
Run::~Run() = default;

bool Run::ready() { return !impl_ || impl_->empty || impl_->readback.ready(); }

NamedTensors Run::get() {
  if (!impl_)
    fail(ErrorKind::invalid_argument, "the run was never started, or its outputs were taken already");
  const std::unique_ptr<Impl> run = std::move(impl_);
  const std::span<const std::byte> bytes = run->empty ? std::span<const std::byte>() : run->readback.wait();
  NamedTensors out;
  for (const Impl::Slot& slot : run->slots) {
    std::vector<std::byte> host(slot.host_size);
    if (!run->zeros) from_device(slot.dtype, bytes.subspan(slot.offset, slot.device_size), host);
    out.emplace(slot.name, Tensor(slot.dtype, slot.dims, std::move(host)));
  }
  for (const Impl::Counted& c : run->counted)
    out.at(c.name) = out.at(c.name).head(c.axis, out.at(c.count).integer(0));
  for (const Impl::Counted& c : run->counted) {
    if (!c.count_wanted) out.erase(c.count);
  }
  return out;
}

// --- Executable ---

Executable::Executable(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Executable::Executable(Executable&&) noexcept = default;
Executable& Executable::operator=(Executable&&) noexcept = default;
Executable::~Executable() = default;

void Executable::set_param(std::string_view name, const Tensor& value) {
  {
    const std::lock_guard lock(impl_->mutex);
    const Weights::Entry* entry = impl_->weights->find(name);
    if (entry && entry->is_param && entry->type.shape.values() != value.dims()) {
      fail(ErrorKind::invalid_argument, "the param '{}' is {}, but {} was given", name, entry->type.text(),
           value.type_text());
    }
  }
  if (value.is_fill()) {
    set_param(name, value.type(), value.bytes());
  } else {
    set_param(name, value.type(), value.stored());
  }
}

void Executable::set_param(std::string_view name, DType dtype, std::span<const std::byte> bytes) {
  const std::lock_guard lock(impl_->mutex);
  // A pass may have found a param unused; it is still the graph's, and setting it is no mistake.
  const int32_t node = impl_->source.find(name);
  if (!impl_->weights->find(name) && node >= 0 && impl_->source.node(node).op->name() == Param::kName) return;
  impl_->weights->set_param(name, dtype, bytes);
}

namespace {

std::vector<InputRef> input_refs(const NamedTensors& inputs, std::vector<std::vector<std::byte>>& keep) {
  std::vector<InputRef> refs;
  for (const auto& [name, tensor] : inputs) {
    std::span<const std::byte> bytes = tensor.stored();
    if (tensor.is_fill()) bytes = keep.emplace_back(tensor.bytes());
    refs.push_back({name, tensor.type(), bytes.data(), bytes.size(), tensor.dims()});
  }
  return refs;
}

}  // namespace

Run Executable::run_async(const NamedTensors& inputs, const std::vector<std::string>& outputs,
                          SymbolRefs symbols) {
  std::vector<std::vector<std::byte>> keep;
  keep.reserve(inputs.size());
  const std::vector<InputRef> refs = input_refs(inputs, keep);
  const std::lock_guard lock(impl_->mutex);
  Instance& instance = impl_->instance_for(refs, symbols);
  std::vector<std::string_view> names(outputs.begin(), outputs.end());
  if (outputs.empty()) {
    for (const Instance::OutputSlot& slot : instance.outputs()) names.push_back(slot.name);
  }
  auto run = std::make_unique<Run::Impl>();
  for (const Graph::Output& o : impl_->graph.outputs()) {
    if (o.count.empty() || !std::ranges::contains(names, o.name)) continue;
    const bool wanted = outputs.empty() || std::ranges::contains(outputs, o.count);
    run->counted.push_back({o.name, o.count, o.axis, wanted});
    if (!std::ranges::contains(names, o.count)) names.push_back(o.count);
  }
  uint64_t total = 0;
  for (std::string_view name : names) {
    const Instance::OutputSlot& slot = impl_->output_slot(instance, name);
    run->slots.push_back({slot.name, slot.type.dtype, slot.dims, total, slot.device_size, slot.host_size});
    total += (slot.device_size + 3) / 4 * 4;
  }
  impl_->upload_inputs(instance, refs);
  run->zeros = impl_->options.debug.dispatch_only;
  run->empty = total == 0 || run->zeros;
  if (run->empty) {
    impl_->submit(instance, nullptr, {});
  } else {
    run->readback = impl_->device->readback(total);
    impl_->submit(instance, &run->readback, names);
  }
  return Run(std::move(run));
}

NamedTensors Executable::run(const NamedTensors& inputs, SymbolRefs symbols) {
  return run_async(inputs, {}, symbols).get();
}

void Executable::run(std::span<const InputRef> inputs, std::span<const OutputRef> outputs,
                     SymbolRefs symbols) {
  static constexpr size_t kFew = 32;
  std::string_view few[kFew];
  uint64_t few_sizes[kFew];
  if (outputs.size() > kFew) {
    fail(ErrorKind::invalid_argument,
         "one run can write at most {} outputs into memory of the caller, not {}", kFew, outputs.size());
  }
  gpu::Readback readback;
  {
    const std::lock_guard lock(impl_->mutex);
    Instance& instance = impl_->instance_for(inputs, symbols);
    uint64_t total = 0;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Instance::OutputSlot& slot = impl_->output_slot(instance, outputs[i].name);
      if (outputs[i].dtype != slot.type.dtype || outputs[i].bytes != slot.host_size) {
        fail(ErrorKind::invalid_argument,
             "the output '{}' is {}, {} bytes, but memory for {} bytes of {} was given", slot.name,
             slot.type.text(), slot.host_size, outputs[i].bytes, to_string(outputs[i].dtype));
      }
      few[i] = slot.name;
      few_sizes[i] = slot.device_size;
      total += (slot.device_size + 3) / 4 * 4;
    }
    impl_->upload_inputs(instance, inputs);
    if (total > 0 && !impl_->options.debug.dispatch_only) {
      readback = impl_->device->readback(total);
      impl_->submit(instance, &readback, std::span(few, outputs.size()));
    } else {
      impl_->submit(instance, nullptr, {});
    }
  }
  if (!readback) {
    for (const OutputRef& out : outputs) {
      if (out.bytes > 0) std::memset(out.data, 0, out.bytes);
    }
    return;
  }
  const std::span<const std::byte> bytes = readback.wait();
  uint64_t offset = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    from_device(outputs[i].dtype, bytes.subspan(offset, few_sizes[i]),
                {static_cast<std::byte*>(outputs[i].data), outputs[i].bytes});
    offset += (few_sizes[i] + 3) / 4 * 4;
  }
}

void Executable::feed(std::string_view input, std::string_view output) {
  const std::lock_guard lock(impl_->mutex);
  const Graph& g = impl_->graph;
  const int32_t node = g.find(input);
  if (node < 0 || g.node(node).op->name() != Input::kName) {
    fail(ErrorKind::invalid_argument, "the graph '{}' has no input named '{}'", g.name, input);
  }
  const auto out = std::ranges::find(g.outputs(), output, &Graph::Output::name);
  if (out == g.outputs().end())
    fail(ErrorKind::invalid_argument, "the graph '{}' has no output named '{}'", g.name, output);
  if (!(g.type(out->value) == g.node(node).outputs[0])) {
    fail(ErrorKind::invalid_argument, "the output '{}' ({}) can not feed the input '{}' ({})", output,
         g.type(out->value).text(), input, g.node(node).outputs[0].text());
  }
  impl_->feeds.push_back({std::string(input), std::string(output)});
}

Tensor Executable::read_state(std::string_view name) {
  const std::lock_guard lock(impl_->mutex);
  return impl_->weights->read_state(name);
}

void Executable::write_state(std::string_view name, const Tensor& value) {
  const std::lock_guard lock(impl_->mutex);
  impl_->weights->write_state(name, value);
}

void Executable::reset_states() {
  const std::lock_guard lock(impl_->mutex);
  impl_->weights->reset_states();
}

void Executable::rebuild(const Device& device) {
  auto fresh = std::make_unique<Impl>(device.impl(), impl_->source, impl_->options);
  fresh->feeds = impl_->feeds;
  impl_ = std::move(fresh);
}

const Graph& Executable::graph() const { return impl_->graph; }

std::vector<std::string> Executable::output_names() const {
  std::vector<std::string> names;
  for (const Graph::Output& o : impl_->graph.outputs()) names.push_back(o.name);
  return names;
}

std::string Executable::plan_text(const Bindings& bindings) {
  const std::lock_guard lock(impl_->mutex);
  const Instance& instance = impl_->planned_instance(bindings);
  return print(instance.plan(), instance.program(), instance.graph());
}

PlanReport Executable::plan_report(const Bindings& bindings) {
  const std::lock_guard lock(impl_->mutex);
  return impl_->plan_report(impl_->planned_instance(bindings));
}

int64_t Executable::dispatch_count() const {
  return impl_->last ? static_cast<int64_t>(impl_->last->plan().main.size()) : 0;
}
int64_t Executable::load_dispatch_count() const {
  return impl_->last ? static_cast<int64_t>(impl_->last->plan().load.size()) : 0;
}
int64_t Executable::submit_count() const { return impl_->submits; }
int64_t Executable::plan_count() const { return impl_->plans_made; }

MemoryReport Executable::memory() const {
  MemoryReport m{.weight_bytes = impl_->weights->weight_bytes(),
                 .state_bytes = impl_->weights->state_bytes()};
  if (impl_->last) {
    const Plan& plan = impl_->last->plan();
    m.derived_bytes = plan.derived_bytes;
    m.input_bytes = plan.input_bytes;
    m.intermediate_bytes = plan.arena_bytes;
    m.lower_bound_bytes = plan.lower_bound_bytes;
  }
  return m;
}

std::vector<DispatchReport> Executable::profile(const NamedTensors& inputs, SymbolRefs symbols) {
  std::vector<std::vector<std::byte>> keep;
  keep.reserve(inputs.size());
  const std::vector<InputRef> refs = input_refs(inputs, keep);
  const std::lock_guard lock(impl_->mutex);
  Instance& instance = impl_->instance_for(refs, symbols);
  impl_->upload_inputs(instance, refs);
  impl_->weights->require_all();
  instance.load(*impl_->weights);
  ++impl_->submits;
  return impl_->submit_timed(instance, {.dispatches = instance.dispatches()});
}

Tensor Executable::value(int32_t node, int32_t output) {
  const std::lock_guard lock(impl_->mutex);
  if (!impl_->options.keep_intermediates || !impl_->last) {
    fail(ErrorKind::invalid_argument,
         "values can be read after a run of a graph compiled with keep_intermediates");
  }
  return impl_->read_value(*impl_->last, node, output);
}

Executable Session::compile(const Graph& graph, const CompileOptions& options) {
  return Executable(std::make_unique<Executable::Impl>(device_.impl(), graph, options));
}

}  // namespace rlx
