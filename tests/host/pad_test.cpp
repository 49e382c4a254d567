// Padding with numbers of both signs: what is cut off is never seen.
#include <gtest/gtest.h>

#include "ir/reference.h"
#include "rlx/graph.h"
#include "rlx/ops/rearrange.h"
#include "tests/support/message.h"

namespace rlx::testing {
namespace {

using Row = std::vector<double>;

Row padded(Row x, int64_t before, int64_t after, PadMode mode) {
  Graph g;
  const auto n = static_cast<int64_t>(x.size());
  g.output("y", pad(g.input("x", DType::f32, Shape({n})), {before}, {after}, mode));
  return run_reference(g, {{"x", Tensor::from_doubles(DType::f32, {n}, x)}}).at("y").real;
}

// numpy.pad(x[cut], ...), worked out by hand.
TEST(Pad, CutsFirstAndPadsWhatIsLeft) {
  const Row x = {1, 2, 3, 4, 5};
  EXPECT_EQ(padded(x, -2, 3, PadMode::reflect), (Row{3, 4, 5, 4, 3, 4}));
  EXPECT_EQ(padded(x, 4, -3, PadMode::reflect), (Row{1, 2, 1, 2, 1, 2}));
  EXPECT_EQ(padded(x, -1, -1, PadMode::reflect), (Row{2, 3, 4}));
  EXPECT_EQ(padded(x, -4, 2, PadMode::reflect), (Row{5, 5, 5}));
  EXPECT_EQ(padded(x, -2, 4, PadMode::wrap), (Row{3, 4, 5, 3, 4, 5, 3}));
  EXPECT_EQ(padded(x, 2, -3, PadMode::wrap), (Row{1, 2, 1, 2}));
  EXPECT_EQ(padded(x, 2, -2, PadMode::edge), (Row{1, 1, 1, 2, 3}));
  EXPECT_EQ(padded(x, -3, 2, PadMode::edge), (Row{4, 5, 5, 5}));
  EXPECT_EQ(padded(x, -2, 2, PadMode::constant), (Row{3, 4, 5, 0, 0}));
  EXPECT_EQ(padded(x, -7, 4, PadMode::constant), (Row{0, 0}));
  EXPECT_EQ(padded(x, 2, 6, PadMode::reflect), (Row{3, 2, 1, 2, 3, 4, 5, 4, 3, 2, 1, 2, 3}));
}

TEST(Pad, NothingLeftCannotBeRepeated) {
  const std::string what = message([] { padded({1, 2, 3}, -3, 2, PadMode::reflect); });
  EXPECT_TRUE(what.contains("leave nothing of axis 0")) << what;
  EXPECT_EQ(padded({1, 2, 3}, -3, 0, PadMode::reflect), Row{});
}

}  // namespace
}  // namespace rlx::testing
