#include "runtime/run_values.h"

#include <algorithm>
#include <functional>
#include <set>
#include <vector>

#include "base/fail.h"
#include "base/format.h"
#include "ir/subgraphs.h"
#include "ops/machinery/op_of.h"
#include "ops/products/product_op.h"
#include "ops/rearrange/contiguous.h"

namespace rlx {

std::string symbols_text(const SymbolValues& symbols) {
  return joined(symbols, [](const auto& item) { return formatted("{} = {}", item.first, item.second); });
}

int64_t typical_length(int64_t capacity) {
  return capacity < 3 ? capacity : std::max<int64_t>(capacity - 1 - capacity % 2, 2);
}

namespace {

bool fits(const Graph& graph, const SymbolValues& values) {
  try {
    bind_symbols(graph, values);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Numbers that are sizes in the graph, which a size that only the run knows may have to equal or to be a
// multiple of.
std::set<int64_t> numbers_in(const Graph& graph) {
  std::set<int64_t> out;
  for_each_graph(graph, [&](const Graph& g) {
    for (const Node& n : g.nodes()) {
      for (const TensorType& t : n.outputs) {
        for (const Dim& d : t.shape) {
          if (d.is_static()) out.insert(d.value());
        }
      }
    }
  });
  return out;
}

// Possible values of a run symbol, largest first.
std::vector<int64_t> candidates(const std::set<int64_t>& numbers, int64_t capacity) {
  constexpr int64_t kNear = 16;
  constexpr size_t kMost = 256;
  std::set<int64_t, std::greater<>> all;
  const auto add = [&](int64_t value) {
    if (value >= 0 && value <= capacity) all.insert(value);
  };
  for (int64_t i = 0; i <= kNear; ++i) {
    add(i);
    add(capacity - i);
  }
  for (const int64_t number : numbers) {
    if (all.size() >= kMost) break;
    add(number);
    if (number > 0) add(capacity - capacity % number);
  }
  return {all.begin(), all.end()};
}

// Types instead of what computes them.
struct StandIn final : OpOf<StandIn> {
  static constexpr auto kName = "stand_in";
  std::vector<TensorType> types;

  std::vector<TensorType> infer(const InferArgs&) const override { return types; }
  void reference(RefContext&) const override { check(false, "a stand-in is not computed"); }
};

TensorType bound(TensorType type, const SymbolValues& values) {
  for (int64_t i = 0; i < type.shape.rank(); ++i) {
    const Dim d = type.shape[i].bind(values);
    type.shape[i] = d.is_static() ? Dim(std::max<int64_t>(d.value(), 0)) : d;
  }
  return type;
}

}  // namespace

RunValues run_values(const Graph& graph, const SymbolValues& given) {
  const std::map<std::string, RunSymbol> run = run_symbols(graph);
  RunValues out;
  out.capacities = out.largest = with_capacities(given, run);
  out.typical = given;
  for (const auto& [name, symbol] : run) out.typical[name] = typical_length(out.capacities[name]);
  const auto all_fit = [&] { return fits(graph, out.typical) && fits(graph, out.largest); };
  if (run.empty() || all_fit()) return out;
  const std::set<int64_t> numbers = numbers_in(graph);
  for (const auto& [name, symbol] : run) {
    SymbolValues values = given;
    const auto can_be = [&](int64_t value) {
      values[name] = value;
      return fits(graph, values);
    };
    std::vector<int64_t> found;  // the largest, and another one that is more than 0
    if (can_be(out.largest[name])) found.push_back(out.largest[name]);
    if (!found.empty() && can_be(out.typical[name])) continue;
    for (const int64_t value : candidates(numbers, out.capacities[name])) {
      if (found.size() == 2 || (value == 0 && !found.empty())) break;
      if (!std::ranges::contains(found, value) && can_be(value)) found.push_back(value);
    }
    if (found.empty()) continue;  // the error says why
    out.largest[name] = found.front();
    out.typical[name] = found.back();
  }
  if (!all_fit()) {
    bind_symbols(graph, out.largest);
    bind_symbols(graph, out.typical);
  }
  return out;
}

Graph at_capacity(const Graph& graph, const SymbolValues& values) {
  Graph out;
  out.name = graph.name;
  for (const Node& n : graph.nodes()) {
    const bool is_seen = n.op->is_leaf() || !n.op->subgraphs().empty() || op_cast<Contiguous>(*n.op) ||
                         n.op->run_size(input_types(graph, n));
    if (is_seen) {
      const auto in_body = [&](const Graph& body) { return at_capacity(body, values); };
      out.add(bind_symbols(map_subgraphs(n.op, in_body), values), n.inputs, n.name);
      continue;
    }
    auto types = std::make_shared<StandIn>();
    for (const TensorType& t : n.outputs) types->types.push_back(bound(t, values));
    out.add(std::move(types), {}, n.name);
  }
  for (const Graph::Output& o : graph.outputs()) out.add_output(o);
  return out;
}

}  // namespace rlx
