#include "plan/lower_node.h"

#include <algorithm>

#include "base/format.h"
#include "ir/op.h"
#include "ir/states.h"
#include "ir/subgraphs.h"
#include "ops/carry.h"
#include "ops/copy.h"
#include "ops/fill.h"
#include "ops/if.h"
#include "ops/loop.h"

namespace rlx {

Operand value_operand(const Node& n, const TensorType& type, const std::map<ValueId, Operand>& values,
                      int32_t own) {
  const std::vector<int64_t> dims = type.shape.values();
  Operand o;
  o.storage = own;
  o.dtype = type.dtype;
  o.view = View::contiguous(dims);
  if (n.op->has(Trait::view)) {
    const Operand& source = values.at(n.inputs[0]);
    if (std::optional<View> view = n.op->view(source.view, dims)) {
      o.storage = source.storage;
      // A view of an encoded leaf has the type f32 in the graph, but its memory is the leaf's.
      o.dtype = is_encoded(source.dtype) ? source.dtype : type.dtype;
      o.view = *std::move(view);
    }
  } else if (!n.inputs.empty() && n.op->overwrites(0)) {
    o = values.at(n.inputs[0]);
  }
  return o;
}

namespace {

// Values that are not reached by the first dispatch of the list are those of dispatches before it.
bool reads_words(std::span<const Instruction> code) {
  return std::ranges::any_of(code, [](const Instruction& i) { return i.word != Instruction::kNoWord; });
}

}  // namespace

Lowering NodeLowering::at(int32_t name, NodeOperands operands) {
  return {target_, name, std::move(operands.inputs), std::move(operands.outputs), scratch_, dispatches_};
}

void NodeLowering::lower(const Graph& graph, int32_t id, NodeOperands operands, int32_t name) {
  const Node& n = graph.node(id);
  try {
    if (op_cast<If>(*n.op)) {
      lower_if(n, operands, name);
    } else if (op_cast<Loop>(*n.op)) {
      lower_loop(graph, n, operands, name);
    } else {
      Lowering l = at(name, std::move(operands));
      n.op->lower(l);
    }
  } catch (const Error& e) {
    throw e.within(formatted("while lowering node '{}' ({})", n.name, n.op->name()));
  }
}

std::vector<Instruction> NodeLowering::take_code() {
  if (!code_.empty()) close_run();
  return std::move(code_);
}

size_t NodeLowering::add(Instruction instruction) {
  close_run();
  code_.push_back(instruction);
  return code_.size() - 1;
}

void NodeLowering::close_run() {
  if (dispatches_.size() == in_code_) return;
  code_.push_back(
      {.kind = Instruction::Kind::run, .first = in_code_, .count = dispatches_.size() - in_code_});
  in_code_ = dispatches_.size();
}

int32_t NodeLowering::name_in_body(int32_t owner, const Node& n) {
  Program::NodeName name{program_.names[static_cast<size_t>(owner)].name + "/" + n.name,
                         std::string(n.op->name())};
  const auto found = std::ranges::find(program_.names, name.name, &Program::NodeName::name);
  const auto index = static_cast<int32_t>(found - program_.names.begin());
  if (found == program_.names.end()) program_.names.push_back(std::move(name));
  return index;
}

// Params and states are those of the executable; a constant is a table of the plan.
Operand NodeLowering::leaf(const Node& n, int32_t name) {
  if (const auto* constant = op_cast<Constant>(*n.op)) return at(name).table(constant->value);
  const TensorType& type = n.outputs[0];
  const auto [it, fresh] =
      program_.leaves.try_emplace(n.name, static_cast<int32_t>(program_.storages.size()));
  if (fresh) {
    program_.storages.push_back(
        {n.op->leaf(), storage_bytes(type.dtype, type.shape.elements().value()), name});
  }
  return value_operand(n, type, {}, it->second);
}

std::vector<Operand> NodeLowering::lower_body(const Graph& body, std::vector<Operand> inputs, int32_t owner) {
  std::map<ValueId, Operand> values;
  size_t next_input = 0;
  std::vector<int32_t> names;
  for (int32_t id = 0; id < body.size(); ++id) {
    const Node& n = body.node(id);
    const int32_t name = names.emplace_back(name_in_body(owner, n));
    if (n.op->is(LeafKind::input)) {
      values[{id, 0}] = std::move(inputs[next_input++]);
      continue;
    }
    for (int32_t i = 0; i < static_cast<int32_t>(n.outputs.size()); ++i) {
      const TensorType& type = n.outputs[static_cast<size_t>(i)];
      Operand o = n.op->is_leaf() ? leaf(n, name) : value_operand(n, type, values, -1);
      if (o.storage < 0)
        o.storage = scratch_.take(storage_bytes(type.dtype, type.shape.elements().value()), name);
      values[{id, i}] = std::move(o);
    }
  }
  for (int32_t id : schedule(body)) {
    const Node& n = body.node(id);
    if (n.op->is_leaf()) continue;
    NodeOperands operands;
    for (ValueId v : n.inputs) operands.inputs.push_back(v.is_absent() ? Operand{} : values.at(v));
    for (size_t o = 0; o < n.outputs.size(); ++o)
      operands.outputs.push_back(values.at({id, static_cast<int32_t>(o)}));
    if (n.op->has(Trait::view) && operands.outputs[0].storage == operands.inputs[0].storage) continue;
    lower(body, id, std::move(operands), names[static_cast<size_t>(id)]);
  }
  std::vector<Operand> outputs;
  for (const Graph::Output& o : body.outputs()) outputs.push_back(values.at(o.value));
  return outputs;
}

int32_t NodeLowering::word_of(const Operand& scalar, int32_t name) {
  Lowering l = at(name);
  const Operand word = l.scratch(DType::i32, {});
  lower_word(l, scalar, word);
  return word.storage;
}

void NodeLowering::lower_if(const Node& n, const NodeOperands& operands, int32_t name) {
  using enum Instruction::Kind;
  const auto* op = op_cast<If>(*n.op);
  const std::vector<Operand> captured(operands.inputs.begin() + 1, operands.inputs.end());
  const auto branch = [&](const Graph& body) {
    const std::vector<Operand> results = lower_body(body, captured, name);
    Lowering l = at(name);
    for (size_t o = 0; o < results.size(); ++o) lower_copy(l, results[o], operands.outputs[o]);
  };
  const size_t unless_true = add({.kind = unless, .word = word_of(operands.inputs[0], name)});
  branch(*op->then_body);
  const size_t to_end = add({.kind = jump});
  code_[unless_true].target = code_.size();
  branch(*op->else_body);
  close_run();
  code_[to_end].target = code_.size();
}

void NodeLowering::lower_loop(const Graph& graph, const Node& n, const NodeOperands& operands, int32_t name) {
  using enum Instruction::Kind;
  const auto* op = op_cast<Loop>(*n.op);
  const auto input = [&](size_t i) { return i < operands.inputs.size() ? operands.inputs[i] : Operand{}; };
  const Operand trips = input(0);
  const Operand condition = input(1);
  const auto carried = static_cast<size_t>(op->carried);
  constexpr size_t kFirst = Loop::kFirstCarried;

  Lowering l = at(name);
  for (size_t i = 0; i < carried; ++i) lower_copy(l, operands.inputs[kFirst + i], operands.outputs[i]);
  const Operand iteration = l.scratch(DType::i32, {});
  lower_fill(l, iteration, 0);
  const Operand going = l.scratch(DType::i32, {});
  if (condition.present()) {
    lower_word(l, condition, going);
  } else {
    lower_fill(l, going, 1);
  }
  iterations_word_ = iteration.storage;

  Instruction start{.kind = begin, .loop = loop_count_++};
  if (op->exactly) {
    start.trips = op->exactly->value();
  } else if (trips.present()) {
    if (const std::optional<int64_t> known = constant_integer(graph, n.inputs[0])) {
      start.trips = *known;
    } else {
      start.word = word_of(trips, name);
    }
  }
  add(start);
  const bool decides = condition.present() || !op->always_continues();
  const size_t at_test =
      add({.kind = test, .word = decides ? going.storage : Instruction::kNoWord, .loop = start.loop});

  const size_t first = dispatches_.size();
  std::vector<Operand> inputs = {iteration};
  inputs.insert(inputs.end(), operands.outputs.begin(), operands.outputs.begin() + op->carried);
  if (operands.inputs.size() > kFirst + carried) {
    inputs.insert(inputs.end(), operands.inputs.begin() + static_cast<int64_t>(kFirst + carried),
                  operands.inputs.end());
  }
  const std::vector<Operand> results = lower_body(*op->body, std::move(inputs), name);
  for (size_t i = 0; i < operands.outputs.size(); ++i) {
    const Operand& from = results[i + 1];
    const Operand& to = operands.outputs[i];
    if (i >= carried) {
      lower_stack(l, from, going, iteration, to);
    } else if (decides) {
      lower_carry(l, from, going, iteration, to);
    } else {
      lower_copy(l, from, to);
    }
  }
  lower_loop_step(l, results[0], going, iteration);
  loops_.push_back({first, dispatches_.size()});
  close_run();
  code_[at_test].masked = !writes_state(n) && !reads_words(std::span(code_).subspan(at_test + 1));
  add({.kind = next, .target = at_test, .loop = start.loop});
  code_[at_test].target = code_.size();
}

}  // namespace rlx
