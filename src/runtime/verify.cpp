#include <algorithm>
#include <cmath>
#include <map>

#include "base/border.h"
#include "base/format.h"
#include "ir/reference.h"
#include "ir/run_sizes.h"
#include "ir/states.h"
#include "ir/subgraphs.h"
#include "ir/tolerance.h"
#include "kernels/candidate.h"
#include "ops/products/product.h"
#include "rlx/diagnostics.h"
#include "runtime/trial.h"

namespace rlx {
namespace {

// Whether the node read contents of a state that have been overwritten since: after the run, the memory holds
// something else.
bool reads_overwritten(const Node& n, const StateVersions& states) {
  return std::ranges::any_of(n.inputs, [&](ValueId v) { return states.writer(v) >= 0; });
}

void add_element(NodeCheck& check, int64_t index, double got, double want, const Closeness& closeness) {
  if (std::isfinite(got) && std::isfinite(want) && std::fabs(got - want) >= check.max_error) {
    check.max_error = std::fabs(got - want);
    check.bound = closeness.allowed;
  }
  if (closeness.close) return;
  if (check.wrong++ == 0) {
    check.index = index;
    check.got = got;
    check.want = want;
    check.allowed = closeness.allowed;
  }
}

// `moved` may allow more than the op's tolerance.
void compare_output(NodeCheck& check, const Tensor& got, const RefTensor& want, const Tolerance& tolerance,
                    const Movement* moved) {
  if (!is_float(got.dtype()) && got.dtype() != DType::c64) {
    for (int64_t i = 0; i < got.elements(); ++i) {
      const auto found = static_cast<double>(got.integer(i));
      const auto wanted = static_cast<double>(want.ints[static_cast<size_t>(i)]);
      add_element(check, i, found, wanted, {.close = found == wanted, .allowed = 0});
    }
    return;
  }
  const bool complex = got.dtype() == DType::c64;
  const std::vector<double> found = numbers(RefTensor::from(got));
  const std::vector<double> wanted = numbers(want);
  for (size_t i = 0; i < wanted.size(); ++i) {
    Tolerance t = tolerance;
    if (complex) t.scale = std::max(t.scale, std::abs(want.complex[i / 2]));
    const DType type = complex ? DType::f32 : got.dtype();
    Closeness c = compare(found[i], wanted[i], type, t);
    if (!c.close && moved) c = compare(found[i], wanted[i], type, moved->tolerance(i));
    if (moved && moved->unclear(i)) c.close = true;
    add_element(check, static_cast<int64_t>(complex ? i / 2 : i), found[i], wanted[i], c);
  }
}

// The op's tolerance assumes inputs near 1. Where that is not enough, we measure how far the results move
// when the actual inputs do.
std::vector<Movement> measure(const Node& n, const std::vector<const RefTensor*>& inputs,
                              const std::vector<RefTensor>& want, Precision precision) {
  std::vector<std::vector<RefTensor>> trials;
  for (const uint32_t seed : {1u, 2u}) trials.push_back(Trial(seed, precision).run(n, inputs));
  std::vector<Movement> movements;
  for (size_t o = 0; o < want.size(); ++o) {
    std::vector<const RefTensor*> moved;
    for (const auto& t : trials) moved.push_back(&t[o]);
    movements.emplace_back(numbers(want[o]), moved, false);
  }
  return movements;
}

// `rounded`: nodes whose products rounded, and to what.
NodeCheck check_node(const Executable& exe, const Graph& graph, int32_t id,
                     const std::map<std::string, Precision>& rounded) {
  const Node& n = graph.node(id);
  std::vector<RefTensor> inputs;
  std::vector<const RefTensor*> pointers;
  std::vector<TensorType> types;
  for (ValueId v : n.inputs) {
    inputs.push_back(v.is_absent() ? RefTensor{}
                                   : RefTensor::from(exe.value(graph.producer(v).name, v.output)));
    types.push_back(v.is_absent() ? TensorType{}
                                  : TensorType{inputs.back().dtype, Shape(inputs.back().dims)});
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    pointers.push_back(n.inputs[i].is_absent() ? nullptr : &inputs[i]);
  const std::vector<RefTensor> want = run_reference(n, pointers);
  const Tolerance tolerance = n.op->tolerance(types);
  const auto compare_all = [&](const std::vector<Movement>& moved, const Tolerance& allowed) {
    NodeCheck check{.node = n.name, .op = std::string(n.op->name()), .type = n.outputs[0].text()};
    for (size_t o = 0; o < want.size(); ++o) {
      compare_output(check, exe.value(n.name, static_cast<int32_t>(o)), want[o], allowed,
                     moved.empty() ? nullptr : &moved[o]);
    }
    return check;
  };
  NodeCheck check;
  if (const auto found = rounded.find(n.name); found != rounded.end()) {
    check = compare_all(measure(n, pointers, want, found->second), {});
    check.rounding = found->second;
    return check;
  }
  check = compare_all({}, tolerance);
  if (check.wrong > 0) check = compare_all(measure(n, pointers, want, Precision::exact), tolerance);
  check.bound = 0;
  return check;
}

std::map<std::string, Precision> rounded_nodes(const Executable& exe) {
  std::map<std::string, Precision> out;
  for (const StepReport& step : exe.plan_report().run) {
    if (!has_words(step.variant, products::kHalved)) continue;
    const bool sums = has_words(step.variant, formatted("{}=16", products::kSums));
    Precision& rounding = out[step.node];
    rounding = std::max(rounding, sums ? Precision::fast : Precision::mixed);
  }
  return out;
}

// The graph with the sizes that the run has found.
Graph with_run_sizes(const Executable& exe, const Graph& graph) {
  SymbolValues found;
  for (const auto& [name, symbol] : run_symbols(graph)) {
    if (symbol.graph != &graph) continue;  // in a body; it may have another size in each iteration
    const Node& n = graph.node(symbol.node);
    for (size_t o = 0; o < n.outputs.size(); ++o) {
      const Shape& shape = n.outputs[o].shape;
      for (int64_t axis = 0; axis < shape.rank(); ++axis) {
        if (shape[axis].as_symbol() == name)
          found[name] = exe.value(n.name, static_cast<int32_t>(o)).shape()[static_cast<size_t>(axis)];
      }
    }
  }
  return bind_symbols(graph, found);
}

// Whether its bodies have params or states, whose values there are not kept.
bool has_hidden_inputs(const Node& n) {
  bool found = false;
  for (const auto& [which, body] : n.op->subgraphs()) {
    for_each_graph(*body, [&](const Graph& g) {
      found |= std::ranges::any_of(g.nodes(), [](const Node& node) {
        return node.op->is(LeafKind::param) || node.op->is(LeafKind::state);
      });
    });
  }
  return found;
}

// The symbols that are dims of inputs, in the last run.
SymbolValues sizes_of_inputs(const Executable& exe, const Graph& graph) {
  SymbolValues out;
  for (const Node& n : graph.nodes()) {
    const Shape& shape = n.outputs[0].shape;
    if (!n.op->is(LeafKind::input) || shape.is_static()) continue;
    const std::vector<int64_t> dims = exe.value(n.name).shape();
    for (int64_t axis = 0; axis < shape.rank(); ++axis) {
      if (const auto symbol = shape[axis].as_symbol()) out[*symbol] = dims[static_cast<size_t>(axis)];
    }
  }
  return out;
}

}  // namespace

std::vector<NodeCheck> verify_nodes(Executable& exe,
                                    const std::function<void(int64_t nodes_done)>& done) try {
  const std::shared_ptr<const Graph> kept = exe.graph();
  const SymbolValues given = sizes_of_inputs(exe, *kept);
  std::set<std::string> symbols = kept->symbols();
  for (const auto& [name, symbol] : run_symbols(*kept)) symbols.erase(name);
  for (const auto& [name, value] : given) symbols.erase(name);
  if (!symbols.empty()) {
    fail(ErrorKind::invalid_argument,
         "the graph '{}' has the symbol '{}', which no input has; bind it when compiling to verify a run",
         kept->name, *symbols.begin());
  }
  const Graph graph = with_run_sizes(exe, given.empty() ? *kept : bind_symbols(*kept, given));
  const StateVersions states(graph);
  const std::map<std::string, Precision> rounded = rounded_nodes(exe);
  std::vector<NodeCheck> checks;
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    if (!n.op->is_leaf()) {
      if (reads_overwritten(n, states) || has_hidden_inputs(n)) {
        checks.push_back(
            {.node = n.name, .op = std::string(n.op->name()), .type = n.outputs[0].text(), .skipped = true});
      } else {
        checks.push_back(check_node(exe, graph, id, rounded));
      }
    }
    if (done) done(id + 1);
  }
  return checks;
} catch (...) {
  throw_as_error("verifying nodes");
}

}  // namespace rlx
