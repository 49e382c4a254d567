#include "runtime/resizable_program.h"

#include <algorithm>
#include <span>
#include <utility>

#include "ir/run_sizes.h"
#include "ir/subgraphs.h"
#include "ops/products/product_op.h"
#include "passes/pass_order.h"
#include "rlx/error.h"
#include "runtime/run_values.h"

namespace rlx {

void ResizableProgram::bind(const SymbolValues& now, const std::vector<int32_t>& nodes) {
  for (const auto& [name, value] : now) values[name] = value;
  for (int32_t id : nodes) {
    if (const auto found = rebindable.find(id); found != rebindable.end())
      sized.graph.replace_op(id, found->second.bind(values));
  }
  if (run_symbols.empty()) return;
  // Capacities may depend on other symbols, and on run symbols of earlier nodes, which have their values by
  // then.
  SymbolValues largest = values;
  for (const auto& [name, symbol] : run_symbols) largest[name] = symbol.capacity.bind(values).value();
  if (largest == capacities) return;
  capacities = std::move(largest);
  sized.at_capacity = at_capacity(symbolic, capacities);
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
void name_run_symbols(const Graph& graph, const std::string& prefix, ResizableProgram& lowered) {
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

}  // namespace

ResizableProgram lower_resizable(const Graph& main, const Target& target, const SymbolValues& values,
                                 const std::set<std::string>& growing) {
  ResizableProgram out;
  const RunValues run = run_values(main, values);
  std::vector<SymbolValues> sizes{run.typical};
  if (const auto other = shorter(main, run)) sizes.push_back(*other);
  out.symbolic = run_size_passes(main, sizes, run.capacities);
  out.values = run.typical;
  out.sized.graph = bind_symbols(out.symbolic, run.typical);
  out.changing = nodes_with(out.symbolic, growing);
  for (const auto& [name, symbol] : run_symbols(out.symbolic))
    out.run_symbols[name] = {"", symbol.capacity, nodes_with(out.symbolic, {name})};
  name_run_symbols(out.symbolic, "", out);
  for (const auto& [name, symbol] : out.run_symbols) out.sized.run_symbols[symbol.node] = name;
  for (int32_t id = 0; id < out.symbolic.size(); ++id) {
    const Node& n = out.symbolic.node(id);
    if (!symbols_near(out.symbolic, n).empty()) out.rebindable.emplace(id, n.op);
  }
  out.bind({}, {});
  out.program = lower(out.sized, target);
  return out;
}

namespace {

// Gives the storages of the program room for these values too; the reason if it cannot serve them.
std::optional<std::string> reserve_for(ResizableProgram& lowered, const Target& for_target,
                                       const SymbolValues& values, const SymbolValues& capacities) {
  SizedGraph sized{bind_symbols(lowered.symbolic, values), {}, lowered.sized.run_symbols};
  if (!lowered.run_symbols.empty()) sized.at_capacity = at_capacity(lowered.symbolic, capacities);
  std::set<int32_t> all(lowered.changing.begin(), lowered.changing.end());
  for (const auto& [name, symbol] : lowered.run_symbols)
    all.insert(symbol.changing.begin(), symbol.changing.end());
  Relowered relowered;
  Target target = for_target;
  auto reason = relower(lowered.program, sized, target, {all.begin(), all.end()}, true, relowered);
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

}  // namespace

std::optional<std::string> reserve(ResizableProgram& lowered, const Target& target,
                                   const SymbolValues& capacities) {
  try {
    const RunValues run = run_values(lowered.symbolic, capacities);
    if (const auto other = shorter(lowered.symbolic, run)) {
      if (auto reason = reserve_for(lowered, target, *other, run.capacities)) return reason;
    }
    return reserve_for(lowered, target, run.largest, run.capacities);
  } catch (const Error& e) {
    throw e.within("planning for the capacities (" + symbols_text(capacities) + ")");
  }
}

}  // namespace rlx
