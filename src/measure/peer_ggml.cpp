#include "measure/peer_ggml.h"

#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "base/fail.h"
#include "measure/child_process.h"
#include "measure/stopwatch.h"

namespace rlx::measure {
namespace {

constexpr std::string_view kProgram = "test-backend-ops";

constexpr GgmlCase kCases[] = {
    {"wide_matvec_f32", "type_a=f32,type_b=f32,m=4096,n=1,k=14336"},
    {"wide_matvec_q8_0", "type_a=q8_0,type_b=f32,m=4096,n=1,k=14336"},
    {"wide_matvec_q6_k", "type_a=q6_K,type_b=f32,m=4096,n=1,k=14336"},
    {"wide_matvec_q4_k", "type_a=q4_K,type_b=f32,m=4096,n=1,k=14336"},
    {"wide_matmul_f32", "type_a=f32,type_b=f32,m=4096,n=512,k=14336"},
    {"wide_matmul_q8_0", "type_a=q8_0,type_b=f32,m=4096,n=512,k=14336"},
    {"wide_matmul_q6_k", "type_a=q6_K,type_b=f32,m=4096,n=512,k=14336"},
    {"wide_matmul_q4_k", "type_a=q4_K,type_b=f32,m=4096,n=512,k=14336"},
};

// Of the children that have ended.
double children_cpu_ms() {
  rusage usage = {};
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto ms = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_usec) / 1e3;
  };
  return ms(usage.ru_utime) + ms(usage.ru_stime);
}

}  // namespace

std::span<const GgmlCase> ggml_cases() { return kCases; }

std::string ggml_program() {
  // In PATH, or where Debian's package llama.cpp-tests has it.
  std::string path = std::getenv("PATH") ? std::getenv("PATH") : "";
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    const std::filesystem::path file = std::filesystem::path(path.substr(begin, end - begin)) / kProgram;
    if (std::filesystem::exists(file)) return file.string();
    begin = end + 1;
  }
  std::error_code none;
  for (const auto& folder : std::filesystem::directory_iterator("/usr/libexec", none)) {
    const std::filesystem::path file = folder.path() / "llama.cpp-tests" / kProgram;
    if (std::filesystem::exists(file)) return file.string();
  }
  fail(ErrorKind::unsupported, "--peer: llama.cpp's {} (the Debian package llama.cpp-tests) is not installed",
       kProgram);
}

std::optional<GgmlTime> parse_ggml(std::string_view line) {
  const size_t at = line.find("):");
  if (!line.contains("MUL_MAT(") || at == std::string_view::npos) return std::nullopt;
  long long runs = 0;
  double us = 0;
  if (std::sscanf(std::string(line.substr(at + 2)).c_str(), " %lld runs - %lf us/run", &runs, &us) != 2)
    return std::nullopt;
  return GgmlTime{.wall_ms = us / 1e3, .runs = runs};
}

std::optional<GgmlTime> run_ggml(const GgmlCase& c) {
  const TemporaryFolder folder;
  const double before = children_cpu_ms();
  const Stopwatch watch;
  std::optional<GgmlTime> out;
  bool unsupported = false;
  std::string complaint;
  {
    // The variable: without it the backend leaves CPU devices out.
    ChildProcess program(
        {ggml_program(), "perf", "-o", "MUL_MAT", "-b", "Vulkan0", "-p", std::string(c.params)},
        {{"GGML_VK_VISIBLE_DEVICES", "0"}}, folder.file("stderr"));
    while (const std::optional<std::string> line = program.read_line()) {
      if (const std::optional<GgmlTime> time = parse_ggml(*line)) out = time;
      unsupported = unsupported || line->contains("not supported");
    }
    complaint = program.last_complaint();
  }
  if (!out && unsupported) return std::nullopt;
  if (!out)
    fail(ErrorKind::unsupported, "--peer: {} has no result for {}{}{}", kProgram, c.params,
         complaint.empty() ? "" : ": ", complaint);
  // It does not tell the time of its runs from that of preparing them.
  out->cpu_ms = (children_cpu_ms() - before) * out->wall_ms / watch.ms();
  return out;
}

}  // namespace rlx::measure
