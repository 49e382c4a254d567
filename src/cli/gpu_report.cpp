#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "base/fail.h"
#include "base/format.h"
#include "base/json.h"
#include "cli/announced.h"
#include "cli/commands.h"
#include "cli/gpu_report_inside.h"
#include "cli/report.h"
#include "cli/text.h"
#include "measure/bench_cases.h"
#include "measure/compiler_report.h"
#include "measure/networks.h"

namespace rlx::cli {
namespace {

using measure::CompiledModule;
using measure::CompilerReport;
using measure::SimulatedGpu;

struct Options {
  GraphFlags graph;
  std::vector<std::string> cases;
  std::vector<std::string> devices;
  ReportFlags report;
  bool environment = false;
  std::string inside;
  bool experimental = false;
};

struct Report {
  const SimulatedGpu* gpu;
  std::string name;  // of the case
  CompilerReport compiled;
};

std::vector<const SimulatedGpu*> chosen_gpus(const std::vector<std::string>& names) {
  std::vector<const SimulatedGpu*> out;
  for (const std::string& name : names) {
    const SimulatedGpu* const gpu = measure::find_simulated_gpu(name);
    if (!gpu)
      throw Misuse(formatted("--device: there is no device '{}'; the devices are: {}", name,
                             joined(measure::simulated_gpus(), &SimulatedGpu::name)));
    if (!std::ranges::contains(out, gpu)) out.push_back(gpu);
  }
  if (out.empty()) {
    for (const SimulatedGpu& gpu : measure::simulated_gpus()) out.push_back(&gpu);
  }
  return out;
}

std::string number_text(const std::optional<int64_t>& value) { return value ? std::to_string(*value) : "-"; }

std::string spills_text(const measure::ShaderStatistics& s) {
  if (!s.spills || s.register_spills.value_or(0) == 0) return number_text(s.spills);
  return formatted("{} + {}", *s.spills, *s.register_spills);
}

std::string occupancy_text(const SimulatedGpu& gpu, const measure::ShaderStatistics& s) {
  const std::optional<int64_t> now = measure::occupancy(gpu, s);
  return now ? formatted("{}/{}", *now, gpu.most_units) : "-";
}

std::vector<std::string> row(const Report& r, const CompiledModule& m) {
  const measure::ShaderStatistics& s = m.statistics;
  return {r.name,
          m.kernel,
          m.variant.empty() ? "-" : m.variant,
          std::to_string(m.dispatches),
          number_text(s.registers),
          spills_text(s),
          number_text(s.workgroup_bytes),
          occupancy_text(*r.gpu, s),
          number_text(s.instructions),
          number_text(s.code_bytes),
          m.compile_ms ? ms_text(*m.compile_ms) : "-",
          m.failure.empty() ? "" : "fails: see below"};
}

Json to_json(const Report& r, const CompiledModule& m) {
  Json out = Json::object({{"device", r.gpu->name},
                           {"driver", r.gpu->driver},
                           {"case", r.name},
                           {"kernel", m.kernel},
                           {"variant", m.variant},
                           {"op", m.op},
                           {"node", m.node},
                           {"load", m.load},
                           {"dispatches", m.dispatches}});
  const auto set = [&](const char* name, const std::optional<int64_t>& value) {
    if (value) out.set(name, *value);
  };
  const measure::ShaderStatistics& s = m.statistics;
  set("registers", s.registers);
  set("spills", s.spills);
  set("register_spills", s.register_spills);
  set("workgroup_bytes", s.workgroup_bytes);
  set("occupancy", measure::occupancy(*r.gpu, s));
  out.set("occupancy_of", r.gpu->most_units);
  out.set("occupancy_unit", r.gpu->unit);
  set("instructions", s.instructions);
  set("code_bytes", s.code_bytes);
  if (m.compile_ms) out.set("compile_ms", *m.compile_ms);
  if (!m.failure.empty()) out.set("failure", m.failure);
  return out;
}

Json to_json(const std::vector<const SimulatedGpu*>& gpus, const std::vector<Report>& reports) {
  Json devices = Json::array(), modules = Json::array();
  for (const SimulatedGpu* gpu : gpus) {
    const auto of_gpu = std::ranges::find(reports, gpu, &Report::gpu);
    devices.add(Json::object({{"device", gpu->name},
                              {"what", gpu->what},
                              {"driver", of_gpu->compiled.driver},
                              {"adapter", of_gpu->compiled.adapter}}));
  }
  for (const Report& r : reports) {
    for (const CompiledModule& m : r.compiled.modules) modules.add(to_json(r, m));
    if (!r.compiled.failure.empty()) {
      modules.add(Json::object({{"device", r.gpu->name},
                                {"driver", r.gpu->driver},
                                {"case", r.name},
                                {"failure", r.compiled.failure}}));
    }
  }
  return Json::object({{"devices", devices}, {"modules", modules}});
}

std::string failures_text(const Report& r) {
  std::string out;
  if (!r.compiled.failure.empty())
    out += formatted("{}: the graph cannot be planned for {}: {}\n", r.name, r.gpu->what, r.compiled.failure);
  for (const CompiledModule& m : r.compiled.modules) {
    if (!m.failure.empty())
      out += formatted("{}: the kernel {} of the node '{}' {}\n", r.name, m.kernel, m.node, m.failure);
  }
  return out;
}

void print_device(const SimulatedGpu& gpu, const std::vector<Report>& reports) {
  const auto of_gpu = std::ranges::find(reports, &gpu, &Report::gpu);
  print(formatted("{} ({}; {}), occupancy in {}\n", gpu.what, of_gpu->compiled.adapter,
                  of_gpu->compiled.driver, gpu.unit));
  std::vector<std::vector<std::string>> rows = {{"case", "kernel", "variant", "dispatches", "registers",
                                                 "spills", "workgroup bytes", "occupancy", "instructions",
                                                 "code bytes", "compile", ""}};
  std::string failures;
  for (const Report& r : reports) {
    if (r.gpu != &gpu) continue;
    for (const CompiledModule& m : r.compiled.modules) rows.push_back(row(r, m));
    failures += failures_text(r);
  }
  print(table(rows, {3, 4, 5, 6, 7, 8, 9, 10}) + failures + "\n");
}

std::string totals_text(const std::vector<Report>& reports) {
  int64_t modules = 0, spilling = 0, failing = 0;
  for (const Report& r : reports) {
    failing += !r.compiled.failure.empty();
    for (const CompiledModule& m : r.compiled.modules) {
      ++modules;
      spilling += m.statistics.spills.value_or(0) > 0;
      failing += !m.failure.empty();
    }
  }
  return formatted("{} module{}: {} spill{} to memory, {} fail{}", modules, modules == 1 ? "" : "s", spilling,
                   spilling == 1 ? "s" : "", failing, failing == 1 ? "s" : "");
}

// For other programs: those that print code only by the way print their statistics too.
void print_environment(const std::vector<const SimulatedGpu*>& gpus) {
  if (gpus.size() != 1) throw Misuse("--environment is for one --device");
  std::map<std::string, std::string> variables = measure::environment_of(*gpus[0]);
  if (!gpus[0]->prints_code) variables.insert(gpus[0]->statistics.begin(), gpus[0]->statistics.end());
  for (const auto& [name, value] : variables) print(formatted("{}={}\n", name, value));
}

void run_gpu_report(const Options& o) {
  if (!o.inside.empty()) {
    compile_inside(*chosen_gpus({o.inside}).front(), o.cases.at(0), o.graph, o.experimental);
    return;
  }
  const std::vector<const SimulatedGpu*> gpus = chosen_gpus(o.devices);
  if (o.environment) {
    if (!o.cases.empty() || o.report.wanted())
      throw Misuse(
          "--environment prints variables of a device, and nothing else: it takes no case and no --json");
    return print_environment(gpus);
  }
  std::vector<std::string> cases = o.cases;
  if (cases.empty()) cases.assign(measure::main_cases().begin(), measure::main_cases().end());
  check_outputs(o.report.outputs(), gpu_report_files(cases, o.graph));
  const bool for_models =
      !o.graph.model.inputs.empty() || !o.graph.dims.empty() || !o.graph.capacities.empty();
  if (for_models && std::ranges::all_of(cases, measure::find_case))
    throw Misuse("--input, --dim and --capacity are for models, and none is given");
  // What is wrong with the graphs is found once, here.
  for (const std::string& name : cases) load_graph(name, o.graph);
  for (const SimulatedGpu* gpu : gpus) static_cast<void>(measure::environment_of(*gpu));
  std::vector<Report> reports;
  for (const SimulatedGpu* gpu : gpus) {
    for (const std::string& name : cases) {
      reports.push_back({gpu, name, with_progress([&](const measure::Announce& announce) {
                           return measure::compile_on(*gpu, inside_words(name, o.graph, o.experimental),
                                                      announce);
                         })});
    }
    if (!o.report.only_json()) print_device(*gpu, reports);
  }
  o.report.write(to_json(gpus, reports));
  if (!o.report.only_json()) print(totals_text(reports) + "\n");
  const auto failed = [](const Report& r) { return r.compiled.failed(); };
  if (std::ranges::any_of(reports, failed)) {
    const Report& first = *std::ranges::find_if(reports, failed);
    std::string text = failures_text(first);
    text = text.substr(0, text.find('\n'));
    fail(ErrorKind::unsupported, "{}; the first on {}: {}", totals_text(reports), first.gpu->what, text);
  }
}

}  // namespace

void add_gpu_report(Arguments& arguments) {
  const auto o = std::make_shared<Options>();
  Command command = arguments.command(
      "gpu-report", "What the compilers of real GPUs' drivers make of the kernels, without a GPU");
  command.list("CASE", o->cases,
               formatted("A model's file, or cases and networks of `rlx bench`; if nothing is given: {}",
                         joined(measure::main_cases())));
  command.list("--device", o->devices,
               formatted("Only this device, may be given several times: {}",
                         joined(measure::simulated_gpus(), &SimulatedGpu::name)),
               {.value = "NAME"});
  command.flag("--environment", o->environment,
               "Print the variables by which any program sees the device and no other");
  o->report.add_to(command, "the results");
  o->graph.model.add_inputs_to(command);
  o->graph.add_flags_to(command);
  command.flag("--experimental", o->experimental, "With the devices' matrix units");
  command.text("--inside", o->inside, "Compile for the device that this process sees", {.hidden = true});
  command.footer(
      "Compiles with Mesa's drivers for cards that need not be there (Debian's package mesa-drm-shim), each "
      "in\n"
      "a process of its own. Nothing runs: how fast a kernel is stays unknown. Registers have 32 bits; "
      "spills\n"
      "are those to memory, and after + those to other registers; what a driver does not say is -. A module\n"
      "that takes longer than 60 s fails, and the command ends with 1. docs/gpu.md says more.\n"
      "Examples:\n"
      "  rlx gpu-report\n"
      "  rlx gpu-report matmul512 attention128 --device rdna3 --device m1\n"
      "  rlx gpu-report model.onnx --dim batch=1 --json-file out.json");
  command.action([o] { run_gpu_report(*o); });
}

}  // namespace rlx::cli
