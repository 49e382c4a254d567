#include "rlx/graph.h"

#include <algorithm>
#include <ostream>

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
      by_name_(other.by_name_) {}

Graph::Graph(Graph&& other) noexcept
    : name(std::move(other.name)),
      nodes_(std::move(other.nodes_)),
      outputs_(std::move(other.outputs_)),
      capacities_(std::move(other.capacities_)),
      by_name_(std::move(other.by_name_)),
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

Value Graph::value(ValueId id) {
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

Value Graph::constant(Tensor tensor, std::string name) {
  auto op = std::make_shared<Constant>();
  op->value = std::move(tensor);
  return value(add(op, {}, std::move(name)));
}

Value Graph::scalar(DType dtype, double value) { return constant(Tensor::full(dtype, {}, value)); }

void Graph::output(std::string name, Value value) { output(std::move(name), value, "", 0); }

void Graph::output(std::string name, Value value, std::string count, int64_t axis) {
  if (&value.graph() != this) fail("output '{}': the value belongs to another graph", name);
  add_output({std::move(name), value.id(), std::move(count), axis});
}

void Graph::add_output(Output output) {
  if (std::ranges::contains(outputs_, output.name, &Output::name))
    fail("the output name '{}' is used twice", output.name);
  outputs_.push_back(std::move(output));
}

void Graph::set_capacity(std::string symbol, int64_t largest) {
  if (largest < 1) fail("the capacity of '{}' is {}; it must be at least 1", symbol, largest);
  capacities_[Dim::symbol(symbol).text()] = largest;
}

std::string Graph::unique_name(std::string wanted) const {
  if (!by_name_.contains(wanted)) return wanted;
  for (int i = 1;; ++i) {
    std::string name = wanted + "_" + std::to_string(i);
    if (!by_name_.contains(name)) return name;
  }
}

ValueId Graph::add(OpPtr op, std::vector<ValueId> inputs, std::string name) {
  const bool is_named = op->is_leaf() && !op->is(LeafKind::constant);
  if (name.empty()) {
    name = unique_name(std::string(op->name()) + "." + std::to_string(nodes_.size()));
  } else if (by_name_.contains(name)) {
    // Inputs, params and states are addressed by name, so theirs must be the wanted one.
    if (is_named) fail("the name '{}' is used twice", name);
    name = unique_name(name);
  }
  std::vector<TensorType> types;
  for (ValueId v : inputs) {
    check(v.node >= 0 && v.node < size(), "an input of a node stands before it");
    types.push_back(type(v));
  }
  std::vector<TensorType> outputs;
  try {
    outputs = op->infer(InferArgs(op->name(), types));
    for (const TensorType& t : outputs) {
      for (const Dim& d : t.shape) {
        if (d.is_static() && d.value() < 0)
          fail("{}: the result has the shape {}", op->name(), t.shape.text());
      }
      if (t.shape.is_static()) t.shape.elements();  // overflow is an error here
    }
  } catch (const Error& e) {
    throw e.within("node '" + name + "'");
  }
  by_name_[name] = size();
  nodes_.push_back(Node{std::move(op), std::move(name), std::move(inputs), std::move(outputs)});
  return ValueId{size() - 1, 0};
}

Value Graph::add_value(OpPtr op, const std::vector<Value>& inputs, std::string name) {
  std::vector<ValueId> ids;
  for (const Value& v : inputs) {
    if (&v.graph() != this) fail("{}: an input belongs to another graph", op->name());
    ids.push_back(v.id());
  }
  return value(add(std::move(op), std::move(ids), std::move(name)));
}

void Graph::rename(int32_t id, std::string name) {
  Node& n = nodes_[static_cast<size_t>(id)];
  if (n.name == name) return;
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

Graph bind_symbols(const Graph& graph, const SymbolValues& values) {
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
}

}  // namespace rlx
