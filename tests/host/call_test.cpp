// Ops by their names, with attributes of every kind.
#include "rlx/call.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "ir/op.h"
#include "ops/machinery/op_table.h"
#include "rlx/graph.h"
#include "rlx/schema.h"
#include "tests/support/message.h"
#include "tests/support/sample.h"

namespace rlx::testing {
namespace {

AttributeArguments arguments_of(const Op& op) {
  AttributeArguments out;
  for (const auto& [name, value] : attributes(op)) {
    out.emplace_back(name, std::visit(
                               []<class T>(const T& v) -> AttributeArgument {
                                 if constexpr (std::same_as<T, std::monostate>)
                                   return std::nullopt;
                                 else if constexpr (std::same_as<T, ExprAttr>)
                                   return v.text();
                                 else
                                   return v;
                               },
                               value));
  }
  return out;
}

// The graph with the node `y` made by its name.
Graph called_again(const Graph& graph) {
  Graph out;
  out.name = graph.name;
  std::map<ValueId, ValueId> made;
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    int32_t fresh = -1;
    if (n.name == "y") {
      std::vector<Value> inputs;
      for (const ValueId v : n.inputs) inputs.push_back(v.is_absent() ? Value() : out.value(made.at(v)));
      const std::vector<Value> values = call(out, n.op->name(), inputs, arguments_of(*n.op));
      EXPECT_EQ(values.size(), n.outputs.size());
      fresh = values[0].named(n.name).id().node;
    } else {
      std::vector<ValueId> inputs;
      for (const ValueId v : n.inputs) inputs.push_back(v.is_absent() ? v : made.at(v));
      fresh = out.add(n.op, inputs, n.name).node;
    }
    for (int32_t o = 0; o < static_cast<int32_t>(n.outputs.size()); ++o) made[{id, o}] = {fresh, o};
  }
  for (Graph::Output o : graph.outputs()) {
    o.value = made.at(o.value);
    out.add_output(std::move(o));
  }
  return out;
}

TEST(Call, MakesEveryOpAsTextsDo) {
  int64_t samples = 0;
  for (const auto& [name, info] : op_table().all()) {
    for (const std::string& text : info.samples) {
      SCOPED_TRACE(text);
      const Sample sample = make_sample(info, text, types_of(info).front(), Reach::direct, 1);
      EXPECT_EQ(to_text(called_again(sample.graph), 100), to_text(sample.graph, 100));
      ++samples;
    }
  }
  EXPECT_GT(samples, 1000);
}

TEST(Call, TakesAttributesAsTheyAreWritten) {
  Graph g;
  const Value x = g.input("x", DType::f32, {"n", 4, 6, 8});
  const auto said = [&](const Value& value) {
    return std::string(to_text(g)).contains(value.type().text()) ? value.type().text() : "";
  };
  EXPECT_EQ(said(call("softmax", {x}, {{"axis", -1}})[0]), "f32[n, 4, 6, 8]");
  EXPECT_EQ(said(call("cast", {x}, {{"to", DType::i32}})[0]), "i32[n, 4, 6, 8]");
  EXPECT_EQ(said(call("reshape", {x}, {{"shape", Shape{"n", 192}}})[0]), "f32[n, 192]");
  EXPECT_EQ(said(call("mean", {x}, {{"axes", {1, 2}}, {"keepdims", true}})[0]), "f32[n, 1, 1, 8]");
  EXPECT_EQ(said(call("topk", {x}, {{"k", 3}})[1]), "i64[n, 4, 6, 3]");
  const Value w = g.param("w", DType::f32, {5, 4, 3, 3});
  EXPECT_EQ(said(call("conv", {x, w}, {{"pads", {1, 1, 1, 1}}})[0]), "f32[n, 5, 6, 8]");
  const Value row = call(g, "range", {}, {{"length", Dim::symbol("n") * Dim(2)}, {"dtype", DType::i32}})[0];
  EXPECT_EQ(said(row), "i32[2*n]");
  EXPECT_EQ(said(call("quantile", {x}, {{"q", {0.25, 0.5}}})[0]), "f32[2]");
  const Value gated = call("matmul", {x, g.param("v", DType::f32, {8, 3})}, {{"epilogue", "relu($0)"}})[0];
  EXPECT_EQ(said(gated), "f32[n, 4, 6, 3]");

  Graph body;
  body.output("y", call("neg", {body.input("x", DType::f32, {"n", 4, 6, 8})})[0]);
  EXPECT_EQ(said(call("call", {x}, {{"body", body}})[0]), "f32[n, 4, 6, 8]");

  // An operand that is left out between others, and one at the end.
  const Value beta = g.param("beta", DType::f32, {8});
  const Value norm = call("layer_norm", {x, {}, beta})[0];
  EXPECT_TRUE(g.producer(norm.id()).inputs[1].is_absent());
}

TEST(Call, SaysWhatIsWrong) {
  Graph g;
  const Value x = g.input("x", DType::f32, {3, 4});
  const int32_t before = g.size();
  EXPECT_EQ(message([&] { call("sofmax", {x}); }),
            "there is no op named 'sofmax' (similar: softmax; `rlx ops` lists all)");
  EXPECT_EQ(message([&] { call("softmax", {x}, {{"axes", 1}}); }),
            "softmax: has no attribute 'axes' (it has: axis)");
  EXPECT_EQ(message([&] { call("softmax", {x}, {{"axis", "last"}}); }),
            "softmax: the attribute axis takes a value of the kind 'whole number', not \"last\"");
  EXPECT_EQ(message([&] { call("softmax", {x}, {{"axis", 0}, {"axis", 1}}); }),
            "softmax: the attribute 'axis' is given twice");
  EXPECT_EQ(message([&] { call("topk", {x}); }), "topk: the attribute 'k' is missing");
  EXPECT_EQ(message([&] { call("conv", {x, x}, {{"layout", "nchw"}}); }),
            "conv: the attribute layout is 'nchw'; it can be channels_first, channels_last");
  EXPECT_EQ(message([&] { call("layer_norm", {Value(), x}); }),
            "layer_norm: the operand 'x' is missing (its operands: x, gamma (optional), beta (optional))");
  EXPECT_EQ(message([&] { call("add", {x}); }), "add: the operand 'b' is missing (its operands: a, b)");
  EXPECT_EQ(message([&] { call("softmax", {x, x}); }), "softmax: 2 inputs were given, but it has 1: x");
  EXPECT_EQ(message([&] { call("eye", {}, {{"rows", 2}, {"columns", 2}}); }),
            "eye: has no input that would say to which graph it belongs; give it: call(graph, \"eye\", ...)");
  EXPECT_EQ(message([&] { call("softmax", {}); }), "softmax: the operand 'x' is missing (its operands: x)");
  Graph other;
  EXPECT_SAYS(call(other, "neg", {x}), "neg: an input belongs to another graph");
  EXPECT_EQ(g.size(), before);
}

TEST(Schema, SaysAllAboutAnOp) {
  const OpSchema& op = op_schema("attention");
  ASSERT_EQ(op.operands.size(), 11U);
  EXPECT_EQ(op.operands[3].name, "mask");
  EXPECT_TRUE(op.operands[3].optional);
  EXPECT_EQ(op.operands[3].types, (std::vector<std::string>{"T", "f32", "bool"}));
  EXPECT_EQ(op.types, (std::vector<std::string>{"f32", "f16", "bf16"}));
  ASSERT_GE(op.attributes.size(), 3U);
  EXPECT_EQ(op.attributes[2].name, "layout");
  EXPECT_EQ(op.attributes[2].kind, "text");
  EXPECT_EQ(op.attributes[2].default_value, "\"bhsd\"");
  EXPECT_EQ(op.attributes[2].words, (std::vector<std::string>{"bhsd", "bshd", "bsd"}));
  EXPECT_FALSE(op.attributes[2].doc.empty());
  ASSERT_EQ(op.outputs.size(), 2U);
  EXPECT_EQ(op.outputs[1].name, "log_sum");
  EXPECT_TRUE(op.outputs[1].optional);
  EXPECT_FALSE(op_schema("topk").attributes[0].default_value);
  EXPECT_TRUE(op_schema("concat").operands.back().variadic);
  EXPECT_TRUE(op_schema("contiguous").internal);
  EXPECT_EQ(&op_schema("attention"), &op);
  EXPECT_SAYS(op_schema("atention"), "similar: attention");
}

}  // namespace
}  // namespace rlx::testing
