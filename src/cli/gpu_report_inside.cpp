#include "cli/gpu_report_inside.h"

#include <cstdio>
#include <iostream>
#include <utility>

#include "base/fail.h"
#include "base/format.h"
#include "base/json.h"
#include "cli/bench_subjects.h"
#include "cli/text.h"
#include "measure/bench_cases.h"
#include "measure/captured_stderr.h"
#include "measure/child_process.h"
#include "measure/compiler_report.h"
#include "measure/networks.h"
#include "measure/stopwatch.h"
#include "runtime/module_survey.h"

namespace rlx::cli {
namespace {

using measure::CompiledModule;

void say(const Json& line) {
  print(formatted("{}{}\n", measure::kReportMark, line.text()));
  std::fflush(stdout);
}

measure::CompilerReport list_of(const ModuleSurvey& survey) {
  measure::CompilerReport out{.adapter = survey.info().name, .driver = survey.info().driver, .modules = {}};
  for (const ModuleSurvey::Module& m : survey.modules()) {
    out.modules.push_back({.kernel = m.kernel,
                           .variant = m.variant,
                           .op = m.op,
                           .node = m.node,
                           .load = m.load,
                           .dispatches = m.dispatches});
  }
  return out;
}

CompiledModule compile_module(const ModuleSurvey& survey, size_t module, const measure::SimulatedGpu& gpu,
                              measure::CapturedStderr& printed) {
  CompiledModule out;
  printed.take();
  const measure::Stopwatch watch;
  try {
    survey.compile(module);
    out.compile_ms = watch.ms();
  } catch (const Error& e) {
    out.failure = formatted("does not compile: {}", e.what());
  }
  if (const auto statistics = gpu.parse(printed.take())) out.statistics = *statistics;
  return out;
}

}  // namespace

ReportedGraph load_graph(const std::string& name, const GraphFlags& flags) {
  if (const measure::Case* known = measure::find_case(name)) {
    ReportedGraph out{.graph = known->graph()};
    flags.add_choices_to(out.options);
    if (known->growing.end > 1) out.open[std::string(known->growing.symbol)] = 1;
    return out;
  }
  GraphFlags of_model = flags;
  const measure::TemporaryFolder folder;
  if (const measure::Network* network = measure::find_network(name)) {
    of_model = network_flags(*network, flags, folder);
  } else {
    expect_model_file(name);
    of_model.model.file = name;
  }
  Model model = of_model.load();
  ReportedGraph out{.options = of_model.options(model), .open = of_model.open_symbols(model)};
  out.graph = std::move(model.graph);
  return out;
}

std::vector<std::string> gpu_report_files(const std::vector<std::string>& names, const GraphFlags& flags) {
  std::vector<std::string> out = flags.model.files();
  for (const std::string& name : names) {
    const measure::Network* const network = measure::find_network(name);
    out.push_back(network ? network->path() : name);
  }
  return out;
}

std::vector<std::string> inside_words(const std::string& name, const GraphFlags& flags, bool experimental) {
  std::vector<std::string> out = flags.words();
  if (experimental) out.emplace_back("--experimental");
  for (const std::string& input : flags.model.inputs) out.insert(out.end(), {"--input", input});
  out.push_back(name);
  return out;
}

void compile_inside(const measure::SimulatedGpu& gpu, const std::string& name, const GraphFlags& flags,
                    bool experimental) {
  const ReportedGraph subject = load_graph(name, flags);
  ModuleSurvey survey(
      {.software = false, .experimental = experimental, .disk_cache = false, .worker_threads = false});
  survey.add(subject.graph, subject.options, subject.open);
  say(measure::module_list(list_of(survey)));
  measure::CapturedStderr printed;
  for (std::string line; std::getline(std::cin, line);)
    say(measure::module_result(compile_module(survey, std::stoul(line), gpu, printed)));
}

}  // namespace rlx::cli
