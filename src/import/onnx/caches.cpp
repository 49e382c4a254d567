#include "import/onnx/caches.h"

#include <algorithm>
#include <map>

#include "base/fail.h"
#include "ops/rearrange/concat.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"

namespace rlx::onnx {
namespace {

// "past_key_values.0.key" and "present.0.key", "past_0" and "present_0".
std::string present_name(const Graph& graph, const std::string& input) {
  for (const std::string_view word : {"past_key_values", "past"}) {
    const size_t at = input.find(word);
    if (at == std::string::npos) continue;
    std::string name = input;
    name.replace(at, word.size(), "present");
    if (std::ranges::contains(graph.outputs(), name, &Graph::Output::name)) return name;
  }
  return {};
}

// A cache to which nothing is added, such as the encoder's keys and values in a decoder: the output is the
// input, or a constant in its place.
bool is_kept(const Graph& graph, const CachePair& pair, const ValueId present) {
  return present.node == pair.past || graph.producer(present).op->is(LeafKind::constant);
}

CachePair checked(const Graph& graph, CachePair pair, const ValueId present) {
  const Node& n = graph.producer(present);
  if (is_kept(graph, pair, present)) {
    const Shape& shape = graph.node(pair.past).outputs[0].shape;
    for (int64_t i = 0; i < shape.rank(); ++i) {
      if (shape[i].is_static()) continue;
      const std::optional<std::string> symbol = shape[i].as_symbol();
      if (!pair.kept.empty() || !symbol || !graph.capacities().contains(*symbol)) {
        fail(
            ErrorKind::unsupported,
            "the input '{}' cannot become a state: its sizes {} must be numbers, but for one symbol that has "
            "a capacity; give symbols a value or a capacity when loading",
            pair.input, shape.text());
      }
      pair.kept = *symbol;
      pair.axis = i;
    }
    return pair;
  }
  const auto* concat = op_cast<Concat>(*n.op);
  if (!concat || n.inputs.size() != 2 || n.inputs[0].node != pair.past) {
    fail(ErrorKind::unsupported,
         "the output '{}' cannot become a state: it is not the input '{}' with new entries behind it",
         pair.output, pair.input);
  }
  pair.concat = present.node;
  const Shape& past = graph.type(n.inputs[0]).shape;
  pair.axis = concat->axis < 0 ? concat->axis + past.rank() : concat->axis;
  for (int64_t i = 0; i < past.rank(); ++i) {
    const bool grows = i == pair.axis;
    if (grows == past[i].is_static()) {
      fail(
          ErrorKind::unsupported,
          "the input '{}' cannot become a state: axis {} of {} must be {}; give symbols a value when loading",
          pair.input, i, past.text(), grows ? "a symbol" : "a number");
    }
  }
  return pair;
}

}  // namespace

std::vector<CachePair> find_caches(const Graph& graph) {
  std::vector<CachePair> out;
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    if (!n.op->is(LeafKind::input)) continue;
    const std::string output = present_name(graph, n.name);
    if (output.empty()) continue;
    const auto it = std::ranges::find(graph.outputs(), output, &Graph::Output::name);
    out.push_back(checked(graph, {.input = n.name, .output = output, .past = id}, it->value));
  }
  if (out.empty()) {
    fail(ErrorKind::invalid_argument,
         "the model has no caches: no input past.. with an output present.. of the same name");
  }
  return out;
}

std::map<std::string, Dim> total_lengths(const Graph& graph, const std::vector<CachePair>& pairs) {
  std::map<std::string, Dim> out;
  for (const CachePair& pair : pairs) {
    if (pair.concat < 0) continue;
    const auto past = graph.node(pair.past).outputs[0].shape[pair.axis].as_symbol();
    if (!past) {
      fail(ErrorKind::unsupported, "the input '{}' cannot become a state: its length is {}, not a symbol",
           pair.input, graph.node(pair.past).outputs[0].shape[pair.axis].text());
    }
    std::string total = out.empty() ? "total_length" : "total_length_of_" + *past;
    while (graph.symbols().contains(total)) total += "_";
    const Dim added = graph.type(graph.node(pair.concat).inputs[1]).shape[pair.axis];
    out.try_emplace(*past, Dim::symbol(total) - added);
  }
  return out;
}

std::pair<Graph, std::vector<Cache>> caches_as_states(const Graph& graph, int64_t capacity) {
  const std::vector<CachePair> pairs = find_caches(graph);
  Graph g;
  g.name = graph.name;
  for (const auto& [symbol, largest] : graph.capacities()) g.set_capacity(symbol, largest);
  std::vector<Cache> caches;
  std::map<ValueId, ValueId> mapped;
  std::map<int32_t, Value> states;  // by the node of the input
  const auto find_in_new = [&](ValueId old) { return old.is_absent() ? old : mapped.at(old); };
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    if (const auto past = std::ranges::find(pairs, id, &CachePair::past); past != pairs.end()) {
      Shape shape = n.outputs[0].shape;
      const Dim length = shape[past->axis];
      if (past->concat < 0) {
        if (!past->kept.empty()) shape[past->axis] = graph.capacities().at(past->kept);
        const Value state = g.state(n.name, n.outputs[0].dtype, shape);
        mapped[{id, 0}] = past->kept.empty() ? state.id() : slice(state, past->axis, 0, length).id();
        caches.push_back({.state = past->input, .output = past->output, .length = "", .kept = past->kept});
        continue;
      }
      shape[past->axis] = capacity;
      const Value state = g.state(n.name, n.outputs[0].dtype, shape);
      states.emplace(id, state);
      mapped[{id, 0}] = slice(state, past->axis, 0, length).id();
    } else if (const auto pair = std::ranges::find(pairs, id, &CachePair::concat); pair != pairs.end()) {
      const Dim length = graph.node(pair->past).outputs[0].shape[pair->axis];
      const Value added = g.value(mapped.at(n.inputs[1]));
      const Value written = write_state(states.at(pair->past), added, pair->axis, length);
      const Dim filled = n.outputs[0].shape[pair->axis];
      mapped[{id, 0}] = slice(written, pair->axis, 0, filled).named(n.name).id();
      caches.push_back({.state = pair->input, .output = pair->output, .length = filled.text()});
      g.set_capacity(filled.text(), capacity);
    } else {
      std::vector<ValueId> inputs;
      for (const ValueId v : n.inputs) inputs.push_back(find_in_new(v));
      const ValueId copy = g.add(n.op, std::move(inputs), n.name);
      for (int32_t o = 0; o < static_cast<int32_t>(n.outputs.size()); ++o) mapped[{id, o}] = {copy.node, o};
    }
  }
  for (Graph::Output out : graph.outputs()) {
    if (std::ranges::contains(pairs, out.name, &CachePair::output)) continue;
    out.value = mapped.at(out.value);
    g.add_output(std::move(out));
  }
  return {std::move(g), std::move(caches)};
}

}  // namespace rlx::onnx
