// What a command tells: text for people, or JSON for programs. The flags are the same for every command.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "cli/arguments.h"
#include "cli/output_check.h"

namespace rlx::cli {

struct ReportFlags {
  bool json = false;
  std::string json_file;

  // `what` the JSON has, for the help.
  void add_to(Command& command, const std::string& what);
  // For check_outputs, with the other outputs of the command.
  std::vector<OutputFile> outputs(std::vector<OutputFile> others = {}) const;
  // Nothing but JSON is printed to standard output.
  bool only_json() const { return json; }
  bool wanted() const { return json || !json_file.empty(); }
  // To standard output with --json, to the file of --json-file.
  void write(const Json& report) const;
};

}  // namespace rlx::cli
