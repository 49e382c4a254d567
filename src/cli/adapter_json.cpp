#include "cli/adapter_json.h"

#include <string>

namespace rlx::cli {

Json to_json(const AdapterInfo& a) {
  Json matrices = Json::array();
  for (const SubgroupMatrix& s : a.caps.subgroup_matrices) {
    matrices.add(Json::object({{"component", std::string(to_string(s.component))},
                               {"result", std::string(to_string(s.result))},
                               {"m", s.m},
                               {"n", s.n},
                               {"k", s.k}}));
  }
  Json limits = Json::object();
  for (const auto& [name, value] : a.limits) limits.set(name, value);
  return Json::object({{"index", a.index},
                       {"name", a.name},
                       {"backend", a.backend},
                       {"kind", std::string(to_string(a.caps.kind))},
                       {"vendor", a.vendor},
                       {"architecture", a.architecture},
                       {"driver", a.driver},
                       {"family", std::string(to_string(a.caps.family))},
                       {"software", a.caps.software()},
                       {"subgroup_sizes", Json::array({a.caps.subgroup_min_size, a.caps.subgroup_max_size})},
                       {"memory_bytes", a.caps.memory_bytes},
                       {"features", a.features},
                       {"subgroup_matrices", matrices},
                       {"limits", limits}});
}

}  // namespace rlx::cli
