#include "plan/lower_node.h"

#include <algorithm>

#include "base/format.h"
#include "ir/op.h"
#include "ir/states.h"
#include "ir/subgraphs.h"
#include "ops/control_flow/carry.h"
#include "ops/control_flow/if.h"
#include "ops/control_flow/loop.h"
#include "ops/machinery/fill.h"
#include "ops/products/product_op.h"
#include "ops/rearrange/contiguous.h"

namespace rlx {

int64_t SizedNode::bytes(int32_t output) const {
  const TensorType& type = lowered().type({id, output});
  return storage_bytes(type.dtype, type.shape.elements().value());
}

Operand SizedNode::seen(int32_t output, const std::map<ValueId, Operand>& values, int32_t own) const {
  const Node& n = node();
  const TensorType& type = n.outputs[static_cast<size_t>(output)];
  Dims dims = dims_of(type.shape);
  if (n.op->overwrites(output)) return values.at(n.inputs[static_cast<size_t>(output)]);
  Operand o;
  o.storage = own;
  o.dtype = type.dtype;
  if (n.op->has(Trait::view)) {
    const Operand& source = values.at(n.inputs[0]);
    if (std::optional<View> view = n.op->view(source.view, dims)) {
      o.storage = source.storage;
      // A view of an encoded leaf has the type f32 in the graph, but its memory is the leaf's.
      o.dtype = is_encoded(source.dtype) ? source.dtype : type.dtype;
      o.view = *std::move(view);
      return o;
    }
  }
  o.view = View::contiguous(dims_of(lowered().type({id, output}).shape));
  o.view.dims = std::move(dims);
  return o;
}

NodeOperands SizedNode::operands(const std::map<ValueId, Operand>& values) const {
  const Node& n = node();
  NodeOperands out;
  for (ValueId v : n.inputs) out.inputs.push_back(v.is_absent() ? Operand{} : values.at(v));
  for (int32_t i = 0; i < static_cast<int32_t>(n.outputs.size()); ++i) {
    Operand& o = out.outputs.emplace_back(values.at({id, i}));
    if (determines_size) o.view.dims = dims_of(at_capacity.type({id, i}).shape);
  }
  return out;
}

bool SizedNode::is_free(const NodeOperands& o) const {
  const Op& op = *node().op;
  return op.is_leaf() || (op.has(Trait::view) && o.outputs[0].storage == o.inputs[0].storage);
}

namespace {

bool reads_words(std::span<const Instruction> code) {
  return std::ranges::any_of(code, [](const Instruction& i) { return i.word != Instruction::kNoWord; });
}

}  // namespace

Lowering NodeLowering::at(int32_t name, NodeOperands operands) {
  return {target_, name, std::move(operands.inputs), std::move(operands.outputs), scratch_, dispatches_};
}

void NodeLowering::lower(const SizedNode& node, const NodeOperands& operands, int32_t name) {
  const Node& n = node.lowered().node(node.id);
  int32_t size_word = Instruction::kNoWord;
  try {
    if (op_cast<If>(*n.op)) {
      lower_if(node, operands, name);
    } else if (op_cast<Loop>(*n.op)) {
      size_word = lower_loop(node, operands, name);
    } else {
      Lowering l = at(name, operands);
      n.op->lower(l);
      size_word = operands.outputs.back().storage;  // of those that determine a size, the last output is it
    }
  } catch (const Error& e) {
    throw e.within(formatted("while lowering node '{}' ({})", n.name, n.op->name()));
  }
  if (!node.determines_size) return;
  const std::optional<RunSize> size = n.op->run_size(input_types(node.at_capacity, n));
  check(size && size->dim.is_static(), "a node that determines a size is lowered for its capacity");
  add({.kind = Instruction::Kind::size,
       .word = size_word,
       .symbol = run_symbols_.at(program_.names[static_cast<size_t>(name)].name),
       .capacity = size->dim.value(),
       .name = name});
}

std::vector<Instruction> NodeLowering::take_code() {
  if (!code_.empty()) close_run();
  return std::move(code_);
}

size_t NodeLowering::add(Instruction instruction) {
  close_run();
  code_.push_back(std::move(instruction));
  return code_.size() - 1;
}

// Also if there are none, for these sizes.
void NodeLowering::close_run() {
  code_.push_back(
      {.kind = Instruction::Kind::run, .first = in_code_ - first_, .count = dispatches_.size() - in_code_});
  in_code_ = dispatches_.size();
}

int32_t NodeLowering::number_of(const std::string& name, const Node& n) {
  const auto [it, fresh] =
      program_.body_numbers.try_emplace(name, static_cast<int32_t>(program_.names.size()));
  if (fresh) program_.names.push_back({name, std::string(n.op->name())});
  return it->second;
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
  Operand o;
  o.storage = it->second;
  o.dtype = type.dtype;
  o.view = View::contiguous(dims_of(type.shape));
  return o;
}

OperandList NodeLowering::lower_body(const Graph& body, const Graph& at_capacity, OperandList inputs,
                                     const std::string& prefix, const OperandList& into) {
  std::map<ValueId, Operand> values;
  // Where the value is computed in place: the place of the first output that it is.
  const auto place_of = [&](ValueId v, const Operand& like) {
    for (size_t o = 0; o < into.size(); ++o) {
      if (body.outputs()[o].value == v)
        return into[o].view == like.view && into[o].dtype == like.dtype ? into[o].storage : -1;
    }
    return -1;
  };
  size_t next_input = 0;
  std::vector<int32_t> names;
  const auto sized = [&](int32_t id) {
    const std::string& name = program_.names[static_cast<size_t>(names[static_cast<size_t>(id)])].name;
    return SizedNode{body, at_capacity, id, run_symbols_.contains(name)};
  };
  for (int32_t id = 0; id < body.size(); ++id) {
    const Node& n = body.node(id);
    const int32_t name = names.emplace_back(number_of(prefix + n.name, n));
    if (n.op->is(LeafKind::input)) {
      values[{id, 0}] = std::move(inputs[next_input++]);
      continue;
    }
    const SizedNode node = sized(id);
    for (int32_t i = 0; i < static_cast<int32_t>(n.outputs.size()); ++i) {
      Operand o = n.op->is_leaf() ? leaf(n, name) : node.seen(i, values, -1);
      if (o.storage < 0) o.storage = place_of({id, i}, o);
      if (o.storage < 0) o.storage = scratch_.take(node.bytes(i), name);
      values[{id, i}] = std::move(o);
    }
  }
  for (int32_t id : schedule(body)) {
    const SizedNode node = sized(id);
    if (body.node(id).op->is_leaf()) continue;
    const NodeOperands operands = node.operands(values);
    if (!node.is_free(operands)) lower(node, operands, names[static_cast<size_t>(id)]);
  }
  OperandList outputs;
  for (const Graph::Output& o : body.outputs()) outputs.push_back(values.at(o.value));
  return outputs;
}

int32_t NodeLowering::word_of(const Operand& scalar, int32_t name) {
  Lowering l = at(name);
  const Operand word = l.scratch(DType::i32, {});
  lower_word(l, scalar, word);
  return word.storage;
}

void NodeLowering::lower_if(const SizedNode& node, const NodeOperands& operands, int32_t name) {
  using enum Instruction::Kind;
  const Op& op = *node.node().op;
  const Op& largest = *node.at_capacity.node(node.id).op;
  const OperandList captured(operands.inputs.begin() + 1, operands.inputs.end());
  const auto branch = [&](size_t which) {
    const OperandList results = lower_body(
        *op.subgraphs()[which].graph, *largest.subgraphs()[which].graph, captured,
        prefix_within(program_.names[static_cast<size_t>(name)].name, op, which), operands.outputs);
    Lowering l = at(name);
    for (size_t o = 0; o < results.size(); ++o) {
      if (results[o].storage != operands.outputs[o].storage) lower_copy(l, results[o], operands.outputs[o]);
    }
  };
  const size_t unless_true = add({.kind = unless, .word = word_of(operands.inputs[0], name)});
  branch(0);  // then
  const size_t to_end = add({.kind = jump});
  code_[unless_true].target = code_.size();
  branch(1);  // else
  close_run();
  code_[to_end].target = code_.size();
}

int32_t NodeLowering::lower_loop(const SizedNode& node, const NodeOperands& operands, int32_t name) {
  using enum Instruction::Kind;
  const Node& n = node.node();
  const auto* op = op_cast<Loop>(*n.op);
  const auto* largest = op_cast<Loop>(*node.at_capacity.node(node.id).op);
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

  Instruction start{.kind = begin, .loop = loop_count_++};
  // A loop whose iterations are counted ends, and is an error, after one more than can be.
  if (node.determines_size) start.trips = largest->count->value() + 1;
  if (op->exactly) {
    start.trips = std::min(start.trips, op->exactly->value());
  } else if (trips.present()) {
    if (const std::optional<int64_t> known = constant_integer(node.graph, n.inputs[0])) {
      start.trips = std::min(start.trips, *known);
    } else {
      start.word = word_of(trips, name);
    }
  }
  add(start);
  const bool decides = condition.present() || !op->always_continues();
  const size_t at_test =
      add({.kind = test, .word = decides ? going.storage : Instruction::kNoWord, .loop = start.loop});

  const size_t first = dispatches_.size();
  OperandList inputs = {iteration};
  inputs.insert(inputs.end(), operands.outputs.begin(), operands.outputs.begin() + op->carried);
  if (operands.inputs.size() > kFirst + carried) {
    inputs.insert(inputs.end(), operands.inputs.begin() + static_cast<int64_t>(kFirst + carried),
                  operands.inputs.end());
  }
  const OperandList results =
      lower_body(*op->body, *largest->body, std::move(inputs),
                 prefix_within(program_.names[static_cast<size_t>(name)].name, *op, 0));
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
  loops_.push_back({first - first_, dispatches_.size() - first_});
  close_run();
  code_[at_test].masked = !writes_state(n) && !reads_words(std::span(code_).subspan(at_test + 1));
  add({.kind = next, .target = at_test, .loop = start.loop});
  code_[at_test].target = code_.size();
  return iteration.storage;
}

}  // namespace rlx
