// What the table says about the ops.
#include "ops/op_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "tests/support/sample.h"

namespace rlx::testing {
namespace {

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string w; in >> w;) out.push_back(w);
  return out;
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
