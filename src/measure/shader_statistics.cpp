#include "measure/shader_statistics.h"

#include <utility>

namespace rlx::measure {
namespace {

using Member = std::optional<int64_t> ShaderStatistics::*;
constexpr std::pair<const char*, Member> kMembers[] = {
    {"registers", &ShaderStatistics::registers},
    {"spills", &ShaderStatistics::spills},
    {"register_spills", &ShaderStatistics::register_spills},
    {"workgroup_bytes", &ShaderStatistics::workgroup_bytes},
    {"room", &ShaderStatistics::room},
    {"instructions", &ShaderStatistics::instructions},
    {"code_bytes", &ShaderStatistics::code_bytes},
};

}  // namespace

Json to_json(const ShaderStatistics& statistics) {
  Json out = Json::object();
  for (const auto& [name, member] : kMembers) {
    if (const std::optional<int64_t>& value = statistics.*member) out.set(name, *value);
  }
  return out;
}

ShaderStatistics shader_statistics(const Json& json) {
  ShaderStatistics out;
  for (const auto& [name, member] : kMembers) {
    const std::optional<Json> value = json.member(name);
    const std::optional<double> number = value ? value->number() : std::nullopt;
    if (number) out.*member = static_cast<int64_t>(*number);
  }
  return out;
}

}  // namespace rlx::measure
