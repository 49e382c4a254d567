// Random graphs, compiled with all passes, against the reference of the graph as it was written.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "rlx/compile.h"
#include "rlx/diagnostics.h"
#include "rlx/graph.h"
#include "tests/support/compare.h"
#include "tests/support/devices.h"
#include "tests/support/full.h"
#include "tests/support/random_graph.h"

namespace rlx::testing {
namespace {

// Graphs per case; a full run has more.
const uint32_t kPerCase = full_run() ? 20 : short_run() ? 2 : 5;
const uint32_t kPerLimitedCase = full_run() ? 5 : 1;

class Fuzz : public ::testing::TestWithParam<uint32_t> {
 protected:
  void run(uint32_t seed, const Device& device, const RandomGraphOptions& options = {}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomGraph r = random_graph(seed, options);
    const auto values = reference_values(r.graph, r.leaves);
    double scale = 1;
    for (const auto& outputs : values) {
      for (const RefTensor& t : outputs) {
        scale = std::max(scale, largest_size(t.real));
      }
    }
    try {
      Executable exe = compile(r.graph, device);
      NamedTensors inputs;
      for (const auto& [name, tensor] : r.leaves) {
        if (name.starts_with("in")) {
          inputs[name] = tensor;
        } else {
          exe.set_param(name, tensor);
        }
      }
      const NamedTensors got = exe.run(inputs);
      for (const Graph::Output& out : r.graph.outputs()) {
        const RefTensor& want =
            values[static_cast<size_t>(out.value.node)][static_cast<size_t>(out.value.output)];
        EXPECT_TRUE(close(got.at(out.name), want, graph_tolerance(r.graph, scale)))
            << to_text(r.graph, 8) << to_text(*exe.graph(), 8);
      }
      for (const OutputCheck& c : verify_outputs(r.graph, r.leaves, got)) EXPECT_EQ(c.wrong, 0) << to_text(c);
    } catch (const Error& e) {
      ADD_FAILURE() << e.what() << "\n" << to_text(r.graph, 8);
    }
  }
};

TEST_P(Fuzz, MatchesTheReference) {
  for (uint32_t i = 0; i < kPerCase; ++i) run(GetParam() * kPerCase + i, full_device());
}

TEST_P(Fuzz, BranchesAndLoopsMatch) {
  for (uint32_t i = 0; i < kPerCase; ++i) {
    const uint32_t seed = 300000 + GetParam() * kPerCase + i;
    run(seed, i % 4 == 3 ? small_device() : full_device(), {.control_flow = true});
  }
}

TEST_P(Fuzz, MatchesUnderSmallLimits) {
  for (uint32_t i = 0; i < kPerLimitedCase; ++i) run(100000 + GetParam() * kPerCase + i, small_device());
}

// Limits lower than any device has, for the paths that only they lead to.
TEST_P(Fuzz, MatchesUnderTinyLimits) {
  std::mt19937 random(GetParam());
  const auto one_of = [&](std::initializer_list<uint32_t> values) {
    return values.begin()[random() % values.size()];
  };
  DeviceOptions options;
  options.limits.max_binding_bytes = one_of({4096, 5000, 8192, 16384});
  options.limits.max_storage_buffers = 8;
  options.limits.max_workgroups_per_dimension = one_of({1, 3, 17});
  options.limits.no_f16 = random() % 2 == 0;
  options.limits.no_subgroups = random() % 2 == 0;
  const Device device = Device::open(options);
  for (uint32_t i = 0; i < kPerLimitedCase; ++i) run(200000 + GetParam() * kPerCase + i, device);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Fuzz, ::testing::Range(0u, 16u));

}  // namespace
}  // namespace rlx::testing
