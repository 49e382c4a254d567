// The known cases of `rlx bench`, and how one is measured.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "measure/leaf_values.h"
#include "measure/measure.h"
#include "rlx/compile.h"

namespace rlx::measure {

// What a case is compared with: a graph, or a function that does it on the host and returns its CPU time.
struct Baseline {
  const char* name = nullptr;  // null: nothing
  Graph (*make)(int64_t n) = nullptr;
  double (*host_cpu_ms)(int64_t n) = nullptr;
};

// A case that can be made for any number of elements (rows, matrices).
struct Scaled {
  int64_t usual = 0;  // where a single time is asked for; 0: the case has one size
  Graph (*make)(int64_t n) = nullptr;
  Baseline beside = {};
  int64_t first = 1000, last = 10'000'000;  // where its growth is
};

struct Case {
  const char* name;
  const char* what;
  Graph (*make)();  // null if it is scaled
  double flops;     // of one run; 0 where they mean little
  Growing growing = {};
  Scaled scaled = {};

  Graph graph() const { return make ? make() : scaled.make(scaled.usual); }
};

std::span<const Case> bench_cases();
const Case* find_case(std::string_view name);  // null if there is none
// Those that bench/ort_models.py makes as ONNX files.
std::span<const std::string_view> onnx_cases();

// For inputs and params, the same in each program.
LeafValues case_values(const Graph& graph);

struct CaseRun {
  double compile_ms = 0;
  double upload_ms = 0;
  Measured time;
  PlanReport plan;
  std::vector<DispatchReport> dispatches = {};  // of one more run, if they are asked for
};
CaseRun run_case_graph(const Graph& graph, const Growing& growing, const Device& device, double seconds,
                       bool with_dispatches = false);
double baseline_cpu_ms(const Baseline& beside, int64_t n, const Device& device, double seconds);

}  // namespace rlx::measure
