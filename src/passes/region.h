// Growing a scalar expression over values of a graph: what the element-wise and the epilogue fusion share.
#pragma once

#include <vector>

#include "ops/elementwise/expr.h"
#include "rlx/graph.h"

namespace rlx {

class Region {
 public:
  explicit Region(const Graph& graph) : graph_(graph) {}

  Expr expr;
  std::vector<ValueId> inputs;  // one for each input of the expression

  // The value as an argument: a number if it is a scalar constant, else an input (the same one each time).
  Expr::Arg use(ValueId value);
  // Adds the steps of `other` with these arguments for its inputs; returns its result.
  Expr::Arg splice(const Expr& other, const std::vector<Expr::Arg>& args);

 private:
  const Graph& graph_;
};

// How much a kernel may compute for one element, in units of ScalarFn::cost: the driver's compiler inlines
// everything and takes more than linear time for it. 300 tanh took 38 s in one kernel, and take less than 2 s
// in several.
inline constexpr int64_t kRegionBudget = 128;

// What is computed again for every element of a region instead of in a dispatch of its own costs at most
// this: a few operations on what broadcasts.
inline constexpr int64_t kBroadcastBudget = 4;

// The value of a constant with one element (real types), or nothing.
std::optional<double> scalar_constant(const Graph& graph, ValueId value);

}  // namespace rlx
