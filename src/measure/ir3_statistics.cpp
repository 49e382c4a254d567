// Turnip with IR3_SHADER_DEBUG=cs: the assembly, and after it lines "; CL prog 18/1: 960 instr, ...". What
// does not fit into registers is saved by the instructions stp and loaded by ldp. A full register has four
// components of 32 bits, a half one of 16. A wave has 64 lanes, or twice as many.
#include <algorithm>

#include "measure/shader_statistics.h"
#include "measure/statistics_text.h"

namespace rlx::measure {
namespace {

int64_t count(std::string_view text, std::string_view word) {
  int64_t n = 0;
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + word.size())) ++n;
  return n;
}

}  // namespace

std::optional<ShaderStatistics> parse_ir3_statistics(std::string_view text) {
  const size_t begin = text.rfind("NIR (final form) for CL");
  if (begin == std::string_view::npos) return std::nullopt;
  const std::string_view shader = text.substr(begin);
  const size_t end = shader.find("; CL prog");
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view counts = shader.substr(end);
  const std::optional<int64_t> instructions = number_before(counts, " instr,");
  if (!instructions) return std::nullopt;
  const std::optional<int64_t> full = number_before(counts, " full,"), half = number_before(counts, " half,");
  const std::optional<int64_t> dwords = number_before(counts, " dwords");
  const std::optional<int64_t> waves = number_before(counts, " max_waves,");
  const int64_t lanes = number_before(counts, " double_threadsize").value_or(0) != 0 ? 128 : 64;
  return ShaderStatistics{
      .registers = full && half ? std::optional(std::max(4 * *full, 2 * *half)) : std::nullopt,
      .spills =
          count(shader, " stp.") + count(shader, " ldp.") + count(shader, ")stp.") + count(shader, ")ldp."),
      .workgroup_bytes = number_after(shader, "shared_size:").value_or(0),
      .room = waves ? std::optional(*waves * lanes) : std::nullopt,
      .instructions = instructions,
      .code_bytes = dwords ? std::optional(4 * *dwords) : std::nullopt};
}

}  // namespace rlx::measure
