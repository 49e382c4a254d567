// llama.cpp's Vulkan backend on the products of `rlx bench` that its own benchmark has too.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace rlx::measure {

// A case of `rlx bench` and the parameters of the same product in test-backend-ops.
struct GgmlCase {
  std::string_view name;
  std::string_view params;  // a regular expression, as -p takes it
};

std::span<const GgmlCase> ggml_cases();

struct GgmlTime {
  double wall_ms = 0;  // of a run, as test-backend-ops says
  double cpu_ms = 0;   // the same share of the process's CPU time that its runs have of its wall time
  int64_t runs = 0;
};

// Where Debian has test-backend-ops. Fails with ErrorKind::unsupported if it is not installed.
std::string ggml_program();

// Nothing if the backend does not support the case. Takes a minute: it makes 100 GFLOP of runs.
std::optional<GgmlTime> run_ggml(const GgmlCase& c);

// A line of its output, such as "MUL_MAT(type_a=...): 852 runs - 24317.02 us/run - 117.44 MFLOP/run - 4.83
// GFLOPS".
std::optional<GgmlTime> parse_ggml(std::string_view line);

}  // namespace rlx::measure
