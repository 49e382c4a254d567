#include "rlx/graph.h"

#include <algorithm>
#include <ostream>

#include "base/border.h"
#include "ir/infer.h"
#include "ir/literal.h"
#include "ir/op.h"

namespace rlx {

std::string TensorType::text() const { return std::string(to_string(dtype)) + shape.text(); }

std::ostream& operator<<(std::ostream& out, const TensorType& type) { return out << type.text(); }

Graph& Value::graph() const {
  if (!graph_) fail(ErrorKind::invalid_argument, "an empty Value was used; it belongs to no graph");
  if (!*graph_)
    fail(ErrorKind::invalid_argument, "a Value was used after its graph was destroyed or replaced");
  return **graph_;
}

const TensorType& Value::type() const { return graph().type(id_); }

Value Value::named(std::string name) const {
  graph().rename(id_.node, std::move(name));
  return *this;
}

namespace {
template <class LeafOp>
OpPtr leaf(DType dtype, Shape shape) {
  auto op = std::make_shared<LeafOp>();
  op->type = TensorType{dtype, std::move(shape)};
  return op;
}
}  // namespace

// --- Values follow the graph when it is moved ---

Graph::Graph(const Graph& other)
    : name(other.name),
      nodes_(other.nodes_),
      outputs_(other.outputs_),
      capacities_(other.capacities_),
      by_name_(other.by_name_),
      output_names_(other.output_names_) {}

Graph::Graph(Graph&& other) noexcept
    : name(std::move(other.name)),
      nodes_(std::move(other.nodes_)),
      outputs_(std::move(other.outputs_)),
      capacities_(std::move(other.capacities_)),
      by_name_(std::move(other.by_name_)),
      output_names_(std::move(other.output_names_)),
      self_(std::move(other.self_)) {
  if (self_) *self_ = this;
}

Graph& Graph::operator=(Graph&& other) noexcept {
  if (this == &other) return *this;
  std::destroy_at(this);
  return *std::construct_at(this, std::move(other));
}

Graph& Graph::operator=(const Graph& other) { return *this = Graph(other); }

Graph::~Graph() {
  if (self_) *self_ = nullptr;
}

void Graph::no_node(int32_t id) const {
  if (id < 0) fail("the graph '{}' was asked for an absent value", excerpt(name));
  fail("the graph '{}' has {} nodes; there is no node {}", excerpt(name), size(), id);
}

void Graph::no_output(ValueId v) const {
  const Node& n = node(v.node);
  fail("node '{}' ({}) has {} output{}; there is no output {}", excerpt(n.name), n.op->name(),
       n.outputs.size(), n.outputs.size() == 1 ? "" : "s", v.output);
}

Value Graph::value(ValueId id) {
  type(id);  // an error if there is no such value
  if (!self_) self_ = std::make_shared<Graph*>(this);
  return Value(self_, id);
}

// --- Building ---

Value Graph::input(std::string name, DType dtype, Shape shape) {
  return value(add(leaf<Input>(dtype, std::move(shape)), {}, std::move(name)));
}

Value Graph::param(std::string name, DType dtype, Shape shape) {
  return value(add(leaf<Param>(dtype, std::move(shape)), {}, std::move(name)));
}

Value Graph::state(std::string name, DType dtype, Shape shape) {
  return value(add(leaf<State>(dtype, std::move(shape)), {}, std::move(name)));
}

Value Graph::constant(Tensor tensor, std::string name) try {
  auto op = std::make_shared<Constant>();
  op->value = std::move(tensor);
  return value(add(op, {}, std::move(name)));
} catch (...) {
  throw_as_error("adding a constant");
}

Value Graph::scalar(DType dtype, double value) { return constant(literal(dtype, value)); }

void Graph::output(std::string name, Value value) { output(std::move(name), value, "", 0); }

void Graph::output(std::string name, Value value, std::string count, int64_t axis) {
  if (&value.graph() != this) fail("output '{}': the value belongs to another graph", name);
  add_output({std::move(name), value.id(), std::move(count), axis});
}

void Graph::add_output(Output output) try {
  type(output.value);  // an error if there is no such value
  if (!output_names_.insert(output.name).second)
    fail("the output name '{}' is used twice", excerpt(output.name));
  outputs_.push_back(std::move(output));
} catch (...) {
  throw_as_error("adding an output");
}

void Graph::set_capacity(std::string symbol, int64_t largest) {
  if (largest < 1) fail("the capacity of '{}' is {}; it must be at least 1", symbol, largest);
  capacities_[Dim::symbol(symbol).text()] = largest;
}

std::string Graph::unique_name(std::string wanted) const {
  if (!by_name_.contains(wanted)) return wanted;
  const auto numbered = [&](int64_t i) { return wanted + "_" + std::to_string(i); };
  const auto taken = [&](int64_t i) { return by_name_.contains(numbered(i)); };
  // Numbers are handed out one after the other: the end of those taken is found by doubling and halving,
  // since thousands of nodes may want one name.
  int64_t free = 1;
  while (taken(free)) free *= 2;
  for (int64_t low = free / 2; free - low > 1;) {
    const int64_t middle = low + (free - low) / 2;
    (taken(middle) ? low : free) = middle;
  }
  return numbered(free);
}

namespace {

// Refuses a type that no tensor can have, or not one that this op makes: plans count bytes in 64 bits, padded
// to whole vec4s.
void check_output(const Op& op, const TensorType& t) {
  if (is_encoded(t.dtype)) {
    if (!op.is_leaf() || op.is(LeafKind::state)) {
      fail("{}: the result cannot have the encoded type {}; only inputs, params and constants can", op.name(),
           excerpt(t.text()));
    }
    expect_whole_blocks(t.dtype, t.shape);
  }
  if (t.shape.rank() > kMaxRank)
    fail("{}: the result has {} axes; {} are the most", op.name(), t.shape.rank(), kMaxRank);
  int64_t bytes = 16;
  for (const Dim& d : t.shape) {
    if (!d.is_static()) continue;
    if (d.value() < 0)
      fail("{}: the {} has the shape {}; sizes cannot be negative", op.name(),
           op.is_leaf() ? "tensor" : "result", excerpt(t.shape.text()));
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(d.value(), 1), &bytes))
      fail("{}: the result {} is larger than 64 bits can count", op.name(), excerpt(t.text()));
  }
}

// Refuses absent inputs that the op needs, and drops those at the end of the list, so that equal nodes
// compare equal.
void drop_absent(const Op& op, std::vector<ValueId>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].is_absent() && !op.optional_input(static_cast<int64_t>(i)))
      fail("{}: {} is not optional", op.name(), op.operand_name(static_cast<int64_t>(i)));
  }
  while (!inputs.empty() && inputs.back().is_absent()) inputs.pop_back();
}

}  // namespace

namespace {

// Calls f with the types of these inputs.
void with_types(const Graph& graph, const Op& op, const std::vector<ValueId>& inputs, const auto& f) {
  InferArgs::Types types;
  std::vector<TensorType> decoded;
  for (ValueId v : inputs) {
    const TensorType* const type = v.is_absent() ? nullptr : &graph.type(v);
    types.push_back(type);
    if (!type || !is_encoded(type->dtype)) continue;
    if (decoded.empty()) decoded.reserve(inputs.size());
    types.back() = &decoded.emplace_back(value_type(*type));
  }
  f(InferArgs(op, std::move(types)));
}

}  // namespace

std::vector<TensorType> infer_outputs(const Graph& graph, const Op& op, const std::vector<ValueId>& inputs) {
  std::vector<TensorType> outputs;
  with_types(graph, op, inputs, [&](const InferArgs& in) { outputs = op.infer(in); });
  for (const TensorType& t : outputs) check_output(op, t);
  return outputs;
}

ValueId Graph::add(OpPtr op, std::vector<ValueId> inputs, std::string name) try {
  const bool is_named = op->is_leaf() && !op->is(LeafKind::constant);
  if (name.empty()) {
    name = unique_name(std::string(op->name()) + "." + std::to_string(nodes_.size()));
  } else if (by_name_.contains(name)) {
    // Inputs, params and states are addressed by name, so their names must be the wanted ones.
    if (is_named) fail("the name '{}' is used twice", excerpt(name));
    name = unique_name(name);
  }
  std::vector<TensorType> outputs;
  try {
    drop_absent(*op, inputs);
    outputs = infer_outputs(*this, *op, inputs);
  } catch (const Error& e) {
    throw e.within("node '" + excerpt(name) + "'");
  }
  by_name_[name] = size();
  nodes_.push_back(Node{std::move(op), std::move(name), std::move(inputs), std::move(outputs)});
  return ValueId{size() - 1, 0};
} catch (...) {
  throw_as_error("adding a node");
}

void Graph::replace_op(int32_t id, OpPtr op) {
  Node& n = nodes_[static_cast<size_t>(id)];
  try {
    with_types(*this, *op, n.inputs, [&](const InferArgs& in) { op->infer_again(in, n.outputs); });
    for (const TensorType& t : n.outputs) check_output(*op, t);
  } catch (const Error& e) {
    throw e.within("node '" + excerpt(n.name) + "'");
  }
  n.op = std::move(op);
}

Value Graph::add_value(OpPtr op, const std::vector<Value>& inputs, std::string name) try {
  std::vector<ValueId> ids;
  for (const Value& v : inputs) {
    if (v && &v.graph() != this) fail("{}: an input belongs to another graph", op->name());
    ids.push_back(v.id());
  }
  return value(add(std::move(op), std::move(ids), std::move(name)));
} catch (...) {
  throw_as_error("adding a node");
}

Value add_node(OpPtr op, const std::vector<Value>& inputs) {
  if (inputs.empty())
    fail(ErrorKind::invalid_argument, "{}: a node without inputs is added by its graph", op->name());
  return inputs[0].graph().add_value(std::move(op), inputs);
}

void Graph::rename(int32_t id, std::string name) {
  if (node(id).name == name) return;
  if (name.empty()) fail("node '{}' cannot be renamed to an empty name", node(id).name);
  // As in add(): these are addressed by their names.
  if (node(id).op->is_leaf() && !node(id).op->is(LeafKind::constant) && by_name_.contains(name))
    fail("the name '{}' is used twice", excerpt(name));
  Node& n = nodes_[static_cast<size_t>(id)];
  by_name_.erase(n.name);
  n.name = unique_name(std::move(name));
  by_name_[n.name] = id;
}

int32_t Graph::find(std::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? -1 : it->second;
}

std::set<std::string> Graph::symbols() const {
  std::set<std::string> all;
  for (const Node& n : nodes_) {
    collect_symbols(*n.op, all);
    for (const TensorType& t : n.outputs) {
      for (const Dim& d : t.shape) d.collect_symbols(all);
    }
  }
  return all;
}

Graph bind_symbols(const Graph& graph, const SymbolValues& values) try {
  Graph out;
  out.name = graph.name;
  for (const auto& [symbol, largest] : graph.capacities()) {
    const auto it = values.find(symbol);
    if (it == values.end()) {
      out.set_capacity(symbol, largest);
    } else if (it->second > largest) {
      fail(ErrorKind::invalid_argument, "the symbol '{}' is {}, more than its capacity {}", symbol,
           it->second, largest);
    }
  }
  for (const Node& n : graph.nodes()) out.add(bind_symbols(n.op, values), n.inputs, n.name);
  for (const Graph::Output& o : graph.outputs()) out.add_output(o);
  return out;
} catch (...) {
  throw_as_error("binding symbols");
}

}  // namespace rlx
