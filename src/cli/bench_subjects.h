// What the arguments of `rlx bench` name: cases, networks and files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/bench_options.h"
#include "measure/bench_cases.h"

namespace rlx::cli {

// What an argument names.
struct BenchSubject {
  const measure::Case* known = nullptr;
  std::string name = {};  // of a model, in reports
  std::string file = {};
  GraphFlags flags = {};  // with those that a network has
  std::optional<RunSetup> setup = {};
};

// As the peer, if there is one, can measure them. Finds every misuse of the flags for models.
std::vector<BenchSubject> bench_subjects(const BenchOptions& o);
// All files that are read, for check_outputs.
std::vector<std::string> bench_files(const BenchOptions& o);

}  // namespace rlx::cli
