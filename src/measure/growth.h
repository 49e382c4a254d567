// How the time of a case grows with its size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "measure/bench_cases.h"

namespace rlx::measure {

struct GrowthPoint {
  int64_t n = 0;
  double cpu_ms = 0;
  double wall_ms = 0;
  double beside_cpu_ms = 0;  // of the baseline, if the case has one
};

struct Growth {
  std::string name;
  std::string what;    // at its usual size
  std::string beside;  // the baseline, or nothing
  std::vector<GrowthPoint> points;
};

// Sizes 1, 3, 10, 30, ... within what the case says, and not beyond `largest` unless that is 0. None if the
// smallest size of the case is beyond it.
std::vector<int64_t> growth_sizes(const Case& c, int64_t largest);
std::vector<Growth> measure_growth(const std::vector<const Case*>& cases, const Device& device,
                                   double seconds, int64_t largest, const Announce& announce = {});

// CPU times by size, both on logarithmic axes; a document that needs no other file.
std::string growth_svg(const std::vector<Growth>& all, const std::string& adapter);

}  // namespace rlx::measure
