#include "ops/control_flow/if.h"

#include <algorithm>

#include "ir/reference.h"
#include "ops/control_flow/body.h"
#include "ops/machinery/op_table.h"
#include "rlx/graph.h"
#include "rlx/ops/control_flow.h"

namespace rlx {

std::vector<TensorType> If::infer(const InferArgs& in) const {
  expect_body(kName, "then", then_body);
  expect_body(kName, "else", else_body);
  if (in.count() == 0) fail("if: takes a condition, and the inputs of its bodies");
  const bool decides = in.dtype(0) == DType::bool_ || is_integer(in.dtype(0));
  if (!decides || !is_one_element(in.shape(0)))
    fail("if: the condition is {}; it must be one bool or integer", in[0].text());
  std::vector<TensorType> given;
  for (int64_t i = 1; i < in.count(); ++i) given.push_back(in[i]);
  expect_body_inputs(kName, *then_body, given);
  expect_body_inputs(kName, *else_body, given);

  std::vector<TensorType> outputs = body_output_types(*then_body);
  const std::vector<TensorType> others = body_output_types(*else_body);
  if (outputs.size() != others.size()) {
    fail("if: the body '{}' has {} outputs, but '{}' has {}", then_body->name, outputs.size(),
         else_body->name, others.size());
  }
  if (outputs.empty()) fail("if: the body '{}' has no output", then_body->name);
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (outputs[o] == others[o]) continue;
    fail("if: output {} is {} in the body '{}', but {} in '{}'", o, outputs[o].text(), then_body->name,
         others[o].text(), else_body->name);
  }
  return outputs;
}

void If::reference(RefContext& r) const {
  std::vector<RefTensor> inputs;
  for (int64_t i = 1; i < r.input_count(); ++i) inputs.push_back(r.in(i));
  const bool condition = r.in(0).ints[0] != 0;
  std::vector<RefTensor> outputs = r.run(condition ? *then_body : *else_body, std::move(inputs));
  for (size_t o = 0; o < outputs.size(); ++o) r.out(static_cast<int64_t>(o)) = std::move(outputs[o]);
}

Tolerance If::tolerance(std::span<const TensorType>) const {
  const bool longer = then_body->size() > else_body->size();
  return body_tolerance(longer ? *then_body : *else_body);
}

std::vector<Value> if_else(Value condition, const std::vector<Value>& inputs, Graph then_body,
                           Graph else_body) {
  auto op = std::make_shared<If>();
  op->then_body = std::make_shared<const Graph>(std::move(then_body));
  op->else_body = std::make_shared<const Graph>(std::move(else_body));
  std::vector<Value> all = {condition};
  all.insert(all.end(), inputs.begin(), inputs.end());
  return all_outputs(add_node(op, all));
}

namespace ops {
void register_if(OpTable& table) {
  table.add<If>(
      {.formula =
           "the outputs of `then` if the condition is not zero, else those of `else`, for these inputs",
       .operands = "condition (bool integer): one element\n"
                   "inputs... (any): what the inputs of the body are given, in order",
       .attributes = "then: the body if the condition is not zero\n"
                     "else: the body if it is; inputs and outputs of both have the same types",
       .outputs = "outputs... (any): those of the body, in order",
       .types = "bool i32 i64 u8",
       .variants = {"control_flow"},
       .samples = {
           "if(T[], f32[17]) {then=graph a { %x = input : f32[17] %y = neg(%x) output y = %y }, "
           "else=graph b { %x = input : f32[17] %y = exp(%x) output y = %y }}",
           "if(T[1] in 0..1, f32[3,5], f32[5]) {then=graph a { %x = input : f32[3,5] %b = input : f32[5] "
           "%y = add(%x, %b) output y = %y output x = %x }, "
           "else=graph b { %x = input : f32[3,5] %b = input : f32[5] %y = mul(%x, %b) output y = %y "
           "output z = %y }}",
           "if(T[] in 0..1, f32[0]) {then=graph a { %x = input : f32[0] output y = %x }, "
           "else=graph b { %x = input : f32[0] %y = abs(%x) output y = %y }}",
       }});
}
}  // namespace ops

}  // namespace rlx
