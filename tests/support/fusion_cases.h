// Graphs that match a fusion and graphs that nearly do. Whatever a pass makes of them computes the same, with
// NaN and infinities in every input; whether it fuses is stated for each.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "rlx/graph.h"

namespace rlx::testing {

struct FusionCase {
  std::string_view what;
  std::string body;
  bool fuses;
};

Graph graph_of(const std::string& body);

// The same values from both graphs: random ones, and again with the first and the last number of each input
// replaced by a value that spreads.
void expect_same_values(const Graph& got, const Graph& want);

// The pass makes a graph whose text has the sign exactly where the case says so.
void expect_cases(const std::function<Graph(const Graph&)>& pass, std::string_view sign,
                  const std::vector<FusionCase>& cases);

// A matmul %m [4, 6] of an input and a param, and what follows it.
std::string product(const std::string& rest);

}  // namespace rlx::testing
