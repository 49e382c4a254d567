#include "runtime/pipeline.h"

#include "base/fail.h"
#include "base/flags.h"
#include "ops/op_table.h"
#include "passes/passes.h"
#include "runtime/diagnostics.h"

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

void check_options(const Graph& source, const CompileOptions& options, const gpu::Device& device) {
  if (!options.debug.trace_path.empty() && !device.caps().timestamps) {
    fail(ErrorKind::unsupported, "a trace to '{}' was requested, but the device '{}' has no timestamps",
         options.debug.trace_path, device.info().name);
  }
  const auto symbols = source.symbols();
  for (const auto& [symbol, largest] : source.capacities()) {
    if (!symbols.contains(symbol))
      fail("the graph '{}' has a capacity for '{}', but no dimension uses that symbol", source.name, symbol);
  }
  for (const auto& [symbol, value] : options.symbols) {
    if (!symbols.contains(symbol))
      fail(ErrorKind::invalid_argument, "the graph '{}' has no symbol named '{}'", source.name, symbol);
    if (value < 0)
      fail(ErrorKind::invalid_argument, "the symbol '{}' is {}; it cannot be negative", symbol, value);
  }
}

std::string symbols_text(const SymbolValues& symbols) {
  return joined(symbols, [](const auto& item) { return formatted("{} = {}", item.first, item.second); });
}

}  // namespace

CompiledGraph compile_graph(std::shared_ptr<gpu::Device> device, const Graph& source,
                            const CompileOptions& given) {
  const CompileOptions options = with_environment(given);
  Target target = make_target(device->caps(), options);
  verify(source);
  check_options(source, options, *device);
  Graph graph = options.symbols.empty() ? source : bind_symbols(source, options.symbols);
  graph = expand_ops(graph);
  if (options.optimize) {
    graph =
        optimize(graph, {.packed_attention = options.packed_attention,
                         .max_region_inputs = static_cast<int64_t>(device->caps().max_storage_buffers) - 1});
    verify(graph);
  }
  return {std::move(device), options, std::move(target), std::make_shared<const Graph>(std::move(graph))};
}

StaticProgram lower_static(const CompiledGraph& compiled, const SymbolValues& symbols) {
  Graph graph = materialize_views(bind_symbols(*compiled.graph, symbols));
  Program program = lower(graph, compiled.target);
  return {std::move(graph), std::move(program)};
}

std::unique_ptr<DevicePlan> make_device_plan(const CompiledGraph& compiled, const Weights& weights,
                                             StaticProgram now, const SymbolValues& symbols,
                                             const SymbolValues& capacities) {
  PlanOptions options{.keep_all = compiled.options.keep_intermediates};
  StaticProgram largest;
  if (capacities != symbols) {
    try {
      largest = lower_static(compiled, capacities);
      reserve(now.program, now.graph, largest.program, largest.graph);
      options.largest = &largest.program;
    } catch (const Error& e) {
      throw e.within("while planning for the capacities (" + symbols_text(capacities) + ")");
    }
  }
  Plan plan = make_plan(now.program, weights.placements(now.program, now.graph),
                        static_cast<int32_t>(weights.buffers().size()), compiled.device->caps(), options);
  return std::make_unique<DevicePlan>(compiled.device, weights, std::move(now.graph), std::move(now.program),
                                      std::move(plan));
}

}  // namespace rlx
