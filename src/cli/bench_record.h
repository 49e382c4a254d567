// What somebody with a GPU sends back (`rlx bench --report`), and how two of these differ.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace rlx::cli {

struct StepRecord {
  std::string node, op, kernel, variant;
  double device_us = 0;  // of all its dispatches in a run; 0 if they were not timed
};

struct CaseRecord {
  std::string name;
  double wall_ms = 0, cpu_ms = 0, first_ms = 0, compile_ms = 0;
  std::optional<double> device_ms =
      {};  // of all dispatches, in the fastest of five runs; nothing without timestamps
  std::vector<StepRecord> steps = {};
};

struct BenchRecord {
  Json adapter = Json::object();  // cli/adapter_json.h
  std::string version = {};       // of rlx; "": this one
  std::vector<CaseRecord> cases = {};
};

Json to_json(const BenchRecord& record);
// Fails with what is wrong with the file.
BenchRecord read_record(const std::string& path);

// Tables and sentences for people. Fails if the two have no case in common.
std::string differences(const BenchRecord& then, const BenchRecord& now);

}  // namespace rlx::cli
