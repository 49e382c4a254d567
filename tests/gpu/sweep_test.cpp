// Every op, on all its samples, types and kernel variants, against the double reference.
//
// Nearly all of the time goes into compiling shaders, so by default each of these is combined with one value
// of the others: all types with one sample, all samples with one type, all variants, small limits and views
// with one type. A full run (./rlx test --full) takes the whole product.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

#include "rlx/extras.h"
#include "tests/support/compare.h"
#include "tests/support/devices.h"
#include "tests/support/full.h"
#include "tests/support/sample.h"

namespace rlx::testing {
namespace {

std::vector<std::string> op_names() {
  register_extras();
  std::vector<std::string> names;
  for (const auto& [name, info] : op_table().all()) {
    names.emplace_back(name);
  }
  return names;
}

// A sample and its expected result.
struct Expected {
  Sample sample;
  std::map<std::string, RefTensor> outputs;
  Tolerance tolerance;
};

class Sweep : public ::testing::TestWithParam<std::string> {
 protected:
  const OpInfo& info() { return *op_table().find(GetParam()); }
  const std::vector<std::string>& samples() { return info().samples; }

  // One type for the combinations that take only one: on the device without f16 the type that it has to
  // emulate.
  DType one_type(const Device& device) {
    const std::vector<DType> types = types_of(info());
    const bool emulates = !device.caps().shader_f16 && std::ranges::contains(types, DType::f16);
    return emulates ? DType::f16 : types.front();
  }
  std::vector<DType> some_types(const Device& device) {
    return full_run() ? types_of(info()) : std::vector{one_type(device)};
  }

  void run(const Device& device, const std::string& sample, DType dtype, Reach reach,
           const CompileOptions& options) {
    if (broken_) return;
    SCOPED_TRACE(sample + " T=" + std::string(to_string(dtype)) +
                 (reach == Reach::transposed ? " transposed"
                  : reach == Reach::narrowed ? " narrowed"
                                             : "") +
                 (options.kernels.empty() ? "" : " kernel " + options.kernels.begin()->second));
    const Expected& want = expected(sample, dtype, reach);
    const Sample& s = want.sample;
    try {
      Executable exe = compile(s.graph, device, options);
      for (const auto& [name, value] : s.states) exe.write_state(name, value);
      const NamedTensors got = exe.run(s.inputs);
      for (const auto& [name, value] : want.outputs) {
        ASSERT_TRUE(close(got.at(name), value, want.tolerance)) << "output " << name << "\n" << s.text;
      }
      for (const StepReport& step : exe.plan_report().run) {
        std::istringstream words(step.variant);
        for (std::string word; words >> word;) variants_.insert(word);
      }
    } catch (const Error& e) {
      broken_ = std::string_view(e.what()).contains("does not compile");  // reporting it once is enough
      FAIL() << e.what() << "\n" << s.text;
    }
  }

  std::set<std::string> variants_;  // words in the names of all kernels that ran

 private:
  // The reference is the same for all variants and devices: computed once per test.
  const Expected& expected(const std::string& sample, DType dtype, Reach reach) {
    const auto [it, is_new] = expected_.try_emplace({sample, dtype, reach});
    if (!is_new) return it->second;
    Expected& out = it->second;
    out.sample =
        make_sample(info(), sample, dtype, reach, static_cast<uint32_t>(std::hash<std::string>()(sample)));
    const Graph& graph = out.sample.graph;
    NamedTensors leaves = out.sample.inputs;
    leaves.insert(out.sample.states.begin(), out.sample.states.end());
    out.outputs = run_reference(graph, leaves);
    const Node& node = graph.node(graph.find("y"));
    std::vector<TensorType> types;
    for (ValueId v : node.inputs) types.push_back(v.is_absent() ? TensorType{} : graph.type(v));
    out.tolerance = node.op->tolerance(types);
    return out;
  }

  std::map<std::tuple<std::string, DType, Reach>, Expected> expected_;
  bool broken_ = false;
};

TEST_P(Sweep, MatchesTheReference) {
  const DType one = one_type(full_device());
  for (DType dtype : types_of(info())) {
    for (const std::string& sample : samples()) {
      if (!full_run() && dtype != one && &sample != &samples().front()) continue;
      run(full_device(), sample, dtype, Reach::direct, {.optimize = false});
    }
  }
}

TEST_P(Sweep, EveryVariantMatches) {
  if (info().variants.size() == 1) return;  // MatchesTheReference ran it
  // Element-wise kernels are one family, whatever the function; not every function has a vector form.
  const bool elementwise = info().make()->has(Trait::elementwise);
  const std::string op = elementwise ? "elementwise" : info().name;
  // The second device, which has no f16, takes many seconds to compile some kernels, and fewer of them.
  const size_t share = full_device().caps().shader_f16 ? 3 : 5;
  size_t turn = 0;
  for (const std::string& variant : info().variants) {
    variants_.clear();
    ++turn;
    // No sample has encoded weights; EncodedWeights.InEighths does.
    const bool can_run = variant != "eighths" && (variant != "subgroup" || full_device().caps().subgroups);
    for (DType dtype : some_types(full_device())) {
      for (const bool rest : {false, true}) {
        for (const std::string& sample : samples()) {
          const auto index = static_cast<size_t>(&sample - samples().data());
          if (!full_run() && elementwise && index != 0) continue;
          // Of many samples each variant takes some, and each sample some variants; more until the kernel
          // ran.
          const bool taken = full_run() || samples().size() <= 8 || (index + turn) % share == 0;
          if (taken == rest || (rest && (elementwise || !can_run || variants_.contains(variant)))) continue;
          run(full_device(), sample, dtype, Reach::direct, {.kernels = {{op, variant}}, .optimize = false});
        }
      }
    }
    if (elementwise || !can_run) continue;
    EXPECT_TRUE(variants_.contains(variant))
        << "no sample of " << info().name << " ran the kernel " << variant;
  }
}

TEST_P(Sweep, ReadsViews) {
  for (DType dtype : some_types(full_device())) {
    for (const std::string& sample : samples()) {
      run(full_device(), sample, dtype, Reach::transposed, {.optimize = false});
      run(full_device(), sample, dtype, Reach::narrowed, {.optimize = false});
    }
  }
}

TEST_P(Sweep, WorksUnderSmallLimits) {
  for (DType dtype : some_types(small_device())) {
    for (const std::string& sample : samples())
      run(small_device(), sample, dtype, Reach::direct, {.optimize = false});
  }
}

TEST_P(Sweep, ReadsViewsUnderSmallLimits) {
  for (DType dtype : some_types(small_device())) {
    for (const std::string& sample : samples()) {
      if (!full_run() && &sample != &samples().front()) continue;
      run(small_device(), sample, dtype, Reach::transposed, {.optimize = false});
      run(small_device(), sample, dtype, Reach::narrowed, {.optimize = false});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, Sweep, ::testing::ValuesIn(op_names()), [](const auto& param) {
  std::string name = param.param;
  std::ranges::replace(name, '.', '_');  // llada2.gate: GoogleTest wants no dots
  return name;
});

}  // namespace
}  // namespace rlx::testing
