// ONNX's own tests: a model, its inputs and the outputs that ONNX expects, run on the device.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "rlx/device.h"

namespace rlx::measure {

// The tolerances of ONNX's own runner. An f16 result may also be off by one unit in the last place:
// neighbours are further apart than that.
inline constexpr double kConformanceRelative = 1e-3;
inline constexpr double kConformanceAbsolute = 1e-7;

struct ConformanceCase {
  std::string name;
  std::filesystem::path model;
  std::vector<std::filesystem::path> data;  // folders with input_N.pb and output_N.pb
  std::filesystem::path output = {};        // of a light model, whose input is arange(n) / n
};

// Refused: for something that we do not have and say so. Anything else that is not passed is wrong.
enum class Outcome { passed, wrong, refused };

struct ConformanceResult {
  std::string name;
  Outcome outcome = Outcome::passed;
  std::string reason = {};
  std::string because = {};  // of a refusal: "op TopK", "type float8e5m2"
};

// The sub-folders with tests in them: ONNX's own in the order in which they are shown, then others.
std::vector<std::string> conformance_suites(const std::filesystem::path& folder);

struct ConformanceFilter {
  std::string only = {};  // a part of the name
  int64_t every = 1;      // n-th of those
};
// Of a suite's folder, by name.
std::vector<ConformanceCase> conformance_cases(const std::filesystem::path& suite,
                                               const ConformanceFilter& filter = {});
// An error of the case is a result too.
ConformanceResult run_conformance_case(const ConformanceCase& c, const Device& device);

}  // namespace rlx::measure
