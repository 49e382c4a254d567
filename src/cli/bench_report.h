// What `rlx bench` tells about growth and about peers: tables for people, JSON for programs.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "measure/beside.h"
#include "measure/growth.h"

namespace rlx::cli {

// Of all reports of cases, whatever each of them has.
Json report_json(const std::string& adapter, const Json& cases);

std::string growth_table(const measure::Growth& growth);
Json to_json(const std::vector<measure::Growth>& all);

// `cpu_provider`: empty, or the same work beside ONNX Runtime's CPU provider, measured in the same rounds.
Json to_json(const std::vector<measure::Beside>& results,
             const std::vector<measure::Beside>& cpu_provider = {});
std::string beside_table(const std::vector<measure::Beside>& results, const std::string& peer);
// What else to know about the results, each a line.
std::string beside_notes(const std::vector<measure::Beside>& results, const std::string& peer);

}  // namespace rlx::cli
