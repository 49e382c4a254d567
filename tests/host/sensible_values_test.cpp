// The values that ops want their inputs to be drawn from.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "base/format.h"
#include "ir/op.h"
#include "ops/machinery/op_table.h"
#include "ops/products/product_op.h"
#include "rlx/graph.h"
#include "tests/support/sample.h"

namespace rlx::testing {
namespace {

// "1..7" of an input of the node y; "" if any value will do.
std::string wanted(const std::string& text, int64_t input) {
  const Graph g = parse_graph("graph g {\n" + text + "\noutput y = %y\n}");
  const Node& n = g.node(g.find("y"));
  const std::optional<ValueRange> range = n.op->sensible_values(input, input_types(g, n));
  return range ? formatted("{}..{}", range->low, range->high) : "";
}

TEST(SensibleValues, AreThoseThatTheOpCanUse) {
  const std::string x = "%x = input : f32[5, 7] %i = input : i64[2, 3] ";
  EXPECT_EQ(wanted(x + "%y = gather(%x, %i)", 1), "0..4");
  EXPECT_EQ(wanted(x + "%y = gather(%x, %i) {axis=-1}", 1), "0..6");
  EXPECT_EQ(wanted(x + "%y = gather(%x, %i)", 0), "");
  EXPECT_EQ(wanted(x + "%y = gather_elements(%x, %i) {axis=1}", 1), "0..6");
  EXPECT_EQ(wanted("%x = input : f32[5, 7] %i = input : i64[3, 2] %y = gather_nd(%x, %i)", 1), "0..4");
  EXPECT_EQ(wanted("%x = input : f32[5, 7] %i = input : i64[4, 1] %u = input : f32[4, 7] "
                   "%y = scatter_nd(%x, %i, %u)",
                   1),
            "0..4");
  EXPECT_EQ(wanted("%i = input : i32[9] %a = input : f32[] %y = one_hot(%i, %a, %a) {depth=6}", 0), "0..5");
  EXPECT_EQ(wanted("%x = input : f32[9] %i = input : i32[9] %y = segment_reduce(%x, %i) {segments=4}", 1),
            "0..3");
  const std::string attention =
      "%q = input : f32[2, 3, 5, 8] %k = input : f32[2, 3, 11, 8] "
      "%n = input : i32[2] %y = attention(%q, %k, %k, lengths=%n)";
  EXPECT_EQ(wanted(attention, 4), "1..11");
  EXPECT_EQ(wanted(attention, 0), "");
  EXPECT_EQ(wanted("%x = input : f32[4, 3] %m = input : f32[3] %y = batch_norm(%x, %m, %m)", 2), "0..1");
  EXPECT_EQ(wanted("%x = input : f32[6, 8] %w = input : f32[3, 8, 2] %e = input : i32[6] "
                   "%y = grouped_matmul(%x, %w, %e)",
                   2),
            "0..2");
  EXPECT_EQ(wanted("%x = input : f32[n, 7] %i = input : i64[3] %y = gather(%x, %i)", 1), "");  // not known
}

TEST(SensibleValues, AreRangesForEverySample) {
  for (const auto& [name, info] : op_table().all()) {
    for (const std::string& text : info.samples) {
      SCOPED_TRACE(text);
      const Sample s = make_sample(info, text, types_of(info).front(), Reach::direct, 1);
      const Node& n = s.graph.node(s.graph.find("y"));
      const std::vector<TensorType> types = input_types(s.graph, n);
      for (size_t i = 0; i < n.inputs.size(); ++i) {
        const std::optional<ValueRange> range = n.op->sensible_values(static_cast<int64_t>(i), types);
        if (!range) continue;
        EXPECT_LE(range->low, range->high) << "input " << i;
      }
    }
  }
}

}  // namespace
}  // namespace rlx::testing
