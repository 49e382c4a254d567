// Images that do not fit into one binding of the device itself.
#include <gtest/gtest.h>

#include "ir/op.h"
#include "ir/reference.h"
#include "rlx/compile.h"
#include "rlx/dtype.h"
#include "rlx/graph.h"
#include "rlx/ops/convolution.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/normalization.h"
#include "rlx/ops/pooling.h"
#include "rlx/ops/resampling.h"
#include "rlx/tensor.h"
#include "rlx/value.h"
#include "tests/support/compare.h"
#include "tests/support/full.h"
#include "tests/support/sample.h"

namespace rlx::testing {
namespace {

TEST(VisionLimits, ImagesLargerThanABinding) {
  if (!full_run()) GTEST_SKIP() << "hundreds of MiB; the sweep shows the same with small limits";
  Graph g;
  constexpr int64_t kSize = 905;  // 64 channels of this size are 200 MiB
  const Value x = g.input("x", DType::f32, {1, 64, kSize, kSize});
  const Value w = g.input("w", DType::f32, {2, 64, 1, 1});
  const Value taps = g.input("taps", DType::f32, {64, 1, 3, 3});
  g.output("max_pool", max_pool(x, {3, 3}, {.strides = {2, 2}, .pads = {1, 1, 1, 1}}));
  g.output("avg_pool", avg_pool(x, {2, 2}, {.strides = {2, 2}}));
  g.output("resize", resize(x, {.axes = {2, 3}, .sizes = {301, 302}}));
  g.output("group_norm", group_norm(x, 8));
  g.output("conv", conv(x, w));
  g.output("depthwise", conv(x, taps, {}, {.strides = {3, 3}, .groups = 64}));
  std::mt19937 random(5);
  NamedTensors leaves;
  for (const Node& n : g.nodes()) {
    if (n.op->is(LeafKind::input))
      leaves[n.name] = random_tensor(n.outputs[0].dtype, n.outputs[0].shape.values(), -2, 2, random);
  }
  const NamedTensors got = compile(g).run(leaves);
  const std::map<std::string, RefTensor> want = run_reference(g, leaves);
  for (const Graph::Output& o : g.outputs()) {
    SCOPED_TRACE(o.name);
    const Node& n = g.producer(o.value);
    std::vector<TensorType> types;
    for (const ValueId v : n.inputs) types.push_back(v.is_absent() ? TensorType{} : g.type(v));
    EXPECT_TRUE(close(got.at(o.name), want.at(o.name), n.op->tolerance(types)));
  }
}

}  // namespace
}  // namespace rlx::testing
