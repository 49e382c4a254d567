// Looking into runs, and the options that make an executable report on itself.
#include "rlx/diagnostics.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "rlx/compile.h"
#include "rlx/dtype.h"
#include "rlx/error.h"
#include "rlx/executable.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/normalization.h"
#include "rlx/tensor.h"
#include "tests/support/devices.h"
#include "tests/support/sample.h"

namespace rlx::testing {
namespace {

Graph log_graph() {
  return parse_graph(R"(graph logs {
    %x = input : f32[4]
    %a = abs(%x)
    %l = log(%a)
    %y = add(%l, 1)
    output y = %y
  })");
}

const Tensor kGood = Tensor::of<float>({4}, {1, 2, 3, 4});
const Tensor kBad = Tensor::of<float>({4}, {1, -2, 0, 4});

TEST(Summary, CountsWhatIsNotFinite) {
  const float inf = std::numeric_limits<float>::infinity();
  const TensorSummary s = summarize(Tensor::of<float>({5}, {0, -3, 1, inf, std::nanf("")}));
  EXPECT_EQ(s.elements, 5);
  EXPECT_EQ(s.nans, 1);
  EXPECT_EQ(s.infinities, 1);
  EXPECT_EQ(s.non_zeros, 4);
  EXPECT_EQ(s.min, -3);
  EXPECT_EQ(s.max, 1);
  EXPECT_EQ(s.max_abs, 3);
  EXPECT_EQ(summarize(Tensor(DType::f32, {0}, {})).max_abs, 0);
}

TEST(Diagnostics, FindsTheFirstNan) {
  Executable exe = compile(log_graph(), full_device(), {.optimize = false, .keep_intermediates = true});
  exe.run({{"x", kGood}});
  EXPECT_FALSE(find_first_nan(exe).has_value());
  exe.run({{"x", kBad}});
  const auto bad = find_first_nan(exe);
  ASSERT_TRUE(bad.has_value());
  EXPECT_EQ(bad->node.node, "l");
  EXPECT_EQ(bad->node.value.infinities, 1);
  ASSERT_EQ(bad->inputs.size(), 1u);
  EXPECT_EQ(bad->inputs[0].node, "a");
  EXPECT_EQ(bad->inputs[0].value.max, 4);
}

TEST(Diagnostics, SummarizesNodesUpToALimit) {
  Executable exe = compile(log_graph(), full_device(), {.optimize = false, .keep_intermediates = true});
  exe.run({{"x", kBad}});
  EXPECT_EQ(summarize_nodes(exe).size(), 3u);
  const auto two = summarize_nodes(exe, 2);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].value.non_zeros, 3);
  EXPECT_TRUE(to_text(two).contains("3 of 4")) << to_text(two);
}

TEST(Diagnostics, VerifiesNodes) {
  Executable exe = compile(log_graph(), full_device(), {.optimize = false, .keep_intermediates = true});
  exe.run({{"x", kBad}});
  const auto checks = verify_nodes(exe);
  ASSERT_EQ(checks.size(), 3u);
  for (const NodeCheck& c : checks) EXPECT_EQ(c.wrong, 0) << c.node;
}

TEST(Diagnostics, SkipAbsentInputs) {
  const Graph g = parse_graph(R"(graph g {
    %x = input : f32[2, 4]
    %beta = input : f32[4]
    %n = layer_norm(%x, none, %beta) {eps=0}
    output y = %n
  })");
  Executable exe = compile(g, full_device(), {.optimize = false, .keep_intermediates = true});
  const Tensor beta = Tensor::of<float>({4}, {1, 2, 3, 4});
  exe.run({{"x", Tensor::of<float>({2, 4}, {1, 2, 3, 5, 0, 1, 0, 1})}, {"beta", beta}});
  const auto checks = verify_nodes(exe);
  ASSERT_EQ(checks.size(), 1u);
  EXPECT_EQ(checks[0].wrong, 0);
  exe.run({{"x", Tensor::full(DType::f32, {2, 4}, 1)}, {"beta", beta}});  // no variance: 0 / 0
  const auto bad = find_first_nan(exe);
  ASSERT_TRUE(bad.has_value());
  EXPECT_EQ(bad->node.node, "n");
  ASSERT_EQ(bad->inputs.size(), 2u);
  EXPECT_EQ(bad->inputs[1].node, "beta");
}

// Products of large numbers cancel to small ones: the factors determine how many digits are lost.
TEST(Diagnostics, VerifiesNodesWithLargeInputs) {
  Executable exe = compile(parse_graph(R"(graph g {
    %a = input : f32[64, 300]
    %b = input : f32[300, 256]
    %y = matmul(%a, %b)
    output y = %y
  })"),
                           full_device(), {.keep_intermediates = true});
  std::mt19937 random(1);
  exe.run({{"a", random_tensor(DType::f32, {64, 300}, -1e4, 1e4, random)},
           {"b", random_tensor(DType::f32, {300, 256}, -1e4, 1e4, random)}});
  const auto checks = verify_nodes(exe);
  ASSERT_EQ(checks.size(), 1u);
  EXPECT_EQ(checks[0].wrong, 0) << checks[0].got << " instead of " << checks[0].want;
}

TEST(Diagnostics, OptionsReportThroughTheLog) {
  std::string log;
  CompileOptions options{.optimize = false};
  options.debug = {.schedule = true, .nan_trace = true, .dump_nodes = 1, .log = [&](const std::string& text) {
                     log += text;
                   }};
  Executable exe = compile(log_graph(), full_device(), options);
  EXPECT_TRUE(log.contains("3 dispatches per run, 0 in the load phase")) << log;
  log.clear();
  exe.run({{"x", kBad}});
  EXPECT_TRUE(log.contains("first NaN or infinity: l (log)")) << log;
  EXPECT_TRUE(log.contains("max |x|")) << log;
}

TEST(Diagnostics, DispatchOnlyReadsNothingBack) {
  CompileOptions options;
  options.debug.dispatch_only = true;
  Executable exe = compile(log_graph(), full_device(), options);
  EXPECT_EQ(exe.run({{"x", kGood}}).at("y").to_vector<float>(), std::vector<float>(4));
  std::vector<float> y(4, 7);
  const std::vector<float> x(4, 1);
  const InputRef in[] = {input_from("x", x)};
  const OutputRef out[] = {output_to("y", y)};
  exe.run(in, out);
  EXPECT_EQ(y, std::vector<float>(4));
}

TEST(Diagnostics, ForcedUploadWantsFedInputsAgain) {
  for (const bool force : {false, true}) {
    Executable exe = compile(parse_graph(R"(graph count {
      %x = input : f32[1]
      %y = add(%x, 1)
      output y = %y
    })"),
                             full_device(), {.force_input_upload = force});
    exe.feed("x", "y");
    exe.run({{"x", Tensor::of<float>({1}, {5})}});
    if (force) {
      EXPECT_THROW(exe.run(NamedTensors{}), Error);
    } else {
      EXPECT_EQ(exe.run(NamedTensors{}).at("y").to_vector<float>(), std::vector<float>{7});
    }
  }
}

TEST(Diagnostics, AWrongKernelNameIsAnError) {
  EXPECT_THROW(compile(log_graph(), full_device(), {.kernels = {{"matmul", "warp"}}}), Error);
  EXPECT_THROW(compile(log_graph(), full_device(), {.kernels = {{"no_such_op", "plain"}}}), Error);
}

TEST(Diagnostics, ProfileTableAndTrace) {
  if (!full_device().caps().timestamps) GTEST_SKIP() << "the device has no timestamps";
  Executable exe = compile(log_graph(), full_device(), {.optimize = false});
  const auto dispatches = exe.profile({{"x", kGood}});
  ASSERT_EQ(dispatches.size(), 3u);
  EXPECT_TRUE(profile_table(dispatches).contains("elementwise")) << profile_table(dispatches);
  const auto trace = nlohmann::json::parse(trace_json(dispatches, "logs"));
  ASSERT_EQ(trace.at("traceEvents").size(), 4u);
  EXPECT_EQ(trace["traceEvents"][1].at("args").at("node"), "a");
}

}  // namespace
}  // namespace rlx::testing
