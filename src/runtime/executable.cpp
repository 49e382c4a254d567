#include "runtime/executable.h"

#include <algorithm>
#include <cmath>

#include "base/border.h"
#include "base/fail.h"
#include "ir/op.h"
#include "ir/subgraphs.h"
#include "ops/machinery/flops.h"
#include "runtime/compile_graph.h"
#include "runtime/device_access.h"
#include "runtime/pending_work.h"
#include "runtime/transfer.h"

namespace rlx {

// --- Compiling ---

DeviceSide::DeviceSide(CompiledGraph compiled_graph, std::shared_ptr<Store::Impl> params)
    : compiled(std::move(compiled_graph)),
      store(std::move(params)),
      weights(store, compiled.split, compiled.target),
      symbols(*compiled.graph),
      plans(compiled, weights) {}

namespace {

Task<std::shared_ptr<DeviceSide>> try_making_device_side(const CompiledGraph& compiled,
                                                         std::shared_ptr<Store::Impl> store) {
  auto made = std::make_shared<DeviceSide>(compiled, std::move(store));
  co_await made->weights.load_constants(made->compiled.split);
  if (made->symbols.empty()) made->last = co_await made->plan_for(SymbolValues{});
  co_return made;
}

Task<std::shared_ptr<DeviceSide>> make_device_side(CompiledGraph compiled,
                                                   std::shared_ptr<Store::Impl> store) {
  co_return co_await Store::Impl::with_room_later(store->device, {}, nullptr,
                                                  [&] { return try_making_device_side(compiled, store); });
}

// Of one executable.
std::shared_ptr<Store::Impl> own_store(const Device& device) {
  return Store::Impl::make(DeviceAccess::get(device), false);
}

class CompileWork final : public PendingWork<Executable> {
 public:
  CompileWork(std::shared_ptr<Store::Impl> store, const Graph& source, const CompileOptions& options)
      : store_(std::move(store)),
        source_(source),
        options_(options),
        task_(make_device_side(compile_graph(*store_->device, source, options), store_)) {
    position_.cancelled = &cancelled_;
  }
  gpu::Device* device() override { return store_->device.get(); }

 private:
  const char* what() const override { return "the compilation"; }
  bool step(bool block) override { return task_.advance(position_, block); }
  Executable result() override {
    return ExecutableAccess::make(std::make_unique<Executable::Impl>(source_, options_, task_.take()));
  }
  void stop() override { task_ = {}; }
  ProgressReport step_progress() const override {
    return position_.awaited ? position_.awaited->progress() : ProgressReport{};
  }

  std::shared_ptr<Store::Impl> store_;
  Graph source_;
  CompileOptions options_;
  TaskPosition position_;
  Task<std::shared_ptr<DeviceSide>> task_;
};

Pending<Executable> start_compiling(std::shared_ptr<Store::Impl> store, const Graph& graph,
                                    const CompileOptions& options) {
  auto work = std::make_shared<CompileWork>(std::move(store), graph, options);
  work->advance(false);  // begins
  return Pending<Executable>(std::move(work));
}

}  // namespace

Executable compile(const Graph& graph, const Device& device, const CompileOptions& options) {
  return compile_async(graph, device, options).get();
}

Executable compile(const Graph& graph, const Store& store, const CompileOptions& options) {
  return compile_async(graph, store, options).get();
}

Pending<Executable> compile_async(const Graph& graph, const Device& device,
                                  const CompileOptions& options) try {
  return start_compiling(own_store(device), graph, options);
} catch (...) {
  throw_as_error("compiling a graph");
}

Pending<Executable> compile_async(const Graph& graph, const Store& store, const CompileOptions& options) try {
  return start_compiling(StoreAccess::get(store), graph, options);
} catch (...) {
  throw_as_error("compiling a graph");
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
                       std::shared_ptr<DeviceSide> made)
    : source(source_graph),
      options(compile_options),
      params(leaves(source, LeafKind::param, options.symbols)),
      device_side(std::move(made)) {
  const DebugOptions& debug = device_side->compiled.options.debug;
  if (Diagnostics::wanted(debug)) diagnostics = std::make_unique<Diagnostics>(debug, source.name);
  if (device_side->last) report_if_new(*device_side->last);
  const TuningOptions& tuning = device_side->compiled.options.tuning;
  const gpu::Device& device = *device_side->store->device;
  const std::optional<TuningFile> file = TuningFile::in_folder(device.cache_folder());
  if (tuning.background && tuning.records && file && device.caps().timestamps)
    tuner = std::make_unique<BackgroundTuner>(*file);
  const std::lock_guard lock(device_side->store->mutex);
  device_side->store->users.push_back(this);
}

Executable::Impl::Lock Executable::Impl::lock() {
  std::unique_lock own(mutex);
  std::unique_lock store(device_side->store->mutex);
  return {std::move(own), std::move(store)};
}

void Executable::Impl::load_into(const std::shared_ptr<Store::Impl>& store) {
  const std::shared_ptr<DeviceSide> fresh =
      blocking(make_device_side(compile_graph(*store->device, source, options), store));
  const std::lock_guard own(mutex);
  const std::shared_ptr<DeviceSide> before = device_side;
  {
    const std::lock_guard lock(before->store->mutex);
    finish_active();
    std::erase(before->store->users, this);
    if (tuner) tuner->forget_plan();
    plans_before += before->plans.made();
    plans_reported = 0;
    own_context.reset();
    for (Feed& feed : feeds) feed.value = feed.next = std::nullopt;
  }
  const std::lock_guard lock(fresh->store->mutex);
  device_side = fresh;
  device_side->store->users.push_back(this);
  if (device_side->last) report_if_new(*device_side->last);
}

void Executable::rebuild(const Device& device) try { impl().load_into(own_store(device)); } catch (...) {
  throw_as_error("rebuilding an executable");
}

void Executable::rebuild(const Store& store) try { impl().load_into(StoreAccess::get(store)); } catch (...) {
  throw_as_error("rebuilding an executable");
}

// --- Plans ---

Task<std::shared_ptr<DevicePlan>> DeviceSide::plan_for(const SymbolValues& values) {
  symbols.bind(values);
  co_return co_await plans.get(symbols);
}

void Executable::Impl::drop_plans() {
  if (tuner) tuner->forget_plan();
  device_side->last.reset();
  device_side->plans.clear();
}

void Executable::Impl::report_if_new(const DevicePlan& plan) {
  if (!diagnostics || plans_reported == device_side->plans.made()) return;
  plans_reported = device_side->plans.made();
  diagnostics->planned(plan_report(plan), plan_text(plan));
}

MemoryReport Executable::Impl::memory_report(const DevicePlan* plan) const {
  MemoryReport report{.weight_bytes = device_side->weights.weight_bytes(),
                      .derived_bytes = device_side->weights.derived_bytes(),
                      .state_bytes = device_side->weights.state_bytes()};
  if (!plan) return report;
  report.derived_bytes += plan->plan().table_bytes;
  report.input_bytes = plan->plan().input_bytes;
  report.intermediate_bytes = plan->plan().arena_bytes;
  report.lower_bound_bytes = plan->plan().lower_bound_bytes;
  return report;
}

namespace {

int64_t submits_of(const DevicePlan& plan) {
  const size_t count = plan.dispatches().size();
  int64_t submits = 0;
  for (size_t first = 0; first < count; first = plan.end_of_submit({}, first, count)) ++submits;
  return submits;
}

}  // namespace

PlanReport Executable::Impl::plan_report(const DevicePlan& plan) const {
  const auto steps = [](const std::vector<BoundDispatch>& dispatches,
                        const std::vector<Program::NodeName>& names, const Graph* graph) {
    std::vector<StepReport> out;
    for (const BoundDispatch& d : dispatches) {
      const Program::NodeName& n = names[static_cast<size_t>(d.node)];
      StepReport& step = out.emplace_back(n.name, n.op, d.kernel->name, d.variant.text());
      if (!step.variant.empty()) {
        step.reason = to_string(d.variant.reason);
        step.expected_ns = std::isfinite(d.variant.ns) ? d.variant.ns : 0;
      }
      std::ranges::copy(d.grid, step.grid);
      step.bindings = std::ssize(d.ranges);
      for (const BoundRange& r : d.ranges) step.bytes += r.bytes;
      if (graph && d.node < graph->size()) step.node_flops = node_flops(*graph, graph->node(d.node));
    }
    return out;
  };
  std::vector<StepReport> run = steps(plan.dispatches(), plan.names(), &plan.graph());
  for (size_t i = 0; i < run.size(); ++i) run[i].too_long = plan.is_too_long(i);
  return {.load = steps(device_side->weights.load_dispatches(), device_side->weights.load_names(), nullptr),
          .run = std::move(run),
          .control = plan.control(),
          .submits = submits_of(plan),
          .memory = memory_report(&plan),
          .storages = plan.storages(),
          .reason = device_side->plans.reason()};
}

std::string Executable::Impl::plan_text(const DevicePlan& plan) const {
  std::string out;
  const std::vector<BoundDispatch>& load = device_side->weights.load_dispatches();
  if (!load.empty()) {
    out += formatted("load phase ({} dispatches)\n", load.size()) +
           to_text(load, device_side->weights.load_names());
  }
  out += formatted("each run ({} dispatches)\n", plan.dispatches().size()) +
         to_text(plan.dispatches(), plan.names());
  const MemoryReport m = memory_report(&plan);
  return out +
         formatted(
             "memory: inputs {} bytes, intermediates {} bytes (lower bound {}), derived weights {} bytes\n",
             m.input_bytes, m.intermediate_bytes, m.lower_bound_bytes, m.derived_bytes);
}

// --- The other members ---

Executable::Executable(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Executable::Executable(Executable&&) noexcept = default;
Executable& Executable::operator=(Executable&&) noexcept = default;
Executable::~Executable() = default;
Executable::Impl::~Impl() {
  const std::lock_guard lock(device_side->store->mutex);
  // A run that somebody can still ask for is taken to its last submit.
  if (active && active->keep.use_count() == 1) active->cancel();
  finish_active();
  std::erase(device_side->store->users, this);
}

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

void Executable::Impl::check_state(std::string_view name) {
  const Lock held = lock();
  device_side->weights.state_type(name);
}

// A pass may have found a param unused; it is still the graph's, and setting it is not a mistake.
bool Executable::Impl::is_unused(std::string_view param) const {
  if (device_side->weights.param_type(param)) return false;
  if (std::ranges::contains(params, param, &TensorInfo::name)) return true;
  const std::string known = excerpt(joined(params, &TensorInfo::name), 200);
  fail(ErrorKind::invalid_argument, "the graph has no param named '{}' (it has: {})", param,
       known.empty() ? "none" : known);
}

void Executable::set_param(std::string_view name, const Tensor& value) try {
  Impl& self = impl();
  self.check_param_shape(name, value);
  const Impl::Lock lock = self.lock();
  Store::Impl& store = *self.device_side->store;
  if (!self.is_unused(name) || store.keeps_sources) store.set({{name, value}});
} catch (...) {
  throw_as_error("setting a param");
}

void Executable::set_param(std::string_view name, DType dtype, std::span<const std::byte> bytes) try {
  Impl& self = impl();
  const Impl::Lock lock = self.lock();
  Store::Impl& store = *self.device_side->store;
  if (self.is_unused(name)) return;
  const TensorType& type = *self.param_type(name);
  if (const size_t wanted = host_bytes_of(dtype, type.shape.elements().value()); bytes.size() != wanted) {
    fail(ErrorKind::invalid_argument, "the param '{}' is {}, {} bytes, but {} bytes were given", name,
         type.text(), wanted, bytes.size());
  }
  // The caller's memory is read during this call only.
  store.set({{name, store.keeps_sources
                        ? Tensor(dtype, type.shape.values(), std::vector(bytes.begin(), bytes.end()))
                        : Tensor(dtype, type.shape.values(), bytes, nullptr)}});
} catch (...) {
  throw_as_error("setting a param");
}

void Executable::set_params(const NamedTensors& values) try {
  Impl& self = impl();
  for (const auto& [name, value] : values) self.check_param_shape(name, value);
  const Impl::Lock lock = self.lock();
  Store::Impl& store = *self.device_side->store;
  std::vector<Store::Impl::NewValue> used;
  for (const auto& [name, value] : values) {
    if (!self.is_unused(name) || store.keeps_sources) used.push_back({name, value});
  }
  store.set(std::move(used));
} catch (...) {
  throw_as_error("setting params");
}

void Executable::feed(std::string_view input, std::string_view output) try {
  Impl& self = impl();
  const Impl::Lock lock = self.lock();
  const Graph& g = *self.device_side->compiled.graph;
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
  self.finish_active();  // its last submit reads the feeds
  const auto known = std::ranges::find(self.feeds, input, &Impl::Feed::input);
  if (known == self.feeds.end()) {
    self.feeds.push_back({std::string(input), std::string(output)});
  } else {
    known->output = output;
  }
} catch (...) {
  throw_as_error("feeding an input");
}

const std::shared_ptr<Context::Impl>& Executable::Impl::context_of(const Context* context) {
  if (context) {
    const std::shared_ptr<Context::Impl>& given = ContextAccess::get(*context);
    if (given->device != device_side->store->device)
      fail(ErrorKind::invalid_argument, "the context is on another device than the executable");
    return given;
  }
  if (!own_context) own_context = Context::Impl::make(device_side->store->device);
  return own_context;
}

Context Executable::context() const try {
  const Impl::Lock lock = impl().lock();
  const std::shared_ptr<Context::Impl>& own = impl().context_of(nullptr);
  impl().device_side->weights.states_in(own);
  return ContextAccess::make(own);
} catch (...) {
  throw_as_error("making a context");
}

Tensor Executable::read_state(std::string_view name) const try {
  impl().check_state(name);
  return context().read(name);
} catch (...) {
  throw_as_error("reading a state");
}

void Executable::write_state(std::string_view name, const Tensor& value) try {
  impl().check_state(name);
  context().write(name, value);
} catch (...) {
  throw_as_error("writing a state");
}

void Executable::reset_states() try { context().reset(); } catch (...) {
  throw_as_error("resetting states");
}

std::shared_ptr<const Graph> Executable::graph() const {
  const Impl::Lock lock = impl().lock();
  return impl().device_side->compiled.graph;
}

std::string Executable::plan_text(const SymbolValues& symbols) const try {
  const Impl::Lock lock = impl().lock();
  impl().finish_active();
  const auto plan = blocking(impl().device_side->plan_for(symbols));
  return impl().plan_text(*plan);
} catch (...) {
  throw_as_error("printing a plan");
}

PlanReport Executable::plan_report(const SymbolValues& symbols) const try {
  const Impl::Lock lock = impl().lock();
  impl().finish_active();
  return impl().plan_report(*blocking(impl().device_side->plan_for(symbols)));
} catch (...) {
  throw_as_error("describing a plan");
}

std::string Executable::choices() const {
  Impl& self = impl();
  const std::lock_guard own(self.mutex);
  return self.device_side->compiled.known->choices();
}

int64_t Executable::dispatch_count() const {
  const Impl::Lock lock = impl().lock();
  impl().finish_active();
  return impl().device_side->last ? std::ssize(impl().device_side->last->dispatches()) : 0;
}

int64_t Executable::plan_count() const {
  const Impl::Lock lock = impl().lock();
  return impl().plans_before + impl().device_side->plans.made();
}

MemoryReport Executable::memory() const {
  const Impl::Lock lock = impl().lock();
  impl().finish_active();
  return impl().memory_report(impl().device_side->last.get());
}

Tensor Executable::value(std::string_view node, int32_t output) const try {
  const Impl::Lock lock = impl().lock();
  impl().finish_active();
  if (!impl().device_side->compiled.options.keep_intermediates || !impl().device_side->last) {
    fail(ErrorKind::invalid_argument,
         "values can be read only after a run of a graph compiled with keep_intermediates");
  }
  return impl().device_side->last->read_value(node, output);
} catch (...) {
  throw_as_error("reading a value");
}

}  // namespace rlx
