#include "runtime/executable.h"

#include <algorithm>
#include <cstring>

#include "base/flags.h"
#include "ir/op.h"
#include "ops/op_table.h"
#include "passes/passes.h"

namespace rlx {
namespace {

ForcedVariants forced_variants(const CompileOptions& options) {
  ForcedVariants forced = options.kernels;
  const std::string text = env_text("RLX_KERNELS");
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string item = text.substr(at, end - at);
    const size_t equals = item.find('=');
    if (equals == std::string::npos) {
      fail(ErrorKind::invalid_argument, "RLX_KERNELS has the item '{}'; it must be op=variant", item);
    }
    forced.emplace(item.substr(0, equals), item.substr(equals + 1));
    at = end + 1;
  }
  // A name that no op knows would be ignored in silence: refuse it.
  for (const auto& [op, variant] : forced) op_table().check_variant(op, variant);
  return forced;
}

// The environment is read here, once for each executable, and nowhere later.
CompileOptions with_environment(CompileOptions options) {
  options.packed_attention &= !env_flag("RLX_WGPU_NO_PACKED_BSHD_ATTN");
  options.matmul_f32_only |= env_flag("RLX_WGPU_MATMUL_F32_ONLY");
  options.force_input_upload |= env_flag("RLX_WGPU_FORCE_INPUT_UPLOAD");
  options.debug = with_environment(std::move(options.debug));
  // Values that are looked at after a run must not have been overwritten during it.
  options.keep_intermediates |= options.debug.nan_trace || options.debug.dump_nodes != 0;
  return options;
}

std::string dims_text(std::span<const int64_t> dims) {
  return Shape::of(std::vector<int64_t>(dims.begin(), dims.end())).text();
}

}  // namespace

Executable::Impl::Impl(std::shared_ptr<gpu::Device> d, const Graph& source_graph,
                       const CompileOptions& compile_options)
    : device(std::move(d)),
      options(with_environment(compile_options)),
      forced(forced_variants(compile_options)),
      source(source_graph) {
  verify(source);
  if (!options.debug.trace_path.empty() && !device->caps().timestamps) {
    fail(ErrorKind::unsupported, "a trace to '{}' is wanted, but the device '{}' has no timestamps",
         options.debug.trace_path, device->info().name);
  }
  if (Diagnostics::wanted(options.debug))
    diagnostics = std::make_unique<Diagnostics>(options.debug, source.name);
  for (const auto& [symbol, value] : options.bindings) {
    if (!source.symbols().contains(symbol)) {
      fail(ErrorKind::invalid_argument, "the graph '{}' has no symbol named '{}'", source.name, symbol);
    }
  }
  graph = options.bindings.empty() ? source : rlx::bind_symbols(source, options.bindings);
  graph = inline_calls(graph);
  if (options.optimize) {
    const PassOptions passes{
        .packed_attention = options.packed_attention,
        .max_region_inputs = static_cast<int64_t>(device->caps().max_storage_buffers) - 1};
    graph = optimize(graph, passes);
    verify(graph);
  }
  weights = std::make_unique<Weights>(device, graph);
  for (const std::string& name : graph.symbols()) {
    const auto it = graph.capacities().find(name);
    symbols.push_back({name, -1, it == graph.capacities().end() ? 0 : it->second});
  }
  if (symbols.empty()) last = &instance_for(Bindings{});
}

std::unique_ptr<Instance> Executable::Impl::make_instance(const Bindings& capacities, Graph now,
                                                          Program program) {
  PlanOptions plan_options{.keep_all = options.keep_intermediates};
  Program at_capacity;
  if (!capacities.empty()) {
    try {
      const Graph largest = materialize_views(rlx::bind_symbols(graph, capacities));
      at_capacity = lower(largest, device->caps(), forced);
      reserve(program, now, at_capacity, largest);
      plan_options.largest = &at_capacity;
    } catch (const Error& e) {
      std::string text;
      for (const auto& [name, value] : capacities)
        text += std::format("{}{} = {}", text.empty() ? "" : ", ", name, value);
      throw e.within("while planning for the capacities (" + text + ")");
    }
  }
  auto instance =
      std::make_unique<Instance>(device, *weights, std::move(now), std::move(program), plan_options);
  ++plans_made;
  if (diagnostics) {
    diagnostics->planned(plan_report(*instance),
                         print(instance->plan(), instance->program(), instance->graph()));
  }
  return instance;
}

Instance& Executable::Impl::instance_for(const Bindings& bindings) {
  Bindings key = bindings;
  for (const Symbol& s : symbols) {
    if (s.capacity > 0 && key.contains(s.name)) key[s.name] = s.capacity;
  }
  const auto use = [&](std::list<Plan>::iterator it) -> Instance& {
    plans.splice(plans.begin(), plans, it);
    return *it->instance;
  };
  const auto same = std::ranges::find(plans, bindings, &Plan::current);
  if (same != plans.end()) return use(same);

  Graph now = materialize_views(rlx::bind_symbols(graph, bindings));
  Program program = lower(now, device->caps(), forced);
  // A length that changes the kernels themselves (a matmul with one row) has a plan of its own under the same
  // key.
  for (auto it = plans.begin(); it != plans.end(); ++it) {
    if (it->key != key || !it->instance->retarget(now, program)) continue;
    it->current = bindings;
    return use(it);
  }
  plans.push_front(
      {key, bindings, make_instance(key == bindings ? Bindings{} : key, std::move(now), std::move(program))});
  while (static_cast<int64_t>(plans.size()) > std::max<int64_t>(options.max_plans, 1)) {
    if (last == plans.back().instance.get()) last = nullptr;
    plans.pop_back();
  }
  return *plans.front().instance;
}

// Reads the value of each symbol off the shapes of the inputs.
void Executable::Impl::bind_symbols(std::span<const InputRef> inputs, SymbolRefs given) {
  for (Symbol& s : symbols) s.value = -1;
  const auto set = [&](std::string_view name, int64_t value, std::string_view from) {
    const auto it = std::ranges::find(symbols, name, &Symbol::name);
    if (it == symbols.end()) fail(ErrorKind::invalid_argument, "the graph has no symbol named '{}'", name);
    if (it->value >= 0 && it->value != value) {
      fail(ErrorKind::invalid_argument, "'{}' makes the symbol '{}' {}, but it is {} elsewhere in this run",
           from, name, value, it->value);
    }
    if (it->capacity > 0 && value > it->capacity) {
      fail(ErrorKind::invalid_argument, "'{}' makes the symbol '{}' {}, more than its capacity {}", from,
           name, value, it->capacity);
    }
    it->value = value;
  };
  for (const auto& [name, value] : given) set(name, value, "the symbols given");
  for (const InputRef& in : inputs) {
    const int32_t node = graph.find(in.name);
    if (node < 0 || graph.node(node).op->name() != Input::kName)
      continue;  // reported when inputs are uploaded
    const Shape& shape = graph.node(node).outputs[0].shape;
    if (shape.is_static()) continue;
    if (!in.dims.empty()) {
      if (static_cast<int64_t>(in.dims.size()) != shape.rank()) {
        fail(ErrorKind::invalid_argument, "the input '{}' is {}, but {} was given", in.name, shape.text(),
             dims_text(in.dims));
      }
      for (int64_t axis = 0; axis < shape.rank(); ++axis) {
        if (const auto name = shape[axis].as_symbol())
          set(*name, in.dims[static_cast<size_t>(axis)], in.name);
      }
      continue;
    }
    // Without dims, the number of elements tells one unknown symbol.
    int64_t known = 1;
    std::string unknown;
    for (const Dim& d : shape) {
      const auto name = d.as_symbol();
      const auto it = name ? std::ranges::find(symbols, *name, &Symbol::name) : symbols.end();
      if (d.is_static()) {
        known *= d.value();
      } else if (it != symbols.end() && it->value >= 0) {
        known *= it->value;
      } else if (name && unknown.empty()) {
        unknown = *name;
      } else {
        fail(ErrorKind::invalid_argument,
             "the input '{}' is {}: give its dims, its length alone does not tell them", in.name,
             shape.text());
      }
    }
    const auto count = static_cast<int64_t>(in.bytes / host_bytes(in.dtype));
    if (!unknown.empty()) {
      if (known == 0 || count % known != 0) {
        fail(ErrorKind::invalid_argument, "the input '{}' is {}, which {} elements can not fill", in.name,
             shape.text(), count);
      }
      set(unknown, count / known, in.name);
    }
  }
  for (const Symbol& s : symbols) {
    if (s.value < 0)
      fail(ErrorKind::invalid_argument, "no input of this run tells the symbol '{}'; give its value", s.name);
  }
}

Instance& Executable::Impl::instance_for(std::span<const InputRef> inputs, SymbolRefs given) {
  if (symbols.empty()) {
    last = plans.front().instance.get();
    return *last;
  }
  bind_symbols(inputs, given);
  // The plan that ran last usually fits: compare without building a map.
  if (!plans.empty()) {
    const Bindings& current = plans.front().current;
    size_t i = 0;
    const bool same = current.size() == symbols.size() && std::ranges::all_of(current, [&](const auto& item) {
                        const Symbol& s = symbols[i++];
                        return s.name == item.first && s.value == item.second;
                      });
    if (same) return *(last = plans.front().instance.get());
  }
  Bindings bindings;
  for (const Symbol& s : symbols) bindings[s.name] = s.value;
  last = &instance_for(bindings);
  return *last;
}

void Executable::Impl::upload_inputs(Instance& instance, std::span<const InputRef> inputs) {
  for (const InputRef& in : inputs) {
    if (!std::ranges::contains(instance.inputs(), in.name, &Instance::InputSlot::name)) {
      fail(ErrorKind::invalid_argument, "the graph '{}' has no input named '{}'", graph.name, in.name);
    }
  }
  for (Instance::InputSlot& slot : instance.inputs()) {
    const auto it = std::ranges::find(inputs, slot.name, &InputRef::name);
    if (it == inputs.end()) {
      if (slot.resident && !options.force_input_upload) continue;
      fail(ErrorKind::invalid_argument, "the input '{}' ({}) was not given", slot.name, slot.type.text());
    }
    if (it->dtype != slot.type.dtype) {
      fail(ErrorKind::invalid_argument, "the input '{}' has type {}, but {} values were given", slot.name,
           to_string(slot.type.dtype), to_string(it->dtype));
    }
    bool fits = true;
    int64_t elements = 1;
    for (int64_t axis = 0; axis < slot.type.shape.rank(); ++axis) {
      const int64_t size = slot.type.shape[axis].value();
      elements *= size;
      fits &= it->dims.empty() || (static_cast<int64_t>(it->dims.size()) == slot.type.shape.rank() &&
                                   it->dims[static_cast<size_t>(axis)] == size);
    }
    if (!fits) {
      fail(ErrorKind::invalid_argument, "the input '{}' is {}, but {} was given", slot.name,
           slot.type.shape.text(), dims_text(it->dims));
    }
    const size_t wanted = static_cast<size_t>(elements) * host_bytes(slot.type.dtype);
    if (it->bytes != wanted) {
      fail(ErrorKind::invalid_argument, "the input '{}' is {}, {} bytes, but {} bytes were given", slot.name,
           slot.type.text(), wanted, it->bytes);
    }
    if (wanted == 0) continue;
    const std::span<const std::byte> bytes(static_cast<const std::byte*>(it->data), it->bytes);
    const gpu::Buffer& buffer = instance.buffer(slot.place.buffer);
    const auto offset = static_cast<uint64_t>(slot.place.offset);
    if (slot.type.dtype == DType::i64) {
      device->write(buffer, offset, to_device(slot.type.dtype, bytes, slot.name));
    } else {
      device->write(buffer, offset, bytes);
    }
  }
}

const Instance::OutputSlot& Executable::Impl::output_slot(Instance& instance, std::string_view name) const {
  const auto it = std::ranges::find(instance.outputs(), name, &Instance::OutputSlot::name);
  if (it == instance.outputs().end()) {
    fail(ErrorKind::invalid_argument, "the graph '{}' has no output named '{}'", graph.name, name);
  }
  return *it;
}

void Executable::Impl::submit(Instance& instance, gpu::Readback* readback,
                              std::span<const std::string_view> outputs) {
  weights->require_all();
  instance.load(*weights);
  copies.clear();
  uint64_t offset = 0;
  for (std::string_view name : outputs) {
    const Instance::OutputSlot& slot = output_slot(instance, name);
    const uint64_t bytes = (slot.device_size + 3) / 4 * 4;
    if (bytes > 0) copies.push_back({&instance.buffer(slot.buffer), slot.offset, nullptr, offset, bytes});
    offset += bytes;
  }
  for (const Feed& feed : feeds) {
    const Instance::OutputSlot& from = output_slot(instance, feed.output);
    const auto to = std::ranges::find(instance.inputs(), feed.input, &Instance::InputSlot::name);
    const uint64_t bytes = (from.device_size + 3) / 4 * 4;
    if (bytes == 0) continue;
    copies.push_back({&instance.buffer(from.buffer), from.offset, &instance.buffer(to->place.buffer),
                      static_cast<uint64_t>(to->place.offset), bytes});
    to->resident = true;
  }
  const gpu::Work work{.dispatches = instance.dispatches(), .after = copies, .readback = readback};
  ++submits;
  if (!diagnostics) {
    device->submit(work);
    return;
  }
  if (diagnostics->traces()) {
    const double start_us = diagnostics->now_us();
    diagnostics->timed(start_us, submit_timed(instance, work));
  } else {
    device->submit(work);
  }
  diagnostics->ran(graph, [&](int32_t node, int32_t output) { return read_value(instance, node, output); });
}

std::vector<DispatchReport> Executable::Impl::submit_timed(const Instance& instance, const gpu::Work& work) {
  const std::vector<gpu::DispatchTime> times = device->submit_timed(work);
  std::vector<DispatchReport> out;
  for (size_t i = 0; i < times.size(); ++i) {
    const BoundDispatch& d = instance.plan().main[i];
    out.push_back({instance.graph().node(d.node).name, d.kernel->name, d.variant,
                   times[i].begin_ns - times[0].begin_ns, times[i].end_ns - times[0].begin_ns});
  }
  return out;
}

const Instance& Executable::Impl::planned_instance(const Bindings& bindings) {
  if (symbols.empty()) return *plans.front().instance;
  for (const Symbol& s : symbols) {
    if (!bindings.contains(s.name)) {
      fail(ErrorKind::invalid_argument, "the plan depends on the symbol '{}'; give its value", s.name);
    }
  }
  return instance_for(bindings);
}

PlanReport Executable::Impl::plan_report(const Instance& instance) const {
  const auto steps = [&](const std::vector<BoundDispatch>& dispatches) {
    std::vector<StepReport> out;
    for (const BoundDispatch& d : dispatches) {
      const Node& n = instance.graph().node(d.node);
      StepReport& step = out.emplace_back(n.name, std::string(n.op->name()), d.kernel->name, d.variant);
      std::ranges::copy(d.grid, step.grid);
      step.bindings = static_cast<int64_t>(d.ranges.size());
      for (const BoundRange& r : d.ranges) step.bytes += r.bytes;
    }
    return out;
  };
  const rlx::Plan& plan = instance.plan();
  return {.load = steps(plan.load),
          .run = steps(plan.main),
          .memory = {.weight_bytes = weights->weight_bytes(),
                     .derived_bytes = plan.derived_bytes,
                     .state_bytes = weights->state_bytes(),
                     .input_bytes = plan.input_bytes,
                     .intermediate_bytes = plan.arena_bytes,
                     .lower_bound_bytes = plan.lower_bound_bytes}};
}

Tensor Executable::Impl::read_value(const Instance& instance, int32_t node, int32_t output) const {
  const std::string& name = graph.node(node).name;
  const ValueId v{instance.graph().find(name), output};
  const Operand& o = instance.program().values.at(v);
  const Placement& place = instance.plan().placements[static_cast<size_t>(o.storage)];
  // Reads the whole storage and applies the view here.
  const auto element = device_bytes(o.dtype);
  std::vector<std::byte> raw(static_cast<size_t>(place.bytes));
  if (place.buffer >= 0)
    device->read(instance.buffer(place.buffer), static_cast<uint64_t>(place.offset), raw);
  std::vector<std::byte> host(static_cast<size_t>(place.bytes) / element * host_bytes(o.dtype));
  from_device(o.dtype, raw, host);
  const size_t host_element = host_bytes(o.dtype);
  std::vector<std::byte> out(static_cast<size_t>(o.view.elements()) * host_element);
  std::vector<int64_t> index(o.view.dims.size(), 0);
  int64_t at = o.view.offset;
  for (size_t i = 0; i * host_element < out.size(); ++i) {
    std::memcpy(out.data() + i * host_element, host.data() + static_cast<size_t>(at) * host_element,
                host_element);
    for (size_t axis = index.size(); axis-- > 0;) {
      at += o.view.strides[axis];
      if (++index[axis] < o.view.dims[axis]) break;
      at -= o.view.strides[axis] * o.view.dims[axis];
      index[axis] = 0;
    }
  }
  return Tensor(o.dtype, o.view.dims, std::move(out));
}

}  // namespace rlx
