#include "cli/bench_record.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

#include "base/fail.h"
#include "base/format.h"
#include "cli/text.h"
#include "rlx/version.h"

namespace rlx::cli {
namespace {

constexpr std::string_view kForm = "rlx bench report 1";

std::string text_of(const Json& json, std::string_view name) {
  const std::optional<Json> value = json.member(name);
  return value ? value->string().value_or("") : "";
}

double number_of(const Json& json, std::string_view name) {
  const std::optional<Json> value = json.member(name);
  return value ? value->number().value_or(0) : 0;
}

CaseRecord read_case(const Json& json) {
  CaseRecord out{.name = text_of(json, "case"),
                 .wall_ms = number_of(json, "wall_ms"),
                 .cpu_ms = number_of(json, "cpu_ms"),
                 .first_ms = number_of(json, "first_run_ms"),
                 .compile_ms = number_of(json, "compile_ms")};
  if (json.member("device_ms")) out.device_ms = number_of(json, "device_ms");
  const std::optional<Json> steps = json.member("steps");
  for (size_t i = 0; steps && steps->item(i); ++i) {
    const Json s = *steps->item(i);
    out.steps.push_back({.node = text_of(s, "node"),
                         .op = text_of(s, "op"),
                         .kernel = text_of(s, "kernel"),
                         .variant = text_of(s, "variant"),
                         .device_us = number_of(s, "device_us")});
  }
  return out;
}

std::string choice(const StepRecord& s) { return s.variant.empty() ? s.kernel : s.kernel + " " + s.variant; }

// Members whose texts differ, each as a line.
void add_members(std::string& out, const Json& then, const Json& now, const std::string& what) {
  std::vector<std::string> names = then.names();
  for (const std::string& name : now.names()) {
    if (!std::ranges::contains(names, name)) names.push_back(name);
  }
  for (const std::string& name : names) {
    const std::optional<Json> a = then.member(name), b = now.member(name);
    if (name == "index" || name == "limits" || (a && b && a->text() == b->text())) continue;
    out += formatted("  {}{}: {} then, {} now\n", what, name, a ? a->text() : "not there",
                     b ? b->text() : "not there");
  }
}

// The first choices that differ, and how many do.
std::string choices_text(const CaseRecord& then, const CaseRecord& now) {
  if (then.steps.size() != now.steps.size())
    return formatted("{} dispatches then, {} now", then.steps.size(), now.steps.size());
  std::string first;
  int64_t count = 0;
  for (size_t i = 0; i < then.steps.size(); ++i) {
    const std::string a = choice(then.steps[i]), b = choice(now.steps[i]);
    if (a == b) continue;
    if (++count == 1) first = formatted("{} then, {} now", a, b);
  }
  return count > 1 ? formatted("{} differ, the first: {}", count, first) : first;
}

}  // namespace

Json to_json(const BenchRecord& record) {
  Json cases = Json::array();
  for (const CaseRecord& c : record.cases) {
    Json steps = Json::array();
    for (const StepRecord& s : c.steps) {
      Json step =
          Json::object({{"node", s.node}, {"op", s.op}, {"kernel", s.kernel}, {"variant", s.variant}});
      if (c.device_ms) step.set("device_us", s.device_us);
      steps.add(step);
    }
    Json one = Json::object({{"case", c.name},
                             {"wall_ms", c.wall_ms},
                             {"cpu_ms", c.cpu_ms},
                             {"first_run_ms", c.first_ms},
                             {"compile_ms", c.compile_ms},
                             {"steps", steps}});
    if (c.device_ms) one.set("device_ms", *c.device_ms);
    cases.add(one);
  }
  return Json::object({{"form", kForm},
                       {"version", record.version.empty() ? std::string(version()) : record.version},
                       {"adapter", record.adapter},
                       {"cases", cases}});
}

BenchRecord read_record(const std::string& path) {
  std::ifstream file(path);
  if (!file) fail(ErrorKind::invalid_file, "there is no file {} that can be read", path);
  std::ostringstream text;
  text << file.rdbuf();
  const std::optional<Json> json = Json::read(text.str());
  if (!json || text_of(*json, "form") != kForm)
    fail(ErrorKind::invalid_file, "{} is no report of `rlx bench --report`", path);
  BenchRecord out{.adapter = json->member("adapter").value_or(Json::object()),
                  .version = text_of(*json, "version")};
  const std::optional<Json> cases = json->member("cases");
  for (size_t i = 0; cases && cases->item(i); ++i) out.cases.push_back(read_case(*cases->item(i)));
  return out;
}

std::string differences(const BenchRecord& then, const BenchRecord& now) {
  const auto head = [](const BenchRecord& r) {
    return formatted("{} ({}), rlx {}", text_of(r.adapter, "name"), text_of(r.adapter, "driver"),
                     r.version.empty() ? version() : r.version);
  };
  std::string out = formatted("then: {}\nnow:  {}\n", head(then), head(now));
  add_members(out, then.adapter, now.adapter, "");
  add_members(out, then.adapter.member("limits").value_or(Json::object()),
              now.adapter.member("limits").value_or(Json::object()), "limit ");
  std::vector<std::vector<std::string>> rows = {
      {"case", "wall then", "wall now", "ratio", "device then", "device now", "ratio", "choices"}};
  std::string missing;
  for (const CaseRecord& c : now.cases) {
    const auto before = std::ranges::find(then.cases, c.name, &CaseRecord::name);
    if (before == then.cases.end()) {
      missing += formatted("{} is only in what is now\n", c.name);
      continue;
    }
    const auto ratio = [](double a, double b) { return a > 0 ? formatted("{:.2f}", b / a) : "-"; };
    const bool timed = before->device_ms && c.device_ms;
    const std::string choices = choices_text(*before, c);
    rows.push_back(
        {c.name, ms_text(before->wall_ms), ms_text(c.wall_ms), ratio(before->wall_ms, c.wall_ms),
         before->device_ms ? ms_text(*before->device_ms) : "-", c.device_ms ? ms_text(*c.device_ms) : "-",
         timed ? ratio(*before->device_ms, *c.device_ms) : "-", choices.empty() ? "the same" : choices});
  }
  if (rows.size() == 1)
    fail(ErrorKind::unsupported, "the two reports have no case in common, so there is nothing to compare");
  return out + "\n" + table(rows, {1, 2, 3, 4, 5, 6}) + missing;
}

}  // namespace rlx::cli
