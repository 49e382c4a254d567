#include <gtest/gtest.h>

#include "rlx/rlx.h"

namespace rlx {
namespace {

TEST(Session, AddRunsThroughTheWholeChain) {
  Session session;
  Executable exe = session.compile(parse_graph(R"(graph add {
    %a = input : f32[2, 3]
    %b = input : f32[3]
    %y = add(%a, %b)
    output y = %y
  })"));
  const NamedTensors out = exe.run(
      {{"a", Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6})}, {"b", Tensor::of<float>({3}, {10, 20, 30})}});
  EXPECT_EQ(out.at("y").to<float>(), (std::vector<float>{11, 22, 33, 14, 25, 36}));
}

}  // namespace
}  // namespace rlx
