#include "ops/control_flow/call.h"

#include "ir/reference.h"
#include "ir/subgraphs.h"
#include "ops/control_flow/body.h"
#include "ops/machinery/op_table.h"

namespace rlx {

std::vector<TensorType> Call::infer(const InferArgs& in) const {
  expect_body(kName, "body", body);
  for (const Node& n : body->nodes()) {
    if (n.op->is(LeafKind::param) || n.op->is(LeafKind::state)) {
      fail("call: the body '{}' has the {} '{}'; pass it in as an input", body->name, n.op->name(), n.name);
    }
  }
  std::vector<TensorType> given;
  for (int64_t i = 0; i < in.count(); ++i) given.push_back(in[i]);
  expect_body_inputs(kName, *body, given);
  return body_output_types(*body);
}

void Call::reference(RefContext& r) const {
  std::vector<RefTensor> inputs;
  for (int64_t i = 0; i < r.input_count(); ++i) inputs.push_back(r.in(i));
  std::vector<RefTensor> outputs = r.run(*body, std::move(inputs));
  for (size_t o = 0; o < outputs.size(); ++o) r.out(static_cast<int64_t>(o)) = std::move(outputs[o]);
}

std::optional<std::vector<Value>> Call::expand(const ExpandArgs& in) const {
  std::map<ValueId, ValueId> map;
  const std::vector<int32_t> inputs = body_inputs(*body);
  for (size_t i = 0; i < inputs.size(); ++i) map[{inputs[i], 0}] = in.inputs[i].id();
  std::vector<Value> outputs;
  for (ValueId v : inline_body(in.graph, *body, std::move(map))) outputs.push_back(in.graph.value(v));
  return outputs;
}

Tolerance Call::tolerance(std::span<const TensorType>) const { return body_tolerance(*body); }

namespace ops {
void register_call(OpTable& table) {
  table.add<Call>(
      {.formula = "the outputs of a sub-graph for these inputs",
       .operands = "inputs... (any): what the inputs of the body are given, in order",
       .attributes = "body: the sub-graph, without params and states",
       .outputs = "outputs... (any): those of the body, in order",
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
