#include "ops/op_table.h"

#include <algorithm>

namespace rlx {

void OpTable::add(OpInfo info) {
  const std::string name = info.name;
  check(ops_.emplace(name, std::move(info)).second, "every op has a name of its own");
}

const OpInfo* OpTable::find(std::string_view name) const {
  const auto it = ops_.find(name);
  return it == ops_.end() ? nullptr : &it->second;
}

void OpTable::check_variant(std::string_view op, std::string_view variant) const {
  const OpInfo* info = find(op == "elementwise" ? "add" : op);
  if (!info) {
    fail(ErrorKind::invalid_argument, "there is no op '{}' to choose a kernel for (`rlx ops` lists them)",
         op);
  }
  if (std::ranges::contains(info->variants, variant)) return;
  std::string known;
  for (const std::string& v : info->variants) known += (known.empty() ? "" : ", ") + v;
  fail(ErrorKind::invalid_argument, "the op '{}' has no kernel '{}' (it has: {})", op, variant, known);
}

const OpTable& op_table() {
  static const OpTable table = [] {
    OpTable t;
    ops::register_all(t);
    return t;
  }();
  return table;
}

std::shared_ptr<Op> make_op(std::string_view name) {
  if (name == Input::kName) return std::make_shared<Input>();
  if (name == Param::kName) return std::make_shared<Param>();
  if (name == State::kName) return std::make_shared<State>();
  if (name == Constant::kName) return std::make_shared<Constant>();
  const OpInfo* info = op_table().find(name);
  if (!info) fail("there is no op named '{}' (`rlx ops` lists them)", name);
  return info->make();
}

}  // namespace rlx
