#include "runtime/executable.h"

#include <algorithm>
#include <cstring>

#include "base/fail.h"
#include "ir/op.h"
#include "ir/subgraphs.h"
#include "runtime/device_access.h"
#include "runtime/run.h"
#include "runtime/transfer.h"

namespace rlx {

// --- Compiling ---

LoadedGraph::LoadedGraph(CompiledGraph compiled_graph)
    : compiled(std::move(compiled_graph)),
      weights(compiled.device, compiled.split, compiled.target),
      symbols(*compiled.graph),
      plans(compiled, weights) {}

namespace {

std::shared_ptr<LoadedGraph> load_graph(const Device& device, const Graph& source,
                                        const CompileOptions& options) {
  auto loaded = std::make_shared<LoadedGraph>(compile_graph(DeviceAccess::get(device), source, options));
  if (loaded->symbols.empty()) loaded->last = loaded->plan_for(SymbolValues{});
  return loaded;
}

}  // namespace

Executable compile(const Graph& graph, const Device& device, const CompileOptions& options) {
  return Executable(std::make_unique<Executable::Impl>(graph, options, load_graph(device, graph, options)));
}

namespace {

std::vector<TensorInfo> leaves(const Graph& source, LeafKind kind, const SymbolValues& symbols) {
  std::vector<TensorInfo> out;
  for_each_graph(source, [&](const Graph& graph) {
    if (&graph != &source && kind == LeafKind::input) return;  // those of bodies are not the caller's
    for (const Node& n : graph.nodes()) {
      // The same name in several bodies is the same tensor.
      if (n.op->is(kind) && !std::ranges::contains(out, n.name, &TensorInfo::name))
        out.push_back({n.name, {n.outputs[0].dtype, n.outputs[0].shape.bind(symbols)}});
    }
  });
  return out;
}

}  // namespace

Executable::Impl::Impl(const Graph& source_graph, const CompileOptions& compile_options,
                       std::shared_ptr<LoadedGraph> graph)
    : source(source_graph),
      options(compile_options),
      params(leaves(source, LeafKind::param, options.symbols)),
      loaded(std::move(graph)) {
  const DebugOptions& debug = loaded->compiled.options.debug;
  if (Diagnostics::wanted(debug)) diagnostics = std::make_unique<Diagnostics>(debug, source.name);
  if (loaded->last) report_if_new(*loaded->last);
}

void Executable::rebuild(const Device& device) {
  Impl& self = impl();
  auto fresh = load_graph(device, self.source, self.options);
  const std::lock_guard lock(self.mutex);
  self.finish_active();
  self.plans_before += self.loaded->plans.made();
  self.plans_reported = 0;
  self.loaded = std::move(fresh);
  if (self.loaded->last) self.report_if_new(*self.loaded->last);
}

// --- Plans ---

std::shared_ptr<DevicePlan> LoadedGraph::plan_for(const SymbolValues& values) {
  symbols.check_complete(values);
  return plans.get(values, symbols);
}

std::shared_ptr<DevicePlan> LoadedGraph::plan_for(List<InputRef> inputs, SymbolList given) {
  symbols.bind(*compiled.graph, inputs, given);
  if (auto plan = plans.current(symbols)) return plan;
  return plans.get(symbols.values(), symbols);
}

std::shared_ptr<DevicePlan> Executable::Impl::plan_for_run(List<InputRef> inputs, SymbolList given) {
  finish_active();
  copies.clear();
  loaded->last = loaded->plan_for(inputs, given);
  report_if_new(*loaded->last);
  return loaded->last;
}

void Executable::Impl::report_if_new(const DevicePlan& plan) {
  if (!diagnostics || plans_reported == loaded->plans.made()) return;
  plans_reported = loaded->plans.made();
  diagnostics->planned(plan_report(plan), plan_text(plan));
}

MemoryReport Executable::Impl::memory_report(const DevicePlan* plan) const {
  MemoryReport report{.weight_bytes = loaded->weights.weight_bytes(),
                      .derived_bytes = loaded->weights.derived_bytes(),
                      .state_bytes = loaded->weights.state_bytes()};
  if (!plan) return report;
  report.derived_bytes += plan->plan().table_bytes;
  report.input_bytes = plan->plan().input_bytes;
  report.intermediate_bytes = plan->plan().arena_bytes;
  report.lower_bound_bytes = plan->plan().lower_bound_bytes;
  return report;
}

PlanReport Executable::Impl::plan_report(const DevicePlan& plan) const {
  const auto steps = [](const std::vector<BoundDispatch>& dispatches,
                        const std::vector<Program::NodeName>& names) {
    std::vector<StepReport> out;
    for (const BoundDispatch& d : dispatches) {
      const Program::NodeName& n = names[static_cast<size_t>(d.node)];
      StepReport& step = out.emplace_back(n.name, n.op, d.kernel->name, d.variant);
      std::ranges::copy(d.grid, step.grid);
      step.bindings = std::ssize(d.ranges);
      for (const BoundRange& r : d.ranges) step.bytes += r.bytes;
    }
    return out;
  };
  return {.load = steps(loaded->weights.load_dispatches(), loaded->weights.load_names()),
          .run = steps(plan.dispatches(), plan.names()),
          .control = plan.control(),
          .memory = memory_report(&plan),
          .reason = loaded->plans.reason()};
}

std::string Executable::Impl::plan_text(const DevicePlan& plan) const {
  std::string out;
  const std::vector<BoundDispatch>& load = loaded->weights.load_dispatches();
  if (!load.empty()) {
    out += formatted("load phase ({} dispatches)\n", load.size()) + print(load, loaded->weights.load_names());
  }
  out += formatted("each run ({} dispatches)\n", plan.dispatches().size()) +
         print(plan.dispatches(), plan.names());
  const MemoryReport m = memory_report(&plan);
  return out +
         formatted(
             "memory: inputs {} bytes, intermediates {} bytes (lower bound {}), derived weights {} bytes\n",
             m.input_bytes, m.intermediate_bytes, m.lower_bound_bytes, m.derived_bytes);
}

// --- Running ---

void Executable::Impl::upload_inputs(DevicePlan& plan, List<InputRef> inputs) {
  for (DevicePlan::InputSlot& slot : plan.inputs()) {
    const auto it = std::ranges::find(inputs, slot.name, &InputRef::name);
    if (it == inputs.end()) {
      if (slot.resident && !loaded->compiled.options.force_input_upload) continue;
      fail(ErrorKind::invalid_argument, "the input '{}' ({}) was not given", slot.name, slot.type.text());
    }
    if (it->dtype != slot.type.dtype) {
      fail(ErrorKind::invalid_argument, "the input '{}' has type {}, but {} values were given", slot.name,
           to_string(slot.type.dtype), to_string(it->dtype));
    }
    const bool same_shape = std::ranges::equal(it->shape, slot.type.shape,
                                               [](int64_t size, const Dim& dim) { return dim.is(size); });
    if (!it->shape.empty() && !same_shape) {
      fail(ErrorKind::invalid_argument, "the input '{}' is {}, but {} was given", slot.name,
           slot.type.shape.text(), Shape(it->shape).text());
    }
    if (it->bytes != slot.host_bytes) {
      fail(ErrorKind::invalid_argument, "the input '{}' is {}, {} bytes, but {} bytes were given", slot.name,
           slot.type.text(), slot.host_bytes, it->bytes);
    }
    upload(*loaded->compiled.device, plan.buffer(slot.place.buffer), slot.place.offset, slot.type.dtype,
           {static_cast<const std::byte*>(it->data), it->bytes}, slot.name);
  }
}

void Executable::Impl::add_readback(const DevicePlan& plan, const DevicePlan::OutputSlot& slot,
                                    uint64_t& total) {
  const uint64_t bytes = readback_bytes(slot.device_bytes);
  if (bytes > 0) copies.push_back({&plan.buffer(slot.buffer), slot.offset, nullptr, total, bytes});
  total += bytes;
}

void Executable::Impl::add_feeds(DevicePlan& plan) {
  for (const Feed& feed : feeds) {
    const DevicePlan::OutputSlot& from = plan.output(feed.output);
    const auto to = std::ranges::find(plan.inputs(), feed.input, &DevicePlan::InputSlot::name);
    const uint64_t bytes = readback_bytes(from.device_bytes);
    if (bytes == 0) continue;
    copies.push_back({&plan.buffer(from.buffer), from.offset, &plan.buffer(to->place.buffer),
                      static_cast<uint64_t>(to->place.offset), bytes});
    to->resident = true;
  }
}

void Executable::Impl::submit(DevicePlan& plan, gpu::Readback* readback) {
  loaded->weights.finish_loading();
  add_feeds(plan);
  const gpu::Work work{.dispatches = plan.commands(), .after = copies, .readback = readback};
  ++submits;
  if (diagnostics && diagnostics->traces()) {
    const double start_us = diagnostics->now_us();
    diagnostics->timed(start_us, submit_timed(plan, {}, work));
  } else {
    loaded->compiled.device->submit(work);
  }
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
    const BoundDispatch& d = plan.dispatches()[commands.empty() ? i : commands[i]];
    out.push_back({plan.names()[static_cast<size_t>(d.node)].name, d.kernel->name, d.variant,
                   times[i].begin_ns - times[0].begin_ns, times[i].end_ns - times[0].begin_ns});
  }
  return out;
}

void Executable::Impl::finish_active() {
  if (!active) return;
  const std::shared_ptr<Runner> runner = std::move(active);
  active.reset();
  try {
    runner->advance(true);
  } catch (const Error&) {
    // Whoever waits for that run is told.
  }
}

std::shared_ptr<Runner> Executable::Impl::start(const std::shared_ptr<DevicePlan>& plan,
                                                std::vector<DispatchReport>* times,
                                                std::function<gpu::Readback*()> read) {
  loaded->weights.finish_loading();
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
    report_run(*plan);
  };
  active = std::make_shared<Runner>(loaded->compiled.device, plan, submit_part, finish);
  active->advance(false);
  return active;
}

namespace {

// Without their data: a uniform tensor is written out only when its size is known to be right.
std::vector<InputRef> input_refs(const NamedTensors& inputs) {
  std::vector<InputRef> refs;
  for (const auto& [name, tensor] : inputs)
    refs.push_back({name, tensor.dtype(), nullptr, tensor.byte_size(), tensor.shape()});
  return refs;
}

void add_data(std::vector<InputRef>& refs, const NamedTensors& inputs) {
  for (InputRef& ref : refs) ref.data = inputs.find(ref.name)->second.bytes().data();
}

}  // namespace

NamedTensors Executable::run(const NamedTensors& inputs, SymbolList symbols) {
  return run_async(inputs, {}, symbols).get();
}

Run Executable::run_async(const NamedTensors& inputs, const std::vector<std::string>& outputs,
                          SymbolList symbols) {
  Impl& self = impl();
  std::vector<InputRef> refs = input_refs(inputs);
  const std::lock_guard lock(self.mutex);
  const std::shared_ptr<DevicePlan> plan = self.plan_for_run(refs, symbols);
  add_data(refs, inputs);
  auto run = std::make_shared<Run::Impl>(self.loaded->compiled.graph->outputs(), outputs);
  for (const std::string& name : run->names()) plan->output(name);  // an error if there is none
  self.upload_inputs(*plan, refs);
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
    if (run->zeros) self.copies.clear();
    if (total > 0 && !run->zeros) run->readback = self.loaded->compiled.device->readback(total);
    return run->readback ? &run->readback : nullptr;
  };
  if (plan->has_segments()) {
    run->runner = self.start(plan, nullptr, [read, run] { return read(); });
  } else {
    self.submit(*plan, read());
  }
  return Run(std::move(run));
}

void Executable::run(List<InputRef> inputs, List<OutputRef> outputs, SymbolList symbols) {
  Impl& self = impl();
  gpu::Readback readback;
  {
    const std::lock_guard lock(self.mutex);
    const std::shared_ptr<DevicePlan> plan = self.plan_for_run(inputs, symbols);
    const auto check_outputs = [&] {
      for (const OutputRef& out : outputs) {
        const DevicePlan::OutputSlot& slot = plan->output(out.name);
        if (out.dtype != slot.type.dtype || out.bytes != slot.host_bytes) {
          fail(ErrorKind::invalid_argument,
               "the output '{}' is {}, {} bytes, but memory for {} bytes of {} was given", slot.name,
               slot.type.text(), slot.host_bytes, out.bytes, to_string(out.dtype));
        }
      }
    };
    const auto read = [&]() -> gpu::Readback* {
      uint64_t total = 0;
      check_outputs();
      for (const OutputRef& out : outputs) self.add_readback(*plan, plan->output(out.name), total);
      if (self.loaded->compiled.options.debug.dispatch_only) {
        self.copies.clear();
      } else if (total > 0) {
        readback = self.loaded->compiled.device->readback(total);
      }
      return readback ? &readback : nullptr;
    };
    if (plan->has_segments()) {
      self.upload_inputs(*plan, inputs);
      self.start(plan, nullptr, read)->advance(true);
      self.active.reset();
    } else {
      check_outputs();  // before anything is changed
      self.upload_inputs(*plan, inputs);
      self.submit(*plan, read());
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
  for (const OutputRef& out : outputs) {
    const uint64_t size = out.bytes / host_bytes(out.dtype) * device_bytes(out.dtype);
    from_device(out.dtype, bytes.subspan(offset, size), {static_cast<std::byte*>(out.data), out.bytes});
    offset += readback_bytes(size);
  }
}

std::vector<DispatchReport> Executable::profile(const NamedTensors& inputs, SymbolList symbols) {
  Impl& self = impl();
  std::vector<InputRef> refs = input_refs(inputs);
  const std::lock_guard lock(self.mutex);
  const std::shared_ptr<DevicePlan> plan = self.plan_for_run(refs, symbols);
  add_data(refs, inputs);
  self.upload_inputs(*plan, refs);
  if (plan->has_segments()) {
    std::vector<DispatchReport> times;
    self.start(plan, &times, []() -> gpu::Readback* { return nullptr; })->advance(true);
    self.active.reset();
    return times;
  }
  self.loaded->weights.finish_loading();
  ++self.submits;
  return self.submit_timed(*plan, {}, {.dispatches = plan->commands()});
}

// --- The other members ---

Executable::Executable(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Executable::Executable(Executable&&) noexcept = default;
Executable& Executable::operator=(Executable&&) noexcept = default;
Executable::~Executable() = default;
Executable::Impl::~Impl() { finish_active(); }

Executable::Impl& Executable::impl() const {
  if (!impl_) fail(ErrorKind::invalid_argument, "an Executable was used after it was moved from");
  return *impl_;
}

std::vector<TensorInfo> Executable::inputs() const {
  return leaves(impl().source, LeafKind::input, impl().options.symbols);
}
std::vector<TensorInfo> Executable::params() const { return impl().params; }
std::vector<TensorInfo> Executable::states() const {
  return leaves(impl().source, LeafKind::state, impl().options.symbols);
}
std::vector<TensorInfo> Executable::outputs() const {
  std::vector<TensorInfo> out;
  for (const Graph::Output& o : impl().source.outputs()) {
    const TensorType& type = impl().source.type(o.value);
    out.push_back({o.name, {value_dtype(type.dtype), type.shape.bind(impl().options.symbols)}});
  }
  return out;
}

void Executable::Impl::check_param_shape(std::string_view name, const Tensor& value) const {
  const auto param = std::ranges::find(params, name, &TensorInfo::name);
  if (param == params.end()) return;  // reported by set_param
  if (param->type.shape.is_static() && param->type.shape.values() != value.shape()) {
    fail(ErrorKind::invalid_argument, "the param '{}' is {}, but {} was given", name, param->type.text(),
         value.type_text());
  }
}

void Executable::Impl::set_param(std::string_view name, DType dtype, std::span<const std::byte> bytes) {
  // A pass may have found a param unused; it is still the graph's, and setting it is not a mistake.
  const bool is_param = std::ranges::contains(params, name, &TensorInfo::name);
  if (is_param && !loaded->weights.has_param(name)) return;
  finish_active();
  loaded->weights.set_param(name, dtype, bytes);
}

void Executable::set_param(std::string_view name, const Tensor& value) {
  impl().check_param_shape(name, value);
  set_param(name, value.dtype(), value.bytes());
}

void Executable::set_param(std::string_view name, DType dtype, std::span<const std::byte> bytes) {
  const std::lock_guard lock(impl().mutex);
  impl().set_param(name, dtype, bytes);
}

void Executable::set_params(const NamedTensors& values) {
  Impl& self = impl();
  for (const auto& [name, value] : values) self.check_param_shape(name, value);
  const std::lock_guard lock(self.mutex);
  for (const auto& [name, value] : values) self.set_param(name, value.dtype(), value.bytes());
}

void Executable::feed(std::string_view input, std::string_view output) {
  Impl& self = impl();
  const std::lock_guard lock(self.mutex);
  const Graph& g = *self.loaded->compiled.graph;
  const int32_t node = g.find(input);
  if (node < 0 || !g.node(node).op->is(LeafKind::input)) {
    fail(ErrorKind::invalid_argument, "the graph '{}' has no input named '{}'", g.name, input);
  }
  const auto out = std::ranges::find(g.outputs(), output, &Graph::Output::name);
  if (out == g.outputs().end())
    fail(ErrorKind::invalid_argument, "the graph '{}' has no output named '{}'", g.name, output);
  const TensorType made = value_type(g.type(out->value));
  if (!(made == g.node(node).outputs[0])) {
    fail(ErrorKind::invalid_argument, "the output '{}' ({}) cannot feed the input '{}' ({})", output,
         made.text(), input, g.node(node).outputs[0].text());
  }
  self.feeds.push_back({std::string(input), std::string(output)});
}

Tensor Executable::read_state(std::string_view name) const {
  const std::lock_guard lock(impl().mutex);
  impl().finish_active();
  return impl().loaded->weights.read_state(name);
}

void Executable::write_state(std::string_view name, const Tensor& value) {
  const std::lock_guard lock(impl().mutex);
  impl().finish_active();
  impl().loaded->weights.write_state(name, value);
}

void Executable::reset_states() {
  const std::lock_guard lock(impl().mutex);
  impl().finish_active();
  impl().loaded->weights.reset_states();
}

std::shared_ptr<const Graph> Executable::graph() const {
  const std::lock_guard lock(impl().mutex);
  return impl().loaded->compiled.graph;
}

std::string Executable::plan_text(const SymbolValues& symbols) const {
  const std::lock_guard lock(impl().mutex);
  impl().finish_active();
  const auto plan = impl().loaded->plan_for(symbols);
  return impl().plan_text(*plan);
}

PlanReport Executable::plan_report(const SymbolValues& symbols) const {
  const std::lock_guard lock(impl().mutex);
  impl().finish_active();
  return impl().plan_report(*impl().loaded->plan_for(symbols));
}

int64_t Executable::dispatch_count() const {
  const std::lock_guard lock(impl().mutex);
  impl().finish_active();
  return impl().loaded->last ? std::ssize(impl().loaded->last->dispatches()) : 0;
}

int64_t Executable::load_dispatch_count() const {
  const std::lock_guard lock(impl().mutex);
  return std::ssize(impl().loaded->weights.load_dispatches());
}

int64_t Executable::submit_count() const {
  const std::lock_guard lock(impl().mutex);
  return impl().submits;
}

int64_t Executable::plan_count() const {
  const std::lock_guard lock(impl().mutex);
  return impl().plans_before + impl().loaded->plans.made();
}

int64_t Executable::relowered_count() const {
  const std::lock_guard lock(impl().mutex);
  impl().finish_active();
  return impl().loaded->plans.relowered();
}

MemoryReport Executable::memory() const {
  const std::lock_guard lock(impl().mutex);
  impl().finish_active();
  return impl().memory_report(impl().loaded->last.get());
}

Tensor Executable::value(std::string_view node, int32_t output) const {
  const std::lock_guard lock(impl().mutex);
  impl().finish_active();
  if (!impl().loaded->compiled.options.keep_intermediates || !impl().loaded->last) {
    fail(ErrorKind::invalid_argument,
         "values can be read only after a run of a graph compiled with keep_intermediates");
  }
  return impl().loaded->last->read_value(node, output);
}

}  // namespace rlx
