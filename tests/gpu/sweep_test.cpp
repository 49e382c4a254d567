// Every op, on all its samples, types and kernel variants, against the double reference.
#include <gtest/gtest.h>

#include <set>

#include "tests/support/compare.h"
#include "tests/support/devices.h"
#include "tests/support/sample.h"

namespace rlx::testing {
namespace {

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const auto& [name, info] : op_table().all()) names.push_back(name);
  return names;
}

class Sweep : public ::testing::TestWithParam<std::string> {
 protected:
  const OpInfo& info() { return *op_table().find(GetParam()); }

  void run(const Device& device, const std::string& sample, DType dtype, Reach reach,
           const CompileOptions& options) {
    if (broken_) return;
    SCOPED_TRACE(sample + " T=" + std::string(to_string(dtype)) +
                 (reach == Reach::transposed ? " transposed"
                  : reach == Reach::narrowed ? " narrowed"
                                             : "") +
                 (options.kernels.empty() ? "" : " kernel " + options.kernels.begin()->second));
    const Sample s =
        make_sample(info(), sample, dtype, reach, static_cast<uint32_t>(std::hash<std::string>()(sample)));
    NamedTensors leaves = s.inputs;
    leaves.insert(s.states.begin(), s.states.end());
    const auto want = run_reference(s.graph, leaves);
    const Node& node = s.graph.node(s.graph.find("y"));
    std::vector<TensorType> types;
    for (ValueId v : node.inputs) types.push_back(v.is_absent() ? TensorType{} : s.graph.type(v));
    try {
      Executable exe = compile(s.graph, device, options);
      for (const auto& [name, value] : s.states) exe.write_state(name, value);
      const NamedTensors got = exe.run(s.inputs);
      for (const auto& [name, value] : want) {
        ASSERT_TRUE(close(got.at(name), value, node.op->tolerance(types))) << "output " << name << "\n"
                                                                           << s.text;
      }
      for (const StepReport& step : exe.plan_report().run) variants_.insert(step.variant);
    } catch (const Error& e) {
      broken_ = std::string_view(e.what()).contains("does not compile");  // once is enough to be told
      FAIL() << e.what() << "\n" << s.text;
    }
  }

  std::set<std::string> variants_;  // of all kernels that ran

 private:
  bool broken_ = false;
};

TEST_P(Sweep, MatchesTheReference) {
  for (DType dtype : types_of(info())) {
    for (const std::string& sample : info().samples)
      run(full_device(), sample, dtype, Reach::direct, {.optimize = false});
  }
}

TEST_P(Sweep, EveryVariantMatches) {
  if (info().variants.size() == 1) return;  // MatchesTheReference had it
  // Element-wise kernels are one family, whatever the function; not every function has a vector form.
  const bool elementwise = info().make()->has(Trait::elementwise);
  const std::string op = elementwise ? "elementwise" : info().name;
  for (const std::string& variant : info().variants) {
    variants_.clear();
    for (DType dtype : types_of(info())) {
      for (const std::string& sample : info().samples)
        run(full_device(), sample, dtype, Reach::direct, {.kernels = {{op, variant}}, .optimize = false});
    }
    if (elementwise || (variant == "subgroup" && !full_device().caps().subgroups)) continue;
    EXPECT_TRUE(variants_.contains(variant))
        << "no sample of " << info().name << " ran the kernel " << variant;
  }
}

TEST_P(Sweep, ReadsViews) {
  const DType dtype = types_of(info()).front();
  for (const std::string& sample : info().samples) {
    run(full_device(), sample, dtype, Reach::transposed, {.optimize = false});
    run(full_device(), sample, dtype, Reach::narrowed, {.optimize = false});
  }
}

TEST_P(Sweep, WorksUnderSmallLimits) {
  for (DType dtype : types_of(info())) {
    for (const std::string& sample : info().samples)
      run(small_device(), sample, dtype, Reach::direct, {.optimize = false});
  }
}

TEST_P(Sweep, ReadsViewsUnderSmallLimits) {
  const DType dtype = types_of(info()).back();
  for (const std::string& sample : info().samples) {
    run(small_device(), sample, dtype, Reach::transposed, {.optimize = false});
    run(small_device(), sample, dtype, Reach::narrowed, {.optimize = false});
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, Sweep, ::testing::ValuesIn(op_names()),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace rlx::testing
