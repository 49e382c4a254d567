// Every op, on all its samples, types and kernel variants, against the double reference.
//
// Nearly all of the time goes into compiling shaders, so by default each of these is combined with one value
// of the others: all types with one sample, all samples with one type, all variants, small limits and views
// with one type. A full run (./rlx test --full) takes the whole product. A short one, on the second device,
// has only the variants, each with one sample of two types.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

#include "rlx/compile.h"
#include "rlx/extras.h"
#include "rlx/graph.h"
#include "tests/gpu/gpu_compiler.h"
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
  const std::vector<std::string>& samples() { return info().samples.list(); }

  // One type for the combinations that take only one: on the device without f16 the type that it has to
  // emulate.
  DType one_type(const Device& device) {
    const std::vector<DType> types = types_of(info());
    const bool emulates = !device.caps().shader_f16 && std::ranges::contains(types, DType::f16);
    return emulates ? DType::f16 : types.front();
  }
  std::vector<DType> some_types(const Device& device) {
    const std::vector<DType> types = types_of(info());
    if (full_run()) return types;
    const DType one = one_type(device);
    return short_run() && one != types.front() ? std::vector{types.front(), one} : std::vector{one};
  }

  // Of many samples each variant takes some, and each sample some variants. `turn` counts variants, from 1.
  bool takes(size_t turn, size_t sample) {
    const size_t count = samples().size();
    if (full_run()) return true;
    if (is_elementwise()) return sample == 0;
    if (short_run()) return sample == (turn - 1) % count;
    return count <= 8 || (sample + turn) % 3 == 0;
  }
  // Such kernels are one family, whatever the function; not every function has a vector form.
  bool is_elementwise() { return info().make()->has(Trait::elementwise); }

  void run(const Device& device, const std::string& sample, DType dtype, Reach reach,
           const CompileOptions& options) {
    if (broken_) return;
    SCOPED_TRACE(sample + " T=" + std::string(to_string(dtype)) +
                 (reach == Reach::transposed ? " transposed"
                  : reach == Reach::narrowed ? " narrowed"
                                             : "") +
                 (options.kernels.empty() ? "" : " kernel " + options.kernels.begin()->second));
    if (only_compiles()) return compile_for_gpu(sample_of(sample, dtype, reach).graph, options);
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
  Sample sample_of(const std::string& sample, DType dtype, Reach reach) {
    return make_sample(info(), sample, dtype, reach, static_cast<uint32_t>(std::hash<std::string>()(sample)));
  }

  // The reference is the same for all variants and devices: computed once per test.
  const Expected& expected(const std::string& sample, DType dtype, Reach reach) {
    const auto [it, is_new] = expected_.try_emplace({sample, dtype, reach});
    if (!is_new) return it->second;
    Expected& out = it->second;
    out.sample = sample_of(sample, dtype, reach);
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
  const bool several = info().variants.size() > 1;
  const bool has_kernel = info().variants[0] != "expanded";  // but those of other ops
  if (!several && !(short_run() && has_kernel)) return;      // MatchesTheReference ran it
  const bool elementwise = is_elementwise();
  size_t turn = 0;
  for (const std::string& variant : info().variants) {
    if (variant == "halved") continue;  // tests/gpu/precision_test.cpp
    variants_.clear();
    const Device& device = variant == "matrix" ? emulating_device() : full_device();
    CompileOptions options{.optimize = false};
    if (several) options.kernels = {{elementwise ? "elementwise" : info().name, variant}};
    // No sample has encoded weights; EncodedWeights.InEighths does.
    const bool must_run = several && !only_compiles() && !elementwise && variant != "eighths" &&
                          (variant != "subgroup" || full_device().caps().subgroups) &&
                          (variant != "paneled" || full_device().caps().software()) &&
                          (variant != "matrix" || std::ranges::contains(types_of(info()), DType::f32));
    for (DType dtype : some_types(device)) {
      ++turn;
      // Those that it takes, then more until the kernel ran.
      for (const bool rest : {false, true}) {
        for (const std::string& sample : samples()) {
          const auto index = static_cast<size_t>(&sample - samples().data());
          if (takes(turn, index) == rest) continue;
          if (rest && (!must_run || variants_.contains(variant))) continue;
          run(device, sample, dtype, Reach::direct, options);
        }
      }
    }
    EXPECT_TRUE(!must_run || variants_.contains(variant))
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
