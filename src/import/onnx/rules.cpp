#include "import/onnx/rules.h"

namespace rlx::onnx {

void RuleTable::add(std::string_view domain, std::string_view op, Rule rule) {
  const bool added = rules_.emplace(std::pair(domain, op), rule).second;
  check(added, "an ONNX op has one rule");
}

Rule RuleTable::find(std::string_view domain, std::string_view op) const {
  const auto it = rules_.find({domain, op});
  return it == rules_.end() ? nullptr : it->second;
}

const RuleTable& rule_table() {
  static const RuleTable table = [] {
    RuleTable all;
    rules::register_all(all);
    return all;
  }();
  return table;
}

}  // namespace rlx::onnx
