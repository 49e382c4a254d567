#include "ops/call.h"

#include "ir/reference.h"
#include "ops/op_table.h"

namespace rlx {

std::vector<int32_t> Call::parameters() const {
  std::vector<int32_t> nodes;
  for (int32_t id = 0; id < body->size(); ++id) {
    if (body->node(id).op->is(LeafKind::input)) nodes.push_back(id);
  }
  return nodes;
}

std::vector<TensorType> Call::infer(const InferArgs& in) const {
  if (!body) fail("call: the attribute 'body' is missing");
  for (const Node& n : body->nodes()) {
    if (n.op->is(LeafKind::param) || n.op->is(LeafKind::state)) {
      fail("call: the body '{}' has the {} '{}'; pass it in as an input", body->name, n.op->name(), n.name);
    }
  }
  const std::vector<int32_t> inputs = parameters();
  in.expect_count(static_cast<int64_t>(inputs.size()));
  for (int64_t i = 0; i < in.count(); ++i) {
    const Node& n = body->node(inputs[static_cast<size_t>(i)]);
    if (is_encoded(n.outputs[0].dtype)) {
      fail("call: '{}' of the body '{}' is {}; a body sees decoded values, declare it as {}", n.name,
           body->name, n.outputs[0].text(), value_type(n.outputs[0]).text());
    }
    if (!(n.outputs[0] == in[i])) {
      fail("call: input {} is {}, but '{}' of the body '{}' is {}", i, in[i].text(), n.name, body->name,
           n.outputs[0].text());
    }
  }
  std::vector<TensorType> outputs;
  for (const Graph::Output& o : body->outputs()) outputs.push_back(value_type(body->type(o.value)));
  return outputs;
}

void Call::reference(RefContext& r) const {
  NamedTensors leaves;
  const std::vector<int32_t> inputs = parameters();
  for (size_t i = 0; i < inputs.size(); ++i) {
    leaves[body->node(inputs[i]).name] = r.in(static_cast<int64_t>(i)).to_tensor();
  }
  auto values = run_reference(*body, leaves);
  for (size_t o = 0; o < body->outputs().size(); ++o) {
    r.out(static_cast<int64_t>(o)) = std::move(values.at(body->outputs()[o].name));
  }
}

std::optional<std::vector<Value>> Call::expand(const ExpandArgs& in) const {
  std::map<ValueId, ValueId> map;
  const std::vector<int32_t> inputs = parameters();
  for (size_t i = 0; i < inputs.size(); ++i) map[{inputs[i], 0}] = in.inputs[i].id();
  for (int32_t id = 0; id < body->size(); ++id) {
    if (map.contains({id, 0})) continue;
    const Node& n = body->node(id);
    std::vector<ValueId> mapped;
    for (ValueId v : n.inputs) mapped.push_back(v.is_absent() ? v : map.at(v));
    const ValueId fresh = in.graph.add(n.op, std::move(mapped), n.name);
    for (int32_t o = 0; o < static_cast<int32_t>(n.outputs.size()); ++o) map[{id, o}] = {fresh.node, o};
  }
  std::vector<Value> outputs;
  for (const Graph::Output& o : body->outputs()) outputs.push_back(in.graph.value(map.at(o.value)));
  return outputs;
}

Tolerance Call::tolerance(std::span<const TensorType>) const {
  // Each node of the body adds its error, relative to values of the size of the inputs: a later one may
  // cancel them.
  return {.ulps = 4.0 * body->size(), .scale = 4};
}

namespace ops {
void register_call(OpTable& table) {
  table.add<Call>(
      {.formula = "the outputs of a sub-graph for these inputs",
       .operands = "inputs...",
       .types = "f32",
       .variants = {"expanded"},
       .samples =
           {
               "call(f32[3,4]) {body=graph b { %x = input : f32[3,4] %y = neg(%x) output y = %y }}",
               "call(f32[17], f32[]) {body=graph b { %x = input : f32[17] %s = input : f32[] %y = mul(%x, "
               "%s) "
               "%z = add(%y, 1) output y = %y output z = %z }}",
               "call(f32[5]) {body=graph outer { %x = input : f32[5] %y = call(%x) {body=graph inner { %x = "
               "input : f32[5] "
               "%y = relu(%x) output y = %y }} %z = sub(%y, %x) output z = %z }}",
               "call(f32[1]) {body=graph same { %x = input : f32[1] output x = %x }}",
               "call(f32[0,3]) {body=graph b { %x = input : f32[0,3] %y = abs(%x) output y = %y }}",
               "call(f32[257,3]) {body=graph b { %x = input : f32[257,3] %y = transpose(%x) output y = %y }}",
           },
       .internal = true});
}
}  // namespace ops

}  // namespace rlx
