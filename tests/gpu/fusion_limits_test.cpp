// Fused graphs under limits that their nodes fit: a fusion is never a reason to refuse a graph.
#include <gtest/gtest.h>

#include "base/limits.h"
#include "rlx/compile.h"
#include "rlx/diagnostics.h"
#include "rlx/graph.h"
#include "tests/support/devices.h"
#include "tests/support/sample.h"

namespace rlx::testing {
namespace {

// The fewest bindings that are allowed.
const Device& tiny_device() {
  static const Device device = [] {
    DeviceOptions options;
    options.limits.max_binding_bytes = kLeastBindingBytes;
    options.limits.max_storage_buffers = 8;
    return Device::open(options);
  }();
  return device;
}

void expect_right(const std::string& body, std::string_view fused) {
  const Graph graph = parse_graph("graph g {\n" + body + "}");
  std::mt19937 random(11);
  NamedTensors inputs;
  for (const Node& n : graph.nodes()) {
    if (n.op->is(LeafKind::input))
      inputs[n.name] = random_tensor(n.outputs[0].dtype, n.outputs[0].shape.values(), -2, 2, random);
  }
  Executable exe = compile(graph, tiny_device());
  EXPECT_TRUE(to_text(*exe.graph()).contains(fused)) << to_text(*exe.graph());
  for (const OutputCheck& c : verify_outputs(graph, inputs, exe.run(inputs)))
    EXPECT_EQ(c.wrong, 0) << to_text(c);
}

TEST(FusionLimits, AnEpilogueThatKeepsBatchesFromBeingRows) {
  expect_right(R"(%a = input : f32[16, 7, 7, 16]
    %b = input : f32[16, 17]
    %c = input : f32[1, 1, 7, 17]
    %m = matmul(%a, %b)
    %s = add(%m, %c)
    %y = sigmoid(%s)
    output y = %y
  )",
               "epilogue=");
}

TEST(FusionLimits, ARowOfTheProductThatIsLongerThanAllBindings) {
  expect_right(R"(%a = input : f32[2, 5]
    %b = input : f32[5, 9001]
    %c = input : f32[9001]
    %m = matmul(%a, %b)
    %y = add(%m, %c)
    output y = %y
  )",
               "epilogue=");
}

TEST(FusionLimits, HeadsThatAreLongerThanAllBindings) {
  expect_right(R"(%q = input : f32[1, 2, 3, 3001]
    %k = input : f32[1, 2, 4, 3001]
    %v = input : f32[1, 2, 4, 2002]
    %m = input : bool[3, 4]
    %c = constant {value=tensor f32[] fill -1e9}
    %kt = transpose(%k) {perm=[0, 1, 3, 2]}
    %s = matmul(%q, %kt)
    %t = mul(%s, 0.01)
    %d = where(%m, %t, %c)
    %p = softmax(%d)
    %y = matmul(%p, %v)
    output y = %y
  )",
               "= attention(");
}

TEST(FusionLimits, RotatedRowsThatAreLongerThanAllBindings) {
  expect_right(R"(%x = input : f32[2, 3, 9010]
    %c = input : f32[5, 6]
    %s = input : f32[5, 6]
    %p = input : i32[2, 3]
    %a = slice(%x) {axis=2, start=5, length=6000}
    %b = slice(%x) {axis=2, start=6005, length=3000}
    %q = rope(%a, %c, %s, %p) {head_dim=12}
    %k = rope(%b, %c, %s, %p) {head_dim=12}
    %y = neg(%q)
    %z = neg(%k)
    output y = %y
    output z = %z
  )",
               ".joined = rope(");
}

TEST(FusionLimits, RotationsWhoseTablesAreLongerThanAllBindings) {
  expect_right(R"(%x = input : f32[2, 9001, 8]
    %a = input : f32[9001, 4]
    %t = concat(%a, %a) {axis=1}
    %c = cos(%t)
    %s = sin(%t)
    %f = slice(%x) {axis=2, start=0, length=4}
    %g = slice(%x) {axis=2, start=4, length=4}
    %n = neg(%g)
    %r = concat(%n, %f) {axis=2}
    %k = mul(%x, %c)
    %m = mul(%r, %s)
    %y = add(%k, %m)
    output y = %y
  )",
               "= rope(");
}

TEST(FusionLimits, StatesThatAreLongerThanAllBindings) {
  expect_right(R"(%s = state : f32[9001]
    %t = state : f32[9003]
    %x = input : f32[8999]
    %y = input : f32[8999]
    %m = write_state(%s, %x) {start=2}
    %n = write_state(%t, %y) {start=2}
    output m = %m
    output n = %n
  )",
               "states=2");
}

}  // namespace
}  // namespace rlx::testing
