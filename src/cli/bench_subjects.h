// What the arguments of `rlx bench` name: cases, networks and files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/bench_options.h"
#include "measure/bench_cases.h"
#include "measure/child_process.h"
#include "measure/networks.h"

namespace rlx::cli {

// What an argument names.
struct BenchSubject {
  const measure::Case* known = nullptr;
  std::string name = {};  // of a model, in reports
  std::string file = {};
  GraphFlags flags = {};  // with those that a network has
  std::optional<RunSetup> setup = {};
};

// The flags for a network: with its file, and its usual sizes except for those that --dim gives. The folder
// keeps what an input needs.
GraphFlags network_flags(const measure::Network& network, GraphFlags flags,
                         const measure::TemporaryFolder& folder);
// What a command runs whose FILE may also be a case or a network, by its name.
RunSetup set_up_subject(const GraphFlags& graph, const ValueFlags& values,
                        const CompileOptions& options = {});
// A Misuse unless the name, which is no case and no network, can be that of a file.
void expect_model_file(const std::string& name);

// As the peer, if there is one, can measure them. Finds every misuse of the flags for models.
std::vector<BenchSubject> bench_subjects(const BenchOptions& o);
// All files that are read, for check_outputs.
std::vector<std::string> bench_files(const BenchOptions& o);

}  // namespace rlx::cli
