// docs/op-map.md names ops and functions that exist.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "ops/machinery/op_table.h"
#include "tests/support/paths.h"

namespace rlx::testing {
namespace {

namespace fs = std::filesystem;

std::string slurp(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Whatever is called in the public headers: declarations of functions look like calls.
std::set<std::string> public_functions() {
  std::set<std::string> out;
  const std::regex call(R"(\b([a-z_][a-z_0-9]*)\()");
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(in_source("include/rlx")))) {
    const std::string text = slurp(entry.path());
    for (auto it = std::sregex_iterator(text.begin(), text.end(), call); it != std::sregex_iterator(); ++it)
      out.insert((*it)[1]);
  }
  return out;
}

// The cells of each row of the tables, without heads and rules.
std::vector<std::vector<std::string>> table_rows(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| ") || line.starts_with("| the Rust crate ")) continue;
    std::vector<std::string> cells;
    std::istringstream in(line.substr(1));
    for (std::string cell; std::getline(in, cell, '|');) cells.push_back(cell);
    rows.push_back(std::move(cells));
  }
  return rows;
}

TEST(OpMap, NamesWhatExists) {
  const std::set<std::string> functions = public_functions();
  ASSERT_TRUE(functions.contains("matmul_bias_act"));
  const std::regex quoted("`([^`]*)`");
  std::set<std::string> seen;
  for (const std::vector<std::string>& cells : table_rows(slurp(in_source("docs/op-map.md")))) {
    ASSERT_EQ(cells.size(), 3u) << cells[0];
    EXPECT_TRUE(seen.insert(cells[0]).second) << cells[0] << " is there twice";
    int names = 0;
    for (auto it = std::sregex_iterator(cells[1].begin(), cells[1].end(), quoted);
         it != std::sregex_iterator(); ++it, ++names) {
      const std::string name = (*it)[1];
      EXPECT_TRUE(op_table().find(name) != nullptr || functions.contains(name)) << cells[0] << ": " << name;
    }
    EXPECT_GT(names, 0) << cells[0];
  }
  EXPECT_GE(seen.size(), 60u);
}

}  // namespace
}  // namespace rlx::testing
