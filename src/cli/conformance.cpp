// `rlx conformance`: which suites, and what to say about their results.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/fail.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/device_flags.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/text.h"
#include "import/onnx/one_to_one.h"
#include "import/onnx/rules.h"
#include "measure/conformance.h"

namespace rlx::cli {
namespace {

namespace fs = std::filesystem;
using measure::Outcome;

constexpr auto kDefaultFolder = "/usr/share/libonnx-testdata/data";

struct Options {
  DeviceFlags device;
  std::string folder = kDefaultFolder;
  ReportFlags report;
  std::string markdown;
  std::vector<std::string> suites;
  measure::ConformanceFilter filter;
};

struct Suite {
  std::string name;
  std::vector<measure::ConformanceResult> results;
  int64_t count(Outcome outcome) const {
    return std::ranges::count(results, outcome, &measure::ConformanceResult::outcome);
  }
};

const char* to_text(Outcome outcome) {
  switch (outcome) {
    case Outcome::passed:
      return "passed";
    case Outcome::wrong:
      return "wrong";
    case Outcome::refused:
      return "refused";
  }
  return "";
}

Json to_json(const Suite& s) {
  Json cases = Json::array();
  for (const measure::ConformanceResult& r : s.results) {
    Json one = Json::object({{"name", r.name}, {"outcome", to_text(r.outcome)}});
    if (r.outcome != Outcome::passed) one.set("reason", r.reason);
    if (r.outcome == Outcome::refused) one.set("because", r.because);
    cases.add(one);
  }
  return Json::object({{"total", std::ssize(s.results)},
                       {"passed", s.count(Outcome::passed)},
                       {"wrong", s.count(Outcome::wrong)},
                       {"refused", s.count(Outcome::refused)},
                       {"cases", cases}});
}

// Why tests were refused, the most frequent first.
std::vector<std::pair<std::string, int64_t>> reasons(const std::vector<Suite>& suites) {
  std::map<std::string, int64_t> counts;
  for (const Suite& s : suites) {
    for (const measure::ConformanceResult& r : s.results) {
      if (r.outcome == Outcome::refused) ++counts[r.because];
    }
  }
  std::vector<std::pair<std::string, int64_t>> out(counts.begin(), counts.end());
  std::ranges::stable_sort(out, std::greater(), [](const auto& entry) { return entry.second; });
  return out;
}

std::vector<std::vector<std::string>> reason_rows(const std::vector<Suite>& suites) {
  std::vector<std::vector<std::string>> rows = {{"refused for", "tests"}};
  for (const auto& [reason, count] : reasons(suites)) rows.push_back({reason, std::to_string(count)});
  return rows;
}

std::vector<std::vector<std::string>> summary(const std::vector<Suite>& suites) {
  std::vector<std::vector<std::string>> rows = {{"suite", "total", "passed", "wrong", "refused"}};
  for (const Suite& s : suites) {
    rows.push_back({s.name, std::to_string(s.results.size()), std::to_string(s.count(Outcome::passed)),
                    std::to_string(s.count(Outcome::wrong)), std::to_string(s.count(Outcome::refused))});
  }
  return rows;
}

std::string markdown_table(const std::vector<std::vector<std::string>>& rows) {
  std::string out;
  for (size_t i = 0; i < rows.size(); ++i) {
    out += "|";
    for (const std::string& cell : rows[i]) out += formatted(" {} |", cell);
    out += "\n";
    if (i == 0) {
      out += "|";
      for (size_t k = 0; k < rows[0].size(); ++k) out += "---|";
      out += "\n";
    }
  }
  return out;
}

// docs/onnx-coverage.md.
std::string markdown(const std::vector<Suite>& suites) {
  std::set<std::string> own;
  std::set<std::string> microsoft;
  for (const std::string& name : onnx::one_to_one_names()) own.insert(formatted("`{}`", name));
  for (const auto& [key, rule] : onnx::rule_table().all())
    (key.first.empty() ? own : microsoft).insert(formatted("`{}`", key.second));
  return formatted(
      "# What of ONNX is covered\n\n"
      "Written by `rlx conformance --markdown docs/onnx-coverage.md`. How models are read: "
      "[onnx.md](onnx.md).\n\n"
      "## ONNX's own tests\n\nRun wholly on the device, with ONNX's tolerances (relative {}, absolute {}; a "
      "result of f16 "
      "or bf16\nmay be off by one unit in the last place).\n\n{}\n"
      "## What tests are refused for\n\n{}\n"
      "## Ops\n\n{} of ONNX's own: {}.\n\n{} of com.microsoft: {}.\n",
      measure::kConformanceRelative, measure::kConformanceAbsolute, markdown_table(summary(suites)),
      markdown_table(reason_rows(suites)), own.size(), joined(own), microsoft.size(), joined(microsoft));
}

void show(const std::vector<Suite>& suites, const std::string& adapter) {
  bool any_wrong = false;
  for (const Suite& s : suites) {
    for (const measure::ConformanceResult& r : s.results) {
      if (r.outcome != Outcome::wrong) continue;
      any_wrong = true;
      print(formatted("wrong: {}/{}: {}\n", s.name, r.name, r.reason));
    }
  }
  print(formatted("{}{}\n\n{}", any_wrong ? "\n" : "", adapter, table(summary(suites), {1, 2, 3, 4})));
  if (const auto rows = reason_rows(suites); rows.size() > 1) print("\n" + table(rows, {1}));
}

void run_conformance(const Options& o) {
  if (!fs::is_directory(o.folder)) {
    throw Misuse(formatted("there is no folder '{}'; ONNX's tests are in Debian's package libonnx-testdata",
                           o.folder));
  }
  check_outputs(o.report.outputs({{"--markdown", o.markdown, FileKind::markdown}}), {});
  const std::vector<std::string> all_suites = measure::conformance_suites(o.folder);
  for (const std::string& name : o.suites) {
    if (!std::ranges::contains(all_suites, name)) {
      throw Misuse(formatted("there is no suite '{}' in '{}'; the suites are: {}", name, o.folder,
                             joined(all_suites)));
    }
  }
  const Device device = o.device.open();
  std::vector<Suite> suites;
  for (const std::string& name : all_suites) {
    if (!o.suites.empty() && !std::ranges::contains(o.suites, name)) continue;
    const std::vector<measure::ConformanceCase> cases =
        measure::conformance_cases(fs::path(o.folder) / name, o.filter);
    if (cases.empty()) continue;
    Suite suite{name, {}};
    Progress progress(formatted("running {}", name));
    for (const measure::ConformanceCase& c : cases) {
      progress.update(std::ssize(suite.results), std::ssize(cases), "tests");
      suite.results.push_back(measure::run_conformance_case(c, device));
    }
    suites.push_back(std::move(suite));
  }
  if (suites.empty()) throw Misuse(formatted("there are no such tests in '{}'", o.folder));

  if (!o.markdown.empty()) write_report(o.markdown, markdown(suites));
  Json all = Json::object();
  for (const Suite& s : suites) all.set(s.name, to_json(s));
  o.report.write(all);
  if (!o.report.only_json() && o.markdown != "-") show(suites, device.info().name);
  int64_t wrong = 0;
  for (const Suite& s : suites) wrong += s.count(Outcome::wrong);
  if (wrong > 0) fail(ErrorKind::internal, "{} test{} wrong", wrong, wrong == 1 ? " is" : "s are");
}

}  // namespace

void add_conformance(Arguments& arguments) {
  const auto o = std::make_shared<Options>();
  Command command = arguments.command("conformance", "Runs ONNX's own tests on the device");
  command.text("DIR", o->folder, formatted("The folder with the test data (default {})", kDefaultFolder));
  command.list(
      "--suite", o->suites,
      "Only this suite (a folder in DIR): node, simple, pytorch-converted, pytorch-operator or light",
      {.value = "NAME"});
  command.text("--only", o->filter.only, "Only the tests whose names contain this text", {.value = "TEXT"});
  command.number("--every", o->filter.every, 1, 1000, "Only every n-th test");
  o->report.add_to(command, "the result of each test");
  command.text("--markdown", o->markdown, "Also write what is covered, as docs/onnx-coverage.md has it",
               {.value = "FILE"});
  o->device.add_to(command);
  command.footer(
      "Tolerances are ONNX's own, 1e-3 of a number and 1e-7, and a unit of f16 and bf16; of Fourier "
      "transforms also\n"
      "2^-22 of the largest number.\n"
      "A test is refused only for an op or an element type that is missing, for strings, random\n"
      "numbers, foreign domains, and four tests whose data wrap an int8 where ONNX's text "
      "says that "
      "QLinearMatMul saturates. Anything else that is not passed is wrong.\n\n"
      "Examples:\n"
      "  rlx conformance --json-file conformance.json\n"
      "  rlx conformance --suite node --only softmax");
  command.action([o] { run_conformance(*o); });
}

}  // namespace rlx::cli
