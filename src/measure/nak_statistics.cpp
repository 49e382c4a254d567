// NVK with NAK_DEBUG=print: all stages of the compiler, then a block "Stage: compute" with lines
// "Num GPRs: 40". Instructions have 16 bytes (since Volta).
#include "measure/shader_statistics.h"
#include "measure/statistics_text.h"

namespace rlx::measure {

std::optional<ShaderStatistics> parse_nak_statistics(std::string_view text) {
  const std::string_view block = from_last(text, "\nStage: compute\n");
  if (block.empty()) return std::nullopt;
  const auto sum = [&](std::string_view spills, std::string_view fills) -> std::optional<int64_t> {
    const std::optional<int64_t> a = number_after(block, spills), b = number_after(block, fills);
    return a && b ? std::optional(*a + *b) : std::nullopt;
  };
  const std::optional<int64_t> instructions = number_after(block, "\nInstruction count:");
  return ShaderStatistics{
      .registers = number_after(block, "\nNum GPRs:"),
      .spills = sum("\nSpills to mem:", "\nFills from mem:"),
      .register_spills = number_after(block, "\nSpills to reg:"),
      .workgroup_bytes = number_after(from_last(text.substr(0, text.size() - block.size()), "\nshared_size:"),
                                      "\nshared_size:")
                             .value_or(0),
      .room = number_after(block, "\nMax warps/SM:"),
      .instructions = instructions,
      .code_bytes = instructions ? std::optional(16 * *instructions) : std::nullopt};
}

}  // namespace rlx::measure
