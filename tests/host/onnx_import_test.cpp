// ONNX models become graphs: names, types, sizes, functions, sub-graphs, and what is refused.
#include <gtest/gtest.h>

#include "ir/reference.h"
#include "rlx/onnx.h"
#include "tests/support/message.h"
#include "tests/support/onnx_model.h"

namespace rlx {
namespace {

using testing::ElementType;
using testing::OnnxGraph;
using testing::OnnxModel;

TEST(OnnxImport, NodesBecomeNodesAndKeepTheirNames) {
  OnnxModel model;
  model.graph.input("x", {2, "n"}).node("Relu", {"x"}, {"y"}).output("y");
  const onnx::Model loaded = onnx::parse(model.bytes());
  EXPECT_EQ(loaded.graph.outputs()[0].name, "y");
  EXPECT_EQ(print(loaded.graph), R"(graph test {
  %x = input : f32[2, n]
  %y = relu(%x) : f32[2, n]
  output y = %y
}
)");
}

}  // namespace
}  // namespace rlx
