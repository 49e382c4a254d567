#include "ir/run_sizes.h"

#include <algorithm>

#include "ir/op.h"
#include "ir/subgraphs.h"

namespace rlx {
namespace {

std::optional<RunSize> run_size(const Graph& graph, const Node& n) {
  std::vector<TensorType> inputs;
  for (ValueId v : n.inputs) inputs.push_back(v.is_absent() ? TensorType{} : value_type(graph.type(v)));
  return n.op->run_size(inputs);
}

// The symbol that the node determines, "" if none.
std::string determined(const Graph& graph, const Node& n) {
  const std::optional<RunSize> size = run_size(graph, n);
  return size ? size->dim.as_symbol().value_or("") : "";
}

Dim capacity_of(const Graph& graph, const Graph& top, const Node& n, const std::string& symbol,
                const std::optional<Dim>& bound) {
  for (const Graph* g : {&graph, &top}) {
    const auto given = g->capacities().find(symbol);
    if (given == g->capacities().end()) continue;
    const bool tighter = bound && bound->is_static() && bound->value() < given->second;
    return tighter ? *bound : Dim(given->second);
  }
  if (!bound) {
    fail(
        "node '{0}' ({1}) determines the symbol '{2}', which needs a capacity (`symbol {2} <= ...` in a "
        "text, "
        "Graph::set_capacity, --capacity {2}=N)",
        n.name, n.op->name(), symbol);
  }
  return *bound;
}

// Walks a graph in the order in which its nodes run.
class SymbolChecker {
 public:
  explicit SymbolChecker(const Graph& graph) : all_(run_symbols(graph)) {
    if (!all_.empty()) check(graph, {}, false);
  }

 private:
  // `known`: the run symbols that have a value where the graph begins.
  void check(const Graph& graph, std::set<std::string> known, bool is_body) {
    const std::set<std::string> outside = known;
    for (const Node& n : graph.nodes()) {
      if (n.op->is_leaf()) {
        // An input of a body is a value that the enclosing graph has computed.
        const bool passed_in = is_body && n.op->is(LeafKind::input);
        check_leaf(n, passed_in ? outside : std::set<std::string>());
        continue;
      }
      std::set<std::string> inside;
      for (const auto& [which, sub] : n.op->subgraphs()) {
        check(*sub, known, true);
        for_each_graph(*sub, [&](const Graph& g) {
          for (const Node& node : g.nodes()) {
            if (const std::string name = determined(g, node); !name.empty()) inside.insert(name);
          }
        });
      }
      if (const std::string own = determined(graph, n); !own.empty()) known.insert(own);
      for (const std::string& name : symbols_of(n)) {
        if (all_.contains(name) && !known.contains(name) && !inside.contains(name)) fail_unknown(n, name);
      }
      for (const TensorType& t : n.outputs) check_escape(n, t, inside);
    }
  }

  static void check_escape(const Node& n, const TensorType& type, const std::set<std::string>& inside) {
    std::set<std::string> used;
    for (const Dim& d : type.shape) d.collect_symbols(used);
    for (const std::string& name : used) {
      if (inside.contains(name)) {
        fail("node '{}' ({}) returns {}, but the symbol '{}' has a value only inside its body", n.name,
             n.op->name(), type.text(), name);
      }
    }
  }

  void check_leaf(const Node& n, const std::set<std::string>& allowed) const {
    for (const std::string& name : symbols_of(n)) {
      if (!all_.contains(name) || allowed.contains(name)) continue;
      const RunSymbol& symbol = all_.at(name);
      fail("the {} '{}' is {}, but the symbol '{}' has no value before node '{}' has run", n.op->name(),
           n.name, n.outputs[0].text(), name, symbol.graph->node(symbol.node).name);
    }
  }

  [[noreturn]] void fail_unknown(const Node& n, const std::string& name) const {
    const RunSymbol& symbol = all_.at(name);
    fail("node '{}' ({}) uses the symbol '{}', which node '{}' determines later or elsewhere", n.name,
         n.op->name(), name, symbol.graph->node(symbol.node).name);
  }

  std::map<std::string, RunSymbol> all_;
};

}  // namespace

std::map<std::string, RunSymbol> run_symbols(const Graph& graph) {
  std::map<std::string, RunSymbol> out;
  for_each_graph(graph, [&](const Graph& g) {
    for (int32_t id = 0; id < g.size(); ++id) {
      const Node& n = g.node(id);
      const std::optional<RunSize> size = run_size(g, n);
      const std::optional<std::string> name = size ? size->dim.as_symbol() : std::nullopt;
      if (!name) continue;
      const auto [it, fresh] =
          out.emplace(*name, RunSymbol{&g, id, capacity_of(g, graph, n, *name, size->largest)});
      if (!fresh) {
        fail("the nodes '{}' and '{}' both determine the symbol '{}'",
             it->second.graph->node(it->second.node).name, n.name, *name);
      }
    }
  });
  return out;
}

std::set<std::string> symbols_of(const Node& node) {
  std::set<std::string> symbols;
  collect_symbols(*node.op, symbols);
  for (const TensorType& t : node.outputs) {
    for (const Dim& d : t.shape) d.collect_symbols(symbols);
  }
  return symbols;
}

void verify_run_symbols(const Graph& graph) { SymbolChecker checker(graph); }

}  // namespace rlx
