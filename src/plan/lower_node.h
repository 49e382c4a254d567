// Lowers one node of a graph, with its bodies if it is a branch or a loop.
#pragma once

#include <string>
#include <vector>

#include "plan/program.h"

namespace rlx {

struct NodeOperands {
  std::vector<Operand> inputs, outputs;
};

// Which storage a value of a node lies in, and how: views and state writes share that of their input. Others
// lie contiguously in `own`.
Operand value_operand(const Node& node, const TensorType& type, const std::map<ValueId, Operand>& values,
                      int32_t own);

class NodeLowering {
 public:
  NodeLowering(Program& program, const Target& target, Scratch& scratch, std::vector<Dispatch>& dispatches)
      : program_(program), target_(target), scratch_(scratch), dispatches_(dispatches) {}

  // `name` is its number in Program::names.
  void lower(const Graph& graph, int32_t id, NodeOperands operands, int32_t name);

  // Of the node, if it is a branch or a loop.
  std::vector<Instruction> take_code();
  std::vector<Program::Loop> take_loops() { return std::move(loops_); }
  // Where a loop counts its iterations.
  int32_t iterations_word() const { return iterations_word_; }

 private:
  Lowering at(int32_t name, NodeOperands operands = {});
  std::vector<Operand> lower_body(const Graph& body, std::vector<Operand> inputs, int32_t owner);
  void lower_if(const Node& node, const NodeOperands& operands, int32_t name);
  void lower_loop(const Graph& graph, const Node& node, const NodeOperands& operands, int32_t name);
  Operand leaf(const Node& node, int32_t name);
  int32_t word_of(const Operand& scalar, int32_t name);
  int32_t name_in_body(int32_t owner, const Node& node);
  size_t add(Instruction instruction);
  void close_run();

  Program& program_;
  const Target& target_;
  Scratch& scratch_;
  std::vector<Dispatch>& dispatches_;
  std::vector<Instruction> code_;
  size_t in_code_ = 0;  // dispatches that are in a `run`
  std::vector<Program::Loop> loops_;
  size_t loop_count_ = 0;
  int32_t iterations_word_ = -1;
};

}  // namespace rlx
