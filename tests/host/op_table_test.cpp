// What the table says about the ops.
#include "ops/op_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "ir/operand_name.h"
#include "tests/support/message.h"
#include "tests/support/sample.h"

namespace rlx::testing {
namespace {

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string w; in >> w;) out.push_back(w);
  return out;
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

TEST(OpTable, NamesTheOperandsThatSamplesHave) {
  for (const auto& [name, info] : op_table().all()) {
    SCOPED_TRACE(name);
    const std::vector<std::string> names = words(info.operands);
    EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
    const std::shared_ptr<Op> op = info.make();
    const bool any_number = !names.empty() && names.back().ends_with("...");
    size_t needed = 0;
    for (size_t i = 0; i < names.size() - any_number; ++i) {
      if (!op->optional_input(static_cast<int64_t>(i))) needed = i + 1;
      EXPECT_FALSE(names[i].ends_with("..."));
    }
    size_t most = 0;
    for (const std::string& text : info.samples) {
      const Sample s = make_sample(info, text, types_of(info).front(), Reach::direct, 1);
      const size_t given = s.graph.node(s.graph.find("y")).inputs.size();
      EXPECT_GE(given, needed) << text;
      most = std::max(most, given);
    }
    // All of them are given in some sample.
    EXPECT_TRUE(any_number ? most >= names.size() : most == names.size()) << most;
  }
}

}  // namespace
}  // namespace rlx::testing
