#include "runtime/compile_graph.h"

#include <algorithm>
#include <map>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>

#include "base/fail.h"
#include "base/flags.h"
#include "ir/op.h"
#include "ir/run_sizes.h"
#include "ops/machinery/op_table.h"
#include "passes/pass_order.h"
#include "runtime/calibration.h"
#include "runtime/diagnostics.h"

namespace rlx {

// --- Options ---

namespace {

// Those that are not there yet.
void add_words(std::vector<std::string>& words, std::string_view separated_by_commas) {
  for (const auto& word : std::views::split(separated_by_commas, ',')) {
    std::string text(std::string_view{word});
    if (!text.empty() && !std::ranges::contains(words, text)) words.push_back(std::move(text));
  }
}

}  // namespace

CompileOptions with_environment(CompileOptions options) {
  if (const std::string text = env_text("RLX_PRECISION"); !text.empty()) {
    try {
      options.precision = parse_precision(text);
    } catch (const Error& e) {
      throw e.within("the environment variable RLX_PRECISION");
    }
  }
  if (options.precision == Precision::exact && env_flag("RLX_WGPU_COOP_F16_VK_ENABLE"))
    options.precision = Precision::mixed;
  if (options.precision == Precision::mixed && env_flag("RLX_WGPU_COOP_F16_VK_NO_F32ACC"))
    options.precision = Precision::fast;
  MatrixUnitOptions& units = options.matrix_units;
  units.f16 &= !env_flag("RLX_WGPU_NO_COOP_F16_VK") && !env_flag("RLX_WGPU_COOP_F16_VK_DISABLE");
  units.f32 &= !env_flag("RLX_WGPU_NO_COOP_F32");
  units.force_f32 |= env_flag("RLX_WGPU_FORCE_COOP_F32");
  units.round &= !env_flag("RLX_WGPU_COOP_F16_VK_FORCE_WIDE");
  options.packed_attention &= !env_flag("RLX_WGPU_NO_PACKED_BSHD_ATTN");
  options.matmul_f32_only |= env_flag("RLX_WGPU_MATMUL_F32_ONLY");
  options.tuning.records &= !env_flag("RLX_NO_TUNE");
  add_words(options.tuning.files, env_text("RLX_TUNING_FILES"));
  options.force_input_upload |= env_flag("RLX_WGPU_FORCE_INPUT_UPLOAD");
  if (!env_text("RLX_SUBMIT_MS").empty()) {
    options.submit_ms = env_number("RLX_SUBMIT_MS", 0);
    if (*options.submit_ms < 0)
      fail(ErrorKind::invalid_argument,
           "the environment variable RLX_SUBMIT_MS is {}; it is a time in milliseconds, or 0",
           *options.submit_ms);
  }
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
  Target target{
      .caps = caps,
      .precision = options.matmul_f32_only ? Precision::exact : options.precision,
      .rounds_factors = options.matrix_units.round,
      .prefers_f32_units = options.matrix_units.force_f32,
      .deterministic = options.deterministic,
      .longest_ns = 1e6 * static_cast<double>(options.submit_ms.value_or(caps.software() ? 0 : 300)),
      .forced = forced_kernels(options)};
  if (options.calibration) {
    check_adapter(*options.calibration, caps.adapter);
    target.caps.measured = speed_of(*options.calibration);
  }
  std::erase_if(target.caps.subgroup_matrices, [&](const SubgroupMatrix& unit) {
    return (unit.component == DType::f16 && !options.matrix_units.f16) ||
           (unit.component == DType::f32 && !options.matrix_units.f32);
  });
  return target;
}

// --- Compiling ---

namespace {

void check_caps(const CompileOptions& options, const Caps& caps) {
  if (!options.debug.trace_path.empty() && !caps.timestamps) {
    fail(ErrorKind::unsupported, "a trace to '{}' was requested, but the device '{}' has no timestamps",
         options.debug.trace_path, caps.adapter);
  }
}

void check_options(const Graph& source, const CompileOptions& options) {
  if (options.submit_ms.value_or(0) < 0) {
    fail(ErrorKind::invalid_argument, "submit_ms is {}; it is a time in milliseconds, or 0 for no bound",
         *options.submit_ms);
  }
  if (options.max_plans < 1)
    fail(ErrorKind::invalid_argument, "max_plans is {}; at least one plan is kept", options.max_plans);
  if (options.tuning.background && options.deterministic)
    fail(ErrorKind::invalid_argument,
         "background tuning was requested of a deterministic executable, which never measures; turn "
         "CompileOptions::deterministic off");
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

}  // namespace

// What eight lanes of a CPU read at once, four columns each. What is in its first cache anyway stays as it
// is.
constexpr Panels kCpuPanels{.columns = 32, .least_elements = 1 << 14};

CompiledGraph compile_for_target(Target target, const Graph& source, const CompileOptions& options) {
  target.sizes_vary = !source.symbols().empty();  // also where this compilation binds them
  verify(source);
  check_options(source, options);
  const PassOptions passes{
      .packed_attention = options.packed_attention,
      .panels = target.caps.software() ? kCpuPanels : Panels{},
      .byte_images = target.caps.software(),
      .max_region_inputs = static_cast<int64_t>(target.caps.max_storage_buffers) - 1,
  };
  Graph graph = options.optimize ? run_optimizing_passes(source, options.symbols, passes)
                                 : run_expanding_passes(source, options.symbols);
  // To inspect every node after a run, every node must be in it.
  LoadSplit split = options.keep_intermediates ? LoadSplit{.load = {}, .main = graph, .joined = {}}
                                               : run_load_phase_passes(graph);
  return {options, std::move(target), std::make_shared<const Graph>(std::move(graph)), std::move(split)};
}

CompiledGraph compile_graph(const gpu::Device& device, const Graph& source, const CompileOptions& given) {
  const CompileOptions options = with_environment(given);
  check_caps(options, device.caps());
  Target target = make_target(device.caps(), options);
  const std::shared_ptr<const KnownChoices> known = known_choices(device, options);
  target.chooser = known;
  CompiledGraph out = compile_for_target(std::move(target), source, options);
  out.known = known;
  return out;
}

}  // namespace rlx
