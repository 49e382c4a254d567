#include "runtime/pipeline.h"

#include <algorithm>
#include <set>

#include "base/fail.h"
#include "base/flags.h"
#include "ir/op.h"
#include "ir/run_sizes.h"
#include "ir/subgraphs.h"
#include "ops/machinery/op_table.h"
#include "ops/products/product_op.h"
#include "passes/pass_order.h"
#include "runtime/diagnostics.h"
#include "runtime/run_values.h"

namespace rlx {

CompileOptions with_environment(CompileOptions options) {
  if (const std::string text = env_text("RLX_PRECISION"); !text.empty()) {
    try {
      options.precision = parse_precision(text);
    } catch (const Error& e) {
      throw e.within("the environment variable RLX_PRECISION");
    }
  }
  options.packed_attention &= !env_flag("RLX_WGPU_NO_PACKED_BSHD_ATTN");
  options.matmul_f32_only |= env_flag("RLX_WGPU_MATMUL_F32_ONLY");
  options.force_input_upload |= env_flag("RLX_WGPU_FORCE_INPUT_UPLOAD");
  options.debug = with_environment(std::move(options.debug));
  // Values that are inspected after a run must not be overwritten during it.
  options.keep_intermediates |= options.debug.nan_trace || options.debug.dump_nodes != 0;
  return options;
}

namespace {

ForcedVariants forced_kernels(const CompileOptions& options) {
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
  // Refuses unknown names, which would otherwise be ignored silently.
  for (const auto& [op, variant] : forced) op_table().check_variant(op, variant);
  return forced;
}

}  // namespace

Target make_target(const Caps& caps, const CompileOptions& options) {
  return {.caps = caps,
          .precision = options.matmul_f32_only ? Precision::exact : options.precision,
          .deterministic = options.deterministic,
          .forced = forced_kernels(options)};
}

namespace {

void check_device(const CompileOptions& options, const gpu::Device& device) {
  if (!options.debug.trace_path.empty() && !device.caps().timestamps) {
    fail(ErrorKind::unsupported, "a trace to '{}' was requested, but the device '{}' has no timestamps",
         options.debug.trace_path, device.info().name);
  }
}

void check_options(const Graph& source, const CompileOptions& options) {
  if (options.max_plans < 1)
    fail(ErrorKind::invalid_argument, "max_plans is {}; at least one plan is kept", options.max_plans);
  const auto symbols = source.symbols();
  for (const auto& [symbol, largest] : source.capacities()) {
    if (!symbols.contains(symbol))
      fail("the graph '{}' has a capacity for '{}', but no dimension uses that symbol", source.name, symbol);
  }
  const std::map<std::string, RunSymbol> of_run = run_symbols(source);
  for (const auto& [symbol, value] : options.symbols) {
    if (!symbols.contains(symbol))
      fail(ErrorKind::invalid_argument, "the graph '{}' has no symbol named '{}'", source.name, symbol);
    if (const auto it = of_run.find(symbol); it != of_run.end()) {
      fail(ErrorKind::invalid_argument,
           "the node '{}' determines the symbol '{}' in each run; it cannot be given",
           it->second.graph->node(it->second.node).name, symbol);
    }
    if (value < 0)
      fail(ErrorKind::invalid_argument, "the symbol '{}' is {}; it cannot be negative", symbol, value);
  }
}

// All but the device.
CompiledGraph compile_for(Target target, const Graph& source, const CompileOptions& options) {
  target.sizes_vary = !source.symbols().empty();  // also where this compilation binds them
  verify(source);
  check_options(source, options);
  const PassOptions passes{
      .packed_attention = options.packed_attention,
      .max_region_inputs = static_cast<int64_t>(target.caps.max_storage_buffers) - 1,
  };
  Graph graph = options.optimize ? run_optimizing_passes(source, options.symbols, passes)
                                 : run_expanding_passes(source, options.symbols);
  // To inspect every node after a run, every node must be in it.
  LoadSplit split = options.keep_intermediates ? LoadSplit{.load = {}, .main = graph, .joined = {}}
                                               : run_load_phase_passes(graph);
  return {nullptr, options, std::move(target), std::make_shared<const Graph>(std::move(graph)),
          std::move(split)};
}

}  // namespace

std::string symbols_text(const SymbolValues& symbols) {
  return joined(symbols, [](const auto& item) { return formatted("{} = {}", item.first, item.second); });
}

CompiledGraph compile_graph(std::shared_ptr<gpu::Device> device, const Graph& source,
                            const CompileOptions& given) {
  const CompileOptions options = with_environment(given);
  check_device(options, *device);
  CompiledGraph out = compile_for(make_target(device->caps(), options), source, options);
  out.device = std::move(device);
  return out;
}

namespace {

// The symbols in a node's attributes and types, and in the types of its inputs.
std::set<std::string> symbols_near(const Graph& graph, const Node& n) {
  std::set<std::string> used = symbols_of(n);
  for (ValueId v : n.inputs) {
    if (v.is_absent()) continue;
    for (const Dim& d : graph.type(v).shape) d.collect_symbols(used);
  }
  return used;
}

// The nodes that are lowered differently for other values of these symbols: those that have one in their
// types or attributes, and those that read a view of such a node, which may lie elsewhere although its shape
// is the same.
std::vector<int32_t> nodes_with(const Graph& graph, const std::set<std::string>& symbols) {
  std::vector<bool> moves(static_cast<size_t>(graph.size()));  // views that may lie elsewhere
  std::vector<int32_t> out;
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    const bool depends =
        std::ranges::any_of(symbols_near(graph, n), [&](const auto& s) { return symbols.contains(s); }) ||
        std::ranges::any_of(n.inputs,
                            [&](ValueId v) { return !v.is_absent() && moves[static_cast<size_t>(v.node)]; });
    if (!depends) continue;
    out.push_back(id);
    moves[static_cast<size_t>(id)] = n.op->has(Trait::view);
  }
  return out;
}

// Notes which nodes determine run symbols, by the names that lowering gives them.
void name_run_symbols(const Graph& graph, const std::string& prefix, LoweredGraph& lowered) {
  for (const Node& n : graph.nodes()) {
    const std::string name = prefix + n.name;
    if (const std::optional<RunSize> size = n.op->run_size(input_types(graph, n));
        size && size->dim.as_symbol())
      lowered.run_symbols.at(*size->dim.as_symbol()).node = name;
    const std::vector<Subgraph> bodies = n.op->subgraphs();
    for (size_t i = 0; i < bodies.size(); ++i)
      name_run_symbols(*bodies[i].graph, prefix_within(name, *n.op, i), lowered);
  }
}

// The values with 1 for the run symbols of which there are at most two: between them and none there is no
// other length, and one of two has another layout than both.
std::optional<SymbolValues> shorter(const Graph& graph, const RunValues& run) {
  std::optional<SymbolValues> out;
  for (const auto& [name, symbol] : run_symbols(graph)) {
    if (run.capacities.at(name) != 2 || run.typical.at(name) != 2) continue;
    if (!out) out = run.typical;
    (*out)[name] = 1;
  }
  return out;
}

// `values` are those of the caller's symbols; run symbols get a typical one.
LoweredGraph lower_graph(const CompiledGraph& compiled, const SymbolValues& values,
                         const std::set<std::string>& growing) {
  LoweredGraph out;
  const Graph& main = compiled.split.main;
  const RunValues run = run_values(main, values);
  std::vector<SymbolValues> sizes{run.typical};
  if (const auto other = shorter(main, run)) sizes.push_back(*other);
  out.symbolic = run_size_passes(main, sizes, run.capacities);
  out.values = run.typical;
  out.graph = bind_symbols(out.symbolic, run.typical);
  out.changing = nodes_with(out.symbolic, growing);
  for (const auto& [name, symbol] : run_symbols(out.symbolic))
    out.run_symbols[name] = {"", symbol.capacity, nodes_with(out.symbolic, {name})};
  name_run_symbols(out.symbolic, "", out);
  for (int32_t id = 0; id < out.symbolic.size(); ++id) {
    const Node& n = out.symbolic.node(id);
    if (!symbols_near(out.symbolic, n).empty()) out.rebindable.emplace(id, n.op);
  }
  out.bind({}, {});
  out.program = lower(out.sized(), compiled.target);
  return out;
}

// Gives the storages of the program room for these values too; the reason if it cannot serve them.
std::optional<std::string> reserve_for(const CompiledGraph& compiled, LoweredGraph& lowered,
                                       const SymbolValues& values, const SymbolValues& capacities) {
  const Graph graph = bind_symbols(lowered.symbolic, values);
  const Graph largest = lowered.run_symbols.empty() ? graph : at_capacity(lowered.symbolic, capacities);
  std::set<int32_t> all(lowered.changing.begin(), lowered.changing.end());
  for (const auto& [name, symbol] : lowered.run_symbols)
    all.insert(symbol.changing.begin(), symbol.changing.end());
  Relowered relowered;
  Target target = compiled.target;
  auto reason = relower(lowered.program, {graph, largest, lowered.sized().run_symbols}, target,
                        {all.begin(), all.end()}, true, relowered);
  for (const Relowered::Node& node : relowered.nodes) {
    // Two operands may have the same layout at some lengths only (a row that is repeated once).
    const Program::Work& work = lowered.program.work[node.work];
    const std::span<const Dispatch> now = relowered.of(node);
    for (size_t i = 0; i < std::min(work.count, now.size()); ++i) {
      erase_if(lowered.program.dispatches[work.first + i].in_place,
               [&](const Dispatch::InPlace& pair) { return !std::ranges::contains(now[i].in_place, pair); });
    }
  }
  return reason;
}

// The same for the capacities of the caller's symbols and of those that only the run knows.
std::optional<std::string> reserve(const CompiledGraph& compiled, LoweredGraph& lowered,
                                   const SymbolValues& capacities) {
  try {
    const RunValues run = run_values(lowered.symbolic, capacities);
    if (const auto other = shorter(lowered.symbolic, run)) {
      if (auto reason = reserve_for(compiled, lowered, *other, run.capacities)) return reason;
    }
    return reserve_for(compiled, lowered, run.largest, run.capacities);
  } catch (const Error& e) {
    throw e.within("planning for the capacities (" + symbols_text(capacities) + ")");
  }
}

Task<std::unique_ptr<DevicePlan>> plan_of(const CompiledGraph& compiled, const Weights& weights,
                                          LoweredGraph lowered) {
  Plan plan =
      make_plan(lowered.program, weights.placements(lowered.program, lowered.graph), weights.fixed_buffers(),
                compiled.device->caps(), {.keep_all = compiled.options.keep_intermediates});
  std::vector<gpu::Pipeline> pipelines =
      co_await make_pipelines(*compiled.device, plan.dispatches, lowered.program.names);
  co_return std::make_unique<DevicePlan>(compiled.device, weights, compiled.target, std::move(lowered),
                                         std::move(plan), std::move(pipelines));
}

}  // namespace

Task<MadePlan> make_device_plan(const CompiledGraph& compiled, const Weights& weights,
                                const SymbolValues& values, const SymbolValues& capacities) {
  std::set<std::string> growing;
  for (const auto& [name, largest] : capacities) {
    if (compiled.graph->capacities().contains(name)) growing.insert(name);
  }
  std::optional<std::string> obstacle;
  if (!growing.empty()) {
    SymbolValues typical = values;
    for (const std::string& name : growing) typical[name] = typical_length(capacities.at(name));
    // Typical lengths, or the capacities, may be wrong together with the other sizes of this run (a start
    // that is length - tokens). If the run itself is right, it has a plan all the same; but a capacity that
    // is wrong by itself is a mistake.
    for (const SymbolValues& sizes : {typical, values}) {
      try {
        LoweredGraph lowered = lower_graph(compiled, sizes, growing);
        obstacle = reserve(compiled, lowered, capacities);
        if (obstacle) break;
        auto plan = co_await plan_of(compiled, weights, std::move(lowered));
        obstacle = plan->retarget(values);
        if (obstacle) break;
        co_return MadePlan{std::move(plan), true, ""};
      } catch (const Error& e) {
        if (e.kind() != ErrorKind::invalid_graph || values.size() == 1) throw;
        obstacle = e.what();
      }
    }
  }
  LoweredGraph lowered = lower_graph(compiled, values, {});
  if (!lowered.run_symbols.empty()) reserve(compiled, lowered, values);
  std::unique_ptr<DevicePlan> plan = co_await plan_of(compiled, weights, std::move(lowered));
  co_return MadePlan{std::move(plan), false, obstacle.value_or("")};
}

namespace {

int64_t capacity_of(const Graph& graph, const std::string& symbol) {
  const auto it = graph.capacities().find(symbol);
  return it == graph.capacities().end() ? INT64_MAX : it->second;
}

}  // namespace

void check_plan(const Graph& source, const SymbolValues& symbols) {
  // The limits of WebGPU's largest devices, so that only what no device does is refused.
  constexpr uint64_t kMost = uint64_t{1} << 40;
  const Caps caps{.adapter = "any", .max_buffer_bytes = kMost, .max_binding_bytes = UINT32_MAX};
  const CompileOptions options{.symbols = symbols};
  const CompiledGraph compiled = compile_for({.caps = caps}, source, options);
  std::set<std::string> open = compiled.split.main.symbols();
  for (const auto& [name, symbol] : run_symbols(compiled.split.main)) open.erase(name);
  const auto plan_for = [&](const SymbolValues& values) {
    LoweredGraph lowered = lower_graph(compiled, values, {});
    if (!lowered.run_symbols.empty()) reserve(compiled, lowered, values);
  };
  if (open.empty()) return plan_for({});
  // Some sizes: nodes need not fit together with these. But what is too much for a device with all of them is
  // so whatever the sizes.
  std::optional<Error> too_much;
  for (const int64_t size : {64, 7, 1}) {
    SymbolValues values;
    for (const std::string& name : open) values[name] = std::min(size, capacity_of(*compiled.graph, name));
    try {
      return plan_for(values);
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::unsupported) return;
      too_much = e;
    }
  }
  throw *too_much;
}

}  // namespace rlx
