// A comparison of costs as JSON and as a table.
#pragma once

#include <string>

#include "base/json.h"
#include "measure/cost_comparison.h"

namespace rlx::cli {

Json to_json(const measure::CostComparison& comparison);
// Of the nodes that take long; the others are summed up.
std::string to_text(const measure::CostComparison& comparison);

}  // namespace rlx::cli
