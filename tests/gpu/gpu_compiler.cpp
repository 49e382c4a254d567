#include "tests/gpu/gpu_compiler.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <memory>
#include <vector>

#include "base/flags.h"
#include "base/format.h"
#include "measure/captured_stderr.h"
#include "measure/simulated_gpu.h"
#include "rlx/error.h"
#include "runtime/module_survey.h"

namespace rlx::testing {
namespace {

std::array<char, 256> compiled_now;
int real_stderr = -1;

// Only what is safe in a signal handler.
void name_module(int signal) {
  const std::string_view what = signal == SIGALRM ? "more than 60 s for the kernel " : "crash of the kernel ";
  for (const std::string_view part : {what, std::string_view(compiled_now.data()), std::string_view("\n")})
    static_cast<void>(!write(real_stderr, part.data(), part.size()));
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

class GpuCompiler {
 public:
  GpuCompiler()
      : survey_({.software = false, .experimental = true, .disk_cache = false, .worker_threads = false}) {
    gpu_ = measure::find_simulated_gpu(env_text("RLX_TEST_GPU"));
  }

  void plan(const Graph& graph, const CompileOptions& options, const SymbolValues& symbols) {
    survey_.add(graph, options, symbols);
  }
  void skip_planned() { done_ = survey_.modules().size(); }

  void compile_planned() {
    if (done_ == survey_.modules().size()) return;
    const int before = dup(STDERR_FILENO);
    measure::CapturedStderr printed;
    real_stderr = before;
    for (const int signal : {SIGALRM, SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE})
      std::signal(signal, name_module);
    for (; done_ < survey_.modules().size(); ++done_) compile(done_, printed);
    std::signal(SIGALRM, SIG_DFL);
    close(before);
  }

  std::vector<Spilling> spilling;

 private:
  void compile(size_t i, measure::CapturedStderr& printed) {
    const ModuleSurvey::Module& m = survey_.modules()[i];
    const std::string name = formatted("{} {} ({})", m.kernel, m.variant, m.op);
    std::strncpy(compiled_now.data(), name.c_str(), compiled_now.size() - 1);
    alarm(60);
    try {
      survey_.compile(i);
    } catch (const Error& e) {
      ADD_FAILURE() << name << " " << e.what();
    }
    alarm(0);
    const auto statistics = gpu_->parse(printed.take());
    if (statistics && statistics->spills.value_or(0) > 0) spilling.push_back({name, *statistics->spills});
  }

  ModuleSurvey survey_;
  const measure::SimulatedGpu* gpu_;
  size_t done_ = 0;
};

GpuCompiler& compiler() {
  static std::unique_ptr<GpuCompiler>& made = *new std::unique_ptr<GpuCompiler>();
  if (!made) made = std::make_unique<GpuCompiler>();
  return *made;
}

}  // namespace

bool only_compiles() { return !env_text("RLX_TEST_GPU").empty(); }

void compile_for_gpu(const Graph& graph, const CompileOptions& options, const SymbolValues& symbols) {
  compiler().plan(graph, options, symbols);
  compiler().compile_planned();
}

void plan_for_gpu(const Graph& graph, const CompileOptions& options, const SymbolValues& symbols) {
  compiler().plan(graph, options, symbols);
  compiler().skip_planned();
}

const std::vector<Spilling>& spilling_modules() { return compiler().spilling; }

}  // namespace rlx::testing
