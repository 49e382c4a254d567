// What the compilers of GPU drivers print about a shader, as numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/json.h"

namespace rlx::measure {

// Nothing: the driver does not print it.
struct ShaderStatistics {
  std::optional<int64_t> registers = {};  // 32-bit ones of an invocation
  std::optional<int64_t> spills = {};     // instructions that save a register to memory or load it again
  std::optional<int64_t> register_spills = {};  // registers that are kept in registers of another kind
  std::optional<int64_t> workgroup_bytes = {};
  // Waves, warps or threads that the registers (and what else the driver looks at) leave room for.
  std::optional<int64_t> room = {};
  std::optional<int64_t> instructions = {};
  std::optional<int64_t> code_bytes = {};
};

// From what is printed while one compute shader is compiled. Where several are, such as the driver's own, the
// last counts. Nothing if there is none.
std::optional<ShaderStatistics> parse_radv_statistics(std::string_view text);
std::optional<ShaderStatistics> parse_nak_statistics(std::string_view text);
std::optional<ShaderStatistics> parse_agx_statistics(std::string_view text);
std::optional<ShaderStatistics> parse_ir3_statistics(std::string_view text);

// An object without the members that are not known.
Json to_json(const ShaderStatistics& statistics);
ShaderStatistics shader_statistics(const Json& json);

}  // namespace rlx::measure
