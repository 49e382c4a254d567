#include "cli/report.h"

#include "base/flags.h"
#include "base/format.h"
#include "cli/text.h"

namespace rlx::cli {

void ReportFlags::add_to(Command& command, const std::string& what) {
  command.flag("--json", json, formatted("Print {} as JSON, and nothing else", what));
  command.text("--json-file", json_file, "Also write that JSON to a file", {.value = "FILE"});
}

std::vector<OutputFile> ReportFlags::outputs(std::vector<OutputFile> others) const {
  others.push_back({"--json", json ? "-" : "", FileKind::json});
  others.push_back({"--json-file", json_file, FileKind::json});
  // What executables write without a flag.
  others.push_back({"RLX_TRACE_PERFETTO", env_text("RLX_TRACE_PERFETTO"), FileKind::json});
  return others;
}

void ReportFlags::write(const Json& report) const {
  if (!wanted()) return;
  const std::string text = report.text(2) + "\n";
  if (!json_file.empty()) write_report(json_file, text);
  if (json) print(text);
}

}  // namespace rlx::cli
