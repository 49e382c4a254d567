// A computation: nodes in order, each an op with inputs, attributes and typed outputs.
//
//   rlx::Graph g;
//   auto x = g.input("x", rlx::DType::f32, {"batch", 768});
//   auto w = g.param("w", rlx::DType::f32, {768, 10});
//   g.output("probs", rlx::softmax(rlx::matmul(x, w)));
//
// Shapes are inferred and checked as nodes are added. rlx/ops.h has the functions that add ops.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "rlx/dtype.h"
#include "rlx/export.h"
#include "rlx/shape.h"
#include "rlx/tensor.h"
#include "rlx/value.h"

RLX_EXPORT_BEGIN
namespace rlx {

struct Node {
  OpPtr op;
  std::string name;             // unique in the graph; for inputs, params and states the name callers use
  std::vector<ValueId> inputs;  // optional ones that are not given are absent; the last is never absent
  std::vector<TensorType> outputs;
};

class Graph {
 public:
  struct Output {
    std::string name;
    ValueId value;
    // The size of some results is known only after the run, within a bound: then only the first elements
    // along `axis` count, as many as the output of this name, an integer scalar, says. "": all do.
    std::string count = {};
    int64_t axis = 0;
  };

  Graph() = default;
  Graph(const Graph& other);
  Graph& operator=(const Graph& other);
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;
  ~Graph();

  std::string name = "graph";

  Value input(std::string name, DType dtype, Shape shape);
  // A weight: set by name after compiling, any number of times.
  Value param(std::string name, DType dtype, Shape shape);
  Value constant(Tensor value, std::string name = "");
  // A number that the type cannot hold is an error: 1.5 or 300 as u8, 1e6 as f16.
  Value scalar(DType dtype, double value);
  // Memory that stays on the device from run to run, zero at first; write_state (rlx/ops.h) updates it.
  Value state(std::string name, DType dtype, Shape shape);
  void output(std::string name, Value value);
  // An output of which only a part counts (see Output::count); runs return that part.
  void output(std::string name, Value value, std::string count, int64_t axis = 0);
  // The largest value of a symbol. Memory is planned for it, and smaller values need no new plan as long as
  // they use the same kernels (a matmul with few rows uses a different one). Without a capacity, every set of
  // sizes has its own plan; CompileOptions::max_plans of them are kept. A plan is shared only if the graph is
  // right with all symbols at their capacities: a cache that is written from total - tokens on fits both, one
  // that is written from past on has no room for several tokens at the capacity of past.
  void set_capacity(std::string symbol, int64_t largest);

  // Adds a node; its output types are inferred, and a mistake is an error that names the node. Absent inputs
  // at the end are dropped.
  ValueId add(OpPtr op, std::vector<ValueId> inputs, std::string name = "");
  Value add_value(OpPtr op, const std::vector<Value>& inputs, std::string name = "");
  // Gives a node another op; its output types are inferred again, but not those of its users.
  void replace_op(int32_t node, OpPtr op);
  // A handle on a value of this graph.
  Value value(ValueId id);

  const std::vector<Node>& nodes() const { return nodes_; }
  // An error for a node, or an output of one, that does not exist.
  const Node& node(int32_t id) const {
    if (id < 0 || id >= size()) no_node(id);
    return nodes_[static_cast<size_t>(id)];
  }
  const Node& producer(ValueId v) const { return node(v.node); }
  const TensorType& type(ValueId v) const {
    const std::vector<TensorType>& outputs = node(v.node).outputs;
    if (v.output < 0 || v.output >= static_cast<int32_t>(outputs.size())) no_output(v);
    return outputs[static_cast<size_t>(v.output)];
  }
  const std::vector<Output>& outputs() const { return outputs_; }
  const std::map<std::string, int64_t>& capacities() const { return capacities_; }
  int32_t size() const { return static_cast<int32_t>(nodes_.size()); }
  void rename(int32_t node, std::string name);
  // The node of that name, or -1.
  int32_t find(std::string_view name) const;
  void add_output(Output output);

  std::set<std::string> symbols() const;  // of all shapes and attributes
  bool is_static() const { return symbols().empty(); }

 private:
  [[noreturn]] void no_node(int32_t id) const;
  [[noreturn]] void no_output(ValueId v) const;
  std::string unique_name(std::string wanted) const;

  std::vector<Node> nodes_;
  std::vector<Output> outputs_;
  std::map<std::string, int64_t> capacities_;
  std::map<std::string, int32_t, std::less<>> by_name_;
  std::set<std::string, std::less<>> output_names_;
  std::shared_ptr<Graph*> self_;  // what Values hold: where this graph is; made for the first of them
};

// The graph with symbols replaced by numbers; types are inferred again, so a bad binding is an error here.
Graph bind_symbols(const Graph& graph, const SymbolValues& values);

// Throws an error for the first thing that is wrong with a graph: order, types, duplicate names, a read of a
// state's old contents that depends on what overwrites them.
void verify(const Graph& graph);

// The text form, which parse_graph reads back. Unless max_constant is 0, constants
// with more elements than that are abbreviated; such a text is for people only.
std::string to_text(const Graph& graph, int64_t max_constant = 0);
Graph parse_graph(std::string_view text);

}  // namespace rlx
RLX_EXPORT_END
