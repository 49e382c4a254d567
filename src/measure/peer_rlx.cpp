#include "measure/peer_rlx.h"

#include <unistd.h>

#include <cctype>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "base/fail.h"
#include "base/format.h"
#include "base/json.h"
#include "measure/child_process.h"

namespace rlx::measure {
namespace {

namespace fs = std::filesystem;

// The file of this program, also when another one has its name by now.
constexpr const char* kSelf = "/proc/self/exe";
// A program that prints without an end is none of ours.
constexpr size_t kMostHelp = 1 << 20;

std::string with_single_spaces(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool space = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (!space) out += c;
    if (space && !out.ends_with(' ')) out += ' ';
  }
  return out;
}

// What went wrong, in the program's own words if it has any.
std::string account(const Ended& ended, const std::string& complaint) {
  constexpr std::string_view kName = "rlx: ";
  std::string out = ended.signal ? formatted("was ended by signal {}", ended.signal)
                                 : formatted("ended with code {}", ended.code);
  if (ended.signal) out += formatted(" ({})", strsignal(ended.signal));
  if (complaint.starts_with(kName)) return formatted("says: {}", complaint.substr(kName.size()));
  return complaint.empty() ? out : formatted("{}: {}", out, complaint);
}

void check_program(const std::string& path) {
  std::error_code unknown;
  if (!fs::exists(path, unknown)) fail(ErrorKind::invalid_file, "--peer: there is no program {}", path);
  if (fs::is_directory(path, unknown))
    fail(ErrorKind::invalid_file, "--peer: {} is a folder, not a program", path);
  if (access(path.c_str(), X_OK) != 0)
    fail(ErrorKind::invalid_file, "--peer: {} cannot be executed: {}", path, std::strerror(errno));
}

std::string help_of_bench(const std::string& path, const std::string& file) {
  const TemporaryFolder folder;
  ChildProcess program({file, "bench", "--help"}, {}, folder.file("stderr"));
  program.end_input();
  std::string help;
  while (const std::optional<std::string> line = program.read_line()) {
    help += *line + "\n";
    if (help.size() > kMostHelp) return "";
  }
  const Ended ended = program.wait();
  if (ended.code == 0 && ended.signal == 0) return help;
  fail(ErrorKind::unsupported, "--peer: {} is no program of rlx: asked for the help of its bench, it {}",
       path, account(ended, program.last_complaint()));
}

std::optional<RlxTurn> read_report(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  const std::optional<Json> report = Json::read(text.str());
  if (!report) return std::nullopt;
  const std::optional<Json> cases = report->member("cases"), adapter = report->member("adapter");
  const std::optional<Json> one = cases ? cases->item(0) : std::nullopt;
  if (!one || !adapter || !adapter->string()) return std::nullopt;
  const auto number = [&](std::string_view name) {
    const std::optional<Json> value = one->member(name);
    return value ? value->number() : std::nullopt;
  };
  const std::optional<double> wall = number("wall_ms"), cpu = number("cpu_ms"), runs = number("runs"),
                              dispatches = number("dispatches");
  if (!wall || !cpu || !runs || !dispatches) return std::nullopt;
  return RlxTurn{.time = {.wall_ms = *wall, .cpu_ms = *cpu, .runs = static_cast<int64_t>(*runs)},
                 .dispatches = static_cast<int64_t>(*dispatches),
                 .adapter = *adapter->string()};
}

}  // namespace

RlxProgram::RlxProgram(std::string name, std::string file, std::string help)
    : name_(std::move(name)), file_(std::move(file)), help_(std::move(help)) {}

RlxProgram RlxProgram::open(const std::string& path) {
  check_program(path);
  // With a folder in its name, so that it is not looked for in PATH.
  const std::string file = fs::absolute(path).string();
  const std::string help = with_single_spaces(help_of_bench(path, file));
  if (!help.contains("--json") || !help.contains("--seconds"))
    fail(ErrorKind::unsupported, "--peer: {} is no program of rlx: it prints no help of a bench", path);
  return {path, file, help};
}

RlxProgram RlxProgram::self() { return {"this program", kSelf, "--json-file"}; }

bool RlxProgram::has(const Case& c) const {
  return help_.contains(with_single_spaces(formatted(" {}: {} ", c.name, c.what)));
}

RlxTurn RlxProgram::measure(const std::vector<std::string>& words, double seconds) const {
  const TemporaryFolder folder;
  const std::string report = folder.file("report.json");
  std::vector<std::string> command = {file_, "bench"};
  command.insert(command.end(), words.begin(), words.end());
  // In the first programs, --json itself took the name of a file.
  command.insert(command.end(), {"--seconds", formatted("{}", seconds),
                                 help_.contains("--json-file") ? "--json-file" : "--json", report});
  ChildProcess program(command, {}, folder.file("stderr"));
  program.end_input();
  while (program.read_line()) {
  }
  const Ended ended = program.wait();
  if (ended.code != 0 || ended.signal != 0)
    fail(ErrorKind::unsupported, "{} {}", name_, account(ended, program.last_complaint()));
  const std::optional<RlxTurn> turn = read_report(report);
  if (!turn) fail(ErrorKind::unsupported, "{} writes no report of what it measures", name_);
  return *turn;
}

}  // namespace rlx::measure
