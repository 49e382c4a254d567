// What the table says about the ops.
#include "ops/machinery/op_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "ops/machinery/operand_name.h"
#include "rlx/graph.h"
#include "rlx/schema.h"
#include "tests/support/message.h"
#include "tests/support/sample.h"

namespace rlx::testing {
namespace {

// Whether a tensor of this type may be there in a sample whose T is `t`.
bool admits(const OpSchema::Tensor& declared, const TensorType& type, DType t) {
  const DType seen = value_dtype(type.dtype);
  return std::ranges::contains(declared.types, to_string(seen)) ||
         (seen == t && std::ranges::contains(declared.types, "T"));
}

// That of input or output i; null if there are not so many.
const OpSchema::Tensor* declared(const std::vector<OpSchema::Tensor>& all, size_t i) {
  if (i < all.size()) return &all[i];
  return !all.empty() && all.back().variadic ? &all.back() : nullptr;
}

TEST(OpTable, ErrorsNameOperandsAsItDoes) {
  EXPECT_EQ(operand_name("attention", 0), "q");
  EXPECT_EQ(operand_name("attention", 10), "v_scale");
  // Of which there is any number, beyond the last, and of an op that it does not have.
  EXPECT_EQ(operand_name("matmul", 2), "input 2");
  EXPECT_EQ(operand_name("attention", 11), "input 11");
  EXPECT_EQ(operand_name("no_such_op", 1), "input 1");

  const auto said = [](const std::string& others, const std::string& operands, const std::string& of = "") {
    return message([&] {
      parse_graph("graph g { %q = input : f32[1,2,3,4] " + others + " %y = attention(" + operands + ")" + of +
                  " }");
    });
  };
  EXPECT_EQ(said("%i = input : i32[1,2,3,4]", "%q, %i, %q"),
            "line 1: node 'y': attention: q and k have the types f32 and i32; they must be equal (use cast)");
  EXPECT_EQ(said("%n = input : f32[1]", "%q, %q, %q, none, %n"),
            "line 1: node 'y': attention: lengths has type f32; it must have i32, i64 or u32");
  EXPECT_EQ(said("%s = input : i32[2]", "%q, %q, %q, none, none, %s"),
            "line 1: node 'y': attention: sinks has type i32; it must have a float type");
  EXPECT_EQ(said("%s = input : i32[2]", "%q, %q, %q, none, none, none, %s"),
            "line 1: node 'y': attention: slopes has type i32; it must have a float type");
  EXPECT_EQ(said("%v = input : f32[3,4]", "%q, %q, %v"),
            "line 1: node 'y': attention: v has rank 2; this layout needs 4");
  EXPECT_EQ(said("", "%q, none, %q"), "line 1: node 'y': attention: k is not optional");
}

// Every sample has the operands and outputs that the table names, with types that it gives them, and in some
// sample each of them is there.
TEST(OpTable, SaysWhatSamplesHave) {
  for (const auto& [name, info] : op_table().all()) {
    SCOPED_TRACE(name);
    const OpSchema& schema = op_schema(name);
    std::set<std::string> names;
    for (const OpSchema::Tensor& o : schema.operands) {
      EXPECT_TRUE(names.insert(o.name).second) << o.name;
      EXPECT_TRUE(!o.variadic || &o == &schema.operands.back()) << o.name;
    }
    std::set<const OpSchema::Tensor*> seen;
    for (const std::string& text : info.samples) {
      for (const DType t : types_of(info)) {
        SCOPED_TRACE(text + " of " + std::string(to_string(t)));
        const Sample s = make_sample(info, text, t, Reach::direct, 1);
        const Node& node = s.graph.node(s.graph.find("y"));
        for (size_t i = 0; i < std::max(node.inputs.size(), schema.operands.size()); ++i) {
          const OpSchema::Tensor* operand = declared(schema.operands, i);
          ASSERT_TRUE(operand) << "input " << i;
          const bool given = i < node.inputs.size() && !node.inputs[i].is_absent();
          EXPECT_TRUE(given || operand->optional || operand->variadic) << operand->name;
          if (!given) continue;
          seen.insert(operand);
          EXPECT_TRUE(admits(*operand, s.graph.type(node.inputs[i]), t)) << operand->name;
        }
        for (size_t i = 0; i < std::max(node.outputs.size(), schema.outputs.size()); ++i) {
          const OpSchema::Tensor* output = declared(schema.outputs, i);
          ASSERT_TRUE(output) << "output " << i;
          const bool made = i < node.outputs.size();
          EXPECT_TRUE(made || output->optional || output->variadic) << output->name;
          if (!made) continue;
          seen.insert(output);
          EXPECT_TRUE(admits(*output, node.outputs[i], t)) << output->name;
        }
      }
    }
    for (const std::vector<OpSchema::Tensor>* all : {&schema.operands, &schema.outputs}) {
      for (const OpSchema::Tensor& o : *all) EXPECT_TRUE(seen.contains(&o)) << o.name << " is in no sample";
    }
  }
}

TEST(OpTable, ExplainsAllOfAnOp) {
  for (const std::string& name : op_names()) {
    const OpSchema& schema = op_schema(name);
    if (schema.custom) continue;
    SCOPED_TRACE(name);
    EXPECT_FALSE(schema.doc.empty());
    const auto explained = [](const auto& all) {
      for (const auto& item : all) {
        EXPECT_FALSE(item.doc.empty()) << item.name;
        EXPECT_FALSE(item.doc.ends_with('.')) << item.doc;
      }
    };
    explained(schema.operands);
    explained(schema.attributes);
    explained(schema.outputs);
  }
}

}  // namespace
}  // namespace rlx::testing
