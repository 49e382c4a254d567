#include "runtime/check_plan.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "ir/run_sizes.h"
#include "rlx/error.h"
#include "runtime/compile_graph.h"
#include "runtime/resizable_program.h"

namespace rlx {
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
  const CompiledGraph compiled = compile_for_target({.caps = caps}, source, options);
  const Graph& main = compiled.split.main;
  std::set<std::string> open = main.symbols();
  for (const auto& [name, symbol] : run_symbols(main)) open.erase(name);
  const auto plan_for = [&](const SymbolValues& values) {
    ResizableProgram lowered = lower_resizable(main, compiled.target, values, {});
    if (!lowered.run_symbols.empty()) reserve(lowered, compiled.target, values);
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
