#include "rlx/cost.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/border.h"
#include "base/fail.h"
#include "ir/run_sizes.h"
#include "kernels/dispatch_cost.h"
#include "ops/machinery/flops.h"
#include "runtime/calibration.h"
#include "runtime/compile_graph.h"
#include "runtime/device_access.h"
#include "runtime/resizable_program.h"

namespace rlx {

double GraphCost::device_ns() const {
  double sum = 0;
  for (const NodeCost& n : nodes) sum += n.ns;
  return sum;
}

namespace {

GraphCost cost_of(const ResizableProgram& lowered, const Target& target) {
  // Not measured: what the round trip of small GPUs takes.
  constexpr double kUsualRoundtrip = 80'000;
  const Program& program = lowered.program;
  const Graph& graph = lowered.sized.graph;
  const Rates rates = rates_of(target.caps);
  const std::vector<double> ns = predicted_ns(rates, program.dispatches);
  GraphCost out{.nodes = {}, .overhead_ns = target.caps.measured.roundtrip_ns};
  if (out.overhead_ns <= 0) out.overhead_ns = kUsualRoundtrip;
  std::map<int32_t, size_t> places;
  std::vector<double> longest;
  for (size_t i = 0; i < ns.size(); ++i) {
    const Dispatch& d = program.dispatches[i];
    const auto [place, fresh] = places.try_emplace(d.node, out.nodes.size());
    if (fresh) {
      const Program::NodeName& name = program.names[static_cast<size_t>(d.node)];
      out.nodes.push_back({.node = name.name, .op = name.op});
      if (d.node < graph.size()) out.nodes.back().flops = node_flops(graph, graph.node(d.node));
      longest.push_back(-1);
    }
    NodeCost& node = out.nodes[place->second];
    ++node.dispatches;
    node.bytes += bytes_moved(std::span(&d, 1));
    node.ns += ns[i];
    if (ns[i] <= longest[place->second]) continue;
    longest[place->second] = ns[i];
    node.kernel = d.kernel->name;
    node.variant = d.variant.text();
  }
  return out;
}

void check_bound(const Graph& graph, const CompileOptions& options) {
  const auto of_run = run_symbols(graph);
  for (const std::string& symbol : graph.symbols()) {
    if (!options.symbols.contains(symbol) && !of_run.contains(symbol))
      fail(ErrorKind::invalid_argument,
           "the symbol '{}' of the graph '{}' has no value; what a graph takes depends on it", symbol,
           graph.name);
  }
}

}  // namespace

GraphCost predict_cost(const Graph& graph, const Device& device, const CompileOptions& options) try {
  check_bound(graph, options);
  const CompiledGraph compiled = compile_graph(*DeviceAccess::get(device), graph, options);
  const ResizableProgram lowered = lower_resizable(compiled.split.main, compiled.target, {}, {});
  return cost_of(lowered, compiled.target);
} catch (...) {
  throw_as_error("predicting the cost of a graph");
}

namespace {

struct ToAsk {
  const Device* device;
  std::optional<Calibration> calibration;
};

size_t cheapest(const Graph& graph, std::span<const ToAsk> devices, const CompileOptions& options) {
  if (devices.empty()) fail(ErrorKind::invalid_argument, "there is no device to choose");
  std::optional<size_t> best;
  std::optional<Error> refusal;
  double least = 0;
  for (size_t i = 0; i < devices.size(); ++i) {
    CompileOptions own = options;
    if (devices[i].calibration) own.calibration = devices[i].calibration;
    try {
      const double ns = predict_cost(graph, *devices[i].device, own).ns();
      if (best && ns >= least) continue;
      best = i;
      least = ns;
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::unsupported && e.kind() != ErrorKind::out_of_memory) throw;
      refusal = e;
    }
  }
  if (!best) throw *refusal;
  return *best;
}

}  // namespace

size_t choose_device(const Graph& graph, std::span<const CalibratedDevice> devices,
                     const CompileOptions& options) try {
  std::vector<ToAsk> asked;
  for (const CalibratedDevice& d : devices) asked.push_back({&d.device, d.calibration});
  return cheapest(graph, asked, options);
} catch (...) {
  throw_as_error("choosing a device");
}

size_t choose_device(const Graph& graph, std::span<const Device> devices, const CompileOptions& options) try {
  std::vector<ToAsk> asked;
  for (const Device& d : devices) {
    asked.push_back(
        {&d, d.caps().timestamps ? std::optional(Calibration::load_or_measure(d)) : std::nullopt});
  }
  return cheapest(graph, asked, options);
} catch (...) {
  throw_as_error("choosing a device");
}

}  // namespace rlx
