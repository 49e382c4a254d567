// Honeykrisp with AGX_MESA_DEBUG=shaderdb: one line "CS shader: 607 instrs, 381 alu, ..., 113 gprs, ...".
// Its registers have 16 bits.
#include "measure/shader_statistics.h"
#include "measure/statistics_text.h"

namespace rlx::measure {

std::optional<ShaderStatistics> parse_agx_statistics(std::string_view text) {
  std::string_view line = from_last(text, "CS shader:");
  if (line.empty()) return std::nullopt;
  line = line.substr(0, line.find('\n'));
  const std::optional<int64_t> halves = number_before(line, " gprs,");
  const std::string_view pair = line.substr(0, line.find(" spills:fills"));
  const std::string_view counts = pair.substr(pair.rfind(' ') + 1);
  const std::optional<int64_t> saved = number_after(counts, ""), loaded = number_after(counts, ":");
  return ShaderStatistics{
      .registers = halves ? std::optional((*halves + 1) / 2) : std::nullopt,
      .spills = saved && loaded ? std::optional(*saved + *loaded) : std::nullopt,
      .room = number_before(line, " threads,"),
      .instructions = number_before(line, " instrs,"),
      .code_bytes = number_before(line, " code size,"),
  };
}

}  // namespace rlx::measure
