// The table of rules: how each ONNX op becomes ops of our own. A rule file in rules/ has a function
// register_<name>(RuleTable&); the build collects them in a generated register_all. Ops that need no rule are
// data of the op itself (ScalarFn::onnx).
#pragma once

#include <map>
#include <string_view>

#include "import/onnx/call.h"

namespace rlx::onnx {

using Rule = void (*)(Call&);

inline constexpr std::string_view kMicrosoft = "com.microsoft";

class RuleTable {
 public:
  // Of ONNX's own domain.
  void add(std::string_view op, Rule rule) { add("", op, rule); }
  void add(std::string_view domain, std::string_view op, Rule rule);
  // Null if there is none.
  Rule find(std::string_view domain, std::string_view op) const;
  const std::map<std::pair<std::string_view, std::string_view>, Rule>& all() const { return rules_; }

 private:
  std::map<std::pair<std::string_view, std::string_view>, Rule> rules_;
};

const RuleTable& rule_table();

namespace rules {
void register_all(RuleTable& table);  // generated
}

}  // namespace rlx::onnx
