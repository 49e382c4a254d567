// Lowers one node of a graph, with its bodies if it is a branch or a loop.
#pragma once

#include <string>
#include <vector>

#include "plan/program.h"

namespace rlx {

struct NodeOperands {
  OperandList inputs, outputs;
};

// A node in the two forms of its graph (SizedGraph).
struct SizedNode {
  const Graph& graph;
  const Graph& at_capacity;
  int32_t id;
  bool determines_size;

  const Node& node() const { return graph.node(id); }
  // The form that is lowered.
  const Graph& lowered() const { return determines_size ? at_capacity : graph; }
  int64_t bytes(int32_t output) const;

  // Output i as its users see it. Views and state writes share the storage of their input; others lie in
  // `own`, those whose size only the run knows as they do at its capacity.
  Operand seen(int32_t output, const std::map<ValueId, Operand>& values, int32_t own) const;
  // What its kernels work on.
  NodeOperands operands(const std::map<ValueId, Operand>& values) const;
  // Whether it costs nothing: a leaf, or a view.
  bool is_free(const NodeOperands& operands) const;
};

class NodeLowering {
 public:
  NodeLowering(Program& program, const std::map<std::string, std::string>& run_symbols, const Target& target,
               Scratch& scratch, std::vector<Dispatch>& dispatches)
      : program_(program),
        run_symbols_(run_symbols),
        target_(target),
        scratch_(scratch),
        dispatches_(dispatches) {}

  // `name` is its number in Program::names.
  void lower(const SizedNode& node, const NodeOperands& operands, int32_t name);

  std::vector<Instruction> take_code();
  std::vector<Program::Loop> take_loops() { return std::move(loops_); }

 private:
  Lowering at(int32_t name, NodeOperands operands = {});
  // Outputs that nodes of the body compute are computed in the memory of `into`, if it has them.
  OperandList lower_body(const Graph& body, const Graph& at_capacity, OperandList inputs,
                         const std::string& prefix, const OperandList& into = {});
  void lower_if(const SizedNode& node, const NodeOperands& operands, int32_t name);
  // Returns the storage in which it counts its iterations.
  int32_t lower_loop(const SizedNode& node, const NodeOperands& operands, int32_t name);
  Operand leaf(const Node& node, int32_t name);
  int32_t word_of(const Operand& scalar, int32_t name);
  int32_t number_of(const std::string& name, const Node& node);
  size_t add(Instruction instruction);
  void close_run();

  Program& program_;
  const std::map<std::string, std::string>& run_symbols_;
  const Target& target_;
  Scratch& scratch_;
  std::vector<Dispatch>& dispatches_;
  std::vector<Instruction> code_;
  const size_t first_ = dispatches_.size();  // of the node's dispatches
  size_t in_code_ = first_;                  // the end of those that are in a `run`
  std::vector<Program::Loop> loops_;
  size_t loop_count_ = 0;
};

}  // namespace rlx
