#include "cli/bench_peers.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/fail.h"
#include "base/format.h"
#include "cli/announced.h"
#include "cli/bench_report.h"
#include "cli/bench_subjects.h"
#include "cli/bench_work.h"
#include "cli/standard_input.h"
#include "cli/text.h"
#include "measure/beside.h"
#include "measure/peer_ggml.h"

namespace rlx::cli {
namespace {

using measure::Beside;
using measure::Case;
using measure::GgmlCase;

constexpr std::string_view kInTurns = "warm runs in turns; ratios are rlx to its peer\n";

// With our own figures printed: the comparison that was asked for is not there.
void fail_if_all_refused(const std::vector<Beside>& results) {
  const auto refused = [](const Beside& b) { return !b.refusal.empty(); };
  if (std::ranges::all_of(results, refused)) fail(ErrorKind::unsupported, "{}", results[0].refusal);
}

// ONNX Runtime chooses an adapter itself and does not say which. Fails unless there is only one.
void check_only_adapter(const DeviceFlags& flags) {
  const std::vector<AdapterInfo> adapters = flags.adapters();
  if (adapters.size() == 1) return;
  fail(ErrorKind::unsupported,
       "--peer: there must be exactly one {} adapter, so that both sides use the same, but there are {}{}; "
       "VK_DRIVER_FILES=FILE.json leaves only the driver of that file",
       flags.backend, adapters.size(),
       adapters.empty() ? "" : formatted(": {}", joined(adapters, &AdapterInfo::name)));
}

measure::BesideModel beside_model(const BenchSubject& s) {
  const RunSetup& setup = *s.setup;
  measure::BesideModel out{
      .name = s.name,
      .compile = [&setup](const Device& d) { return compile_model(setup, d).exe; },
      .inputs = setup.leaves.inputs,
      .open = setup.open,
      .peer = {.file = s.file, .inputs = setup.leaves.inputs, .types = setup.model.types}};
  out.peer.inputs.insert(setup.model.fixed_inputs.begin(), setup.model.fixed_inputs.end());
  return out;
}

void run_beside_ort(const BenchOptions& o) {
  const bool webgpu = o.peer == "ort";
  std::vector<measure::OrtProvider> providers = {measure::OrtProvider::cpu};
  if (webgpu) providers.insert(providers.begin(), measure::OrtProvider::webgpu);
  const std::vector<BenchSubject> all = bench_subjects(o);
  std::vector<measure::BesideModel> models;
  for (const BenchSubject& s : all) models.push_back(beside_model(s));
  measure::check_ort();
  DeviceFlags flags = o.device;
  if (webgpu) {
    if (flags.backend.empty()) flags.backend = "vulkan";
    check_only_adapter(flags);
  }
  const Device device = flags.open();
  const std::vector<std::vector<Beside>> results = with_progress(
      [&](const measure::Announce& announce) {
        return measure::beside_ort(providers, models, device, {o.rounds ? o.rounds : 3, o.seconds}, announce);
      },
      [](const std::string& name) { return formatted("{} in rlx and in ONNX Runtime", short_name(name)); });
  o.report.write(report_json(device.info().name,
                             webgpu ? cli::to_json(results[0], results[1]) : cli::to_json(results[0])));
  if (o.report.only_json()) return fail_if_all_refused(results[0]);
  print(formatted(
      "{}; {}ort-cpu with its CPU provider\n{}", device.info().name,
      webgpu ? "ort is ONNX Runtime 1.30.0 with its WebGPU provider, " : "ONNX Runtime 1.30.0: ", kInTurns));
  for (size_t i = 0; i < results.size(); ++i) {
    const std::string peer = providers[i] == measure::OrtProvider::webgpu ? "ort" : "ort-cpu";
    print(formatted("\n{}\n{}", beside_table(results[i], peer), beside_notes(results[i], peer)));
  }
  fail_if_all_refused(results[0]);
}

// Its cases are those of llama.cpp's benchmark.
void run_beside_ggml(const BenchOptions& o) {
  std::vector<const Case*> cases;
  for (const std::string& name : o.cases) {
    if (!std::ranges::contains(measure::ggml_cases(), name, &GgmlCase::name)) {
      throw Misuse(formatted("--peer ggml: '{}' is none of the cases that llama.cpp measures: {}", name,
                             joined(measure::ggml_cases(), &GgmlCase::name)));
    }
    cases.push_back(measure::find_case(name));
  }
  if (o.cases.empty()) {
    for (const GgmlCase& c : measure::ggml_cases()) cases.push_back(measure::find_case(c.name));
  }
  measure::ggml_program();  // an error if it is not there
  const Device device = o.device.open();
  const std::vector<Beside> results = with_progress(
      [&](const measure::Announce& announce) {
        return measure::beside_ggml(cases, device, {o.rounds ? o.rounds : 1, o.seconds}, announce);
      },
      [](const std::string& name) { return formatted("{} in rlx and in llama.cpp", name); });
  o.report.write(report_json(device.info().name, cli::to_json(results)));
  if (o.report.only_json()) return;
  print(formatted("{}; ggml is llama.cpp's Vulkan backend, measured by test-backend-ops\n{}\n{}\n{}",
                  device.info().name, kInTurns, beside_table(results, o.peer),
                  beside_notes(results, o.peer)));
}

// Both sides are processes, with the same words. The device is only asked for its name.
void run_beside_rlx(const BenchOptions& o) {
  const std::vector<BenchSubject> all = bench_subjects(o);
  const measure::RlxProgram peer = measure::RlxProgram::open(o.peer_program());
  const std::string adapter = o.device.open().info().name;
  std::vector<measure::RlxSubject> subjects;
  for (const BenchSubject& s : all) subjects.push_back(rlx_subject(s, o, peer));
  const std::vector<Beside> results = with_progress(
      [&](const measure::Announce& announce) {
        return measure::beside_rlx(peer, subjects, {o.rounds ? o.rounds : 3, o.seconds}, announce);
      },
      [](const std::string& name) { return formatted("{} in both programs", short_name(name)); });
  o.report.write(report_json(adapter, cli::to_json(results)));
  if (!o.report.only_json()) {
    print(formatted("{}; peer is {}\n{}\n{}\n{}", adapter, peer.name(), kInTurns,
                    beside_table(results, "peer"), beside_notes(results, "peer")));
  }
  fail_if_all_refused(results);
}

}  // namespace

void check_peer(const BenchOptions& o) {
  if (o.beside_rlx() && o.peer_program().empty())
    throw Misuse("--peer is 'rlx='; the program is missing: rlx=PROGRAM");
  if (!o.peer.empty() && !o.beside_ort() && !o.beside_rlx() && o.peer != "ggml")
    throw Misuse(formatted("--peer is '{}'; the peers are: ort, ort-cpu, ggml, rlx=PROGRAM", o.peer));
}

void run_beside(const BenchOptions& o) {
  if (o.beside_ort()) return run_beside_ort(o);
  if (o.beside_rlx()) return run_beside_rlx(o);
  run_beside_ggml(o);
}

}  // namespace rlx::cli
