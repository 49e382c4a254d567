#include "measure/compiler_report.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "base/fail.h"
#include "base/format.h"
#include "base/json.h"
#include "measure/child_process.h"
#include "measure/stopwatch.h"

namespace rlx::measure {
namespace {

std::string text_of(const Json& json, std::string_view name) {
  const std::optional<Json> value = json.member(name);
  return value ? value->string().value_or("") : "";
}

std::optional<double> number_of(const Json& json, std::string_view name) {
  const std::optional<Json> value = json.member(name);
  return value ? value->number() : std::nullopt;
}

CompilerReport read_list(const Json& json) {
  CompilerReport out{.adapter = text_of(json, "adapter"), .driver = text_of(json, "driver"), .modules = {}};
  const std::optional<Json> modules = json.member("modules");
  for (size_t i = 0; modules && modules->item(i); ++i) {
    const Json m = *modules->item(i);
    out.modules.push_back({.kernel = text_of(m, "kernel"),
                           .variant = text_of(m, "variant"),
                           .op = text_of(m, "op"),
                           .node = text_of(m, "node"),
                           .load = number_of(m, "load").value_or(0) != 0,
                           .dispatches = static_cast<int64_t>(number_of(m, "dispatches").value_or(0))});
  }
  return out;
}

// The process, started again where it ended.
class Compiler {
 public:
  Compiler(const SimulatedGpu& gpu, const std::string& program, const std::vector<std::string>& words,
           bool with_statistics, const CompilerLimits& limits)
      : environment_(environment_of(gpu)),
        command_{program, "gpu-report", "--inside", gpu.name},
        planning_seconds_(limits.seconds_of_planning),
        seconds_(limits.seconds * (with_statistics && gpu.prints_code ? limits.printing_factor : 1)) {
    for (const auto& [name, value] : gpu.statistics) environment_[name] = with_statistics ? value : "";
    command_.insert(command_.end(), words.begin(), words.end());
  }

  CompilerReport list() {
    start();
    const std::optional<Json> answer = ask("", planning_seconds_);
    if (!answer) return {.failure = std::exchange(failure_, "")};
    return read_list(*answer);
  }

  void compile(size_t index, CompiledModule& module) {
    if (!process_) {
      start();
      if (!ask("", planning_seconds_)) {
        module.failure = std::exchange(failure_, "");
        return;
      }
    }
    const std::optional<Json> answer = ask(std::to_string(index), seconds_);
    if (!answer) {
      module.failure = std::exchange(failure_, "");
      return;
    }
    module.failure = text_of(*answer, "failure");
    module.compile_ms = number_of(*answer, "compile_ms");
    if (const std::optional<Json> statistics = answer->member("statistics"))
      module.statistics = shader_statistics(*statistics);
  }

 private:
  void start() { process_ = std::make_unique<ChildProcess>(command_, environment_, folder_.file("stderr")); }

  // The answer to a line, or to none. Nothing if there is none in time; then the process is gone.
  std::optional<Json> ask(const std::string& line, double seconds) {
    if (!line.empty()) process_->write_line(line);
    const Stopwatch watch;
    for (;;) {
      if (!process_->has_line(seconds - watch.ms() / 1e3)) {
        failure_ = formatted("takes more than {} s", seconds);
        process_.reset();
        return std::nullopt;
      }
      const std::optional<std::string> answer = process_->read_line();
      if (!answer) break;
      if (!answer->starts_with(kReportMark)) continue;
      if (std::optional<Json> json = Json::read(std::string_view(*answer).substr(kReportMark.size())))
        return json;
    }
    const Ended ended = process_->wait();
    const std::string complaint = process_->last_complaint();
    constexpr std::string_view kName = "rlx: ";
    if (ended.signal == 0 && complaint.starts_with(kName)) {
      failure_ = complaint.substr(kName.size());
    } else {
      failure_ = ended.signal
                     ? formatted("ends the process by signal {} ({})", ended.signal, strsignal(ended.signal))
                     : formatted("ends the process with code {}", ended.code);
      if (!complaint.empty()) failure_ += ": " + complaint;
    }
    process_.reset();
    return std::nullopt;
  }

  const TemporaryFolder folder_;
  std::map<std::string, std::string> environment_;
  std::vector<std::string> command_;
  double planning_seconds_, seconds_;
  std::unique_ptr<ChildProcess> process_;
  std::string failure_;
};

}  // namespace

bool CompilerReport::failed() const {
  return !failure.empty() ||
         std::ranges::any_of(modules, [](const CompiledModule& m) { return !m.failure.empty(); });
}

Json module_list(const CompilerReport& report) {
  Json modules = Json::array();
  for (const CompiledModule& m : report.modules) {
    modules.add(Json::object({{"kernel", m.kernel},
                              {"variant", m.variant},
                              {"op", m.op},
                              {"node", m.node},
                              {"load", m.load ? 1 : 0},
                              {"dispatches", m.dispatches}}));
  }
  return Json::object({{"adapter", report.adapter}, {"driver", report.driver}, {"modules", modules}});
}

Json module_result(const CompiledModule& module) {
  Json out = Json::object({{"failure", module.failure}, {"statistics", to_json(module.statistics)}});
  if (module.compile_ms) out.set("compile_ms", *module.compile_ms);
  return out;
}

std::span<const std::string_view> main_cases() {
  static constexpr std::string_view kCases[] = {
      "matmul512", "matmul_odd",   "linear512",    "bert_up",          "small_m",
      "matvec",    "matvec_q8_0",  "matvec_q4_k",  "wide_matmul_q4_k", "grouped",
      "conv3x3",   "conv1x1",      "depthwise3x3", "softmax",          "layer_norm",
      "sum_rows",  "attention128", "causal1024",   "attention_step8k"};
  return kCases;
}

CompilerReport compile_on(const SimulatedGpu& gpu, const std::vector<std::string>& words,
                          const Announce& announce, const CompilerLimits& limits,
                          const std::string& program) {
  announce(formatted("planning for {}", gpu.what));
  Compiler compiler(gpu, program, words, !gpu.prints_code, limits);
  CompilerReport out = compiler.list();
  const auto announced = [&](size_t i) {
    announce(formatted("{} for {}, {} of {}", out.modules[i].kernel, gpu.what, i + 1, out.modules.size()));
  };
  for (size_t i = 0; i < out.modules.size(); ++i) {
    announced(i);
    compiler.compile(i, out.modules[i]);
  }
  if (!gpu.prints_code) return out;
  // Once more for the statistics.
  Compiler printing(gpu, program, words, true, limits);
  for (size_t i = 0; i < out.modules.size(); ++i) {
    if (!out.modules[i].failure.empty()) continue;
    announced(i);
    CompiledModule printed;
    printing.compile(i, printed);
    out.modules[i].statistics = printed.statistics;
  }
  return out;
}

}  // namespace rlx::measure
