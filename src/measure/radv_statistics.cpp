// RADV with RADV_DEBUG=shaderstats: a block of lines "VGPRs: 48".
#include "measure/shader_statistics.h"
#include "measure/statistics_text.h"

namespace rlx::measure {

std::optional<ShaderStatistics> parse_radv_statistics(std::string_view text) {
  const std::string_view block = from_last(text, "*** SHADER STATS ***");
  if (block.empty()) return std::nullopt;
  return ShaderStatistics{.registers = number_after(block, "\nVGPRs:"),
                          .spills = number_after(block, "\nSpilled VGPRs:"),
                          .register_spills = number_after(block, "\nSpilled SGPRs:"),
                          .workgroup_bytes = number_after(block, "\nLDS size:"),
                          .room = number_after(block, "\nSubgroups per SIMD:"),
                          .instructions = number_after(block, "\nInstructions:"),
                          .code_bytes = number_after(block, "\nCode size:")};
}

}  // namespace rlx::measure
