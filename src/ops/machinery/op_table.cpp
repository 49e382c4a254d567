#include "ops/machinery/op_table.h"

#include <algorithm>

#include "base/similar.h"

namespace rlx {

Texts::Texts(std::initializer_list<std::string_view> texts) : list_(texts.begin(), texts.end()) {}
namespace {

// Ops that once had another name.
constexpr std::pair<std::string_view, std::string_view> kFormerNames[] = {
    {"reduce_sum", "sum"},
    {"reduce_mean", "mean"},
    {"reduce_max", "max"},
    {"reduce_min", "min"},
    {"reduce_prod", "prod"},
    {"narrow", "slice"},
    {"eq", "equal"},
    {"ne", "not_equal"},
    {"lt", "less"},
    {"le", "less_equal"},
    {"gt", "greater"},
    {"ge", "greater_equal"},
    {"bit_and", "bitwise_and"},
    {"bit_or", "bitwise_or"},
    {"bit_xor", "bitwise_xor"},
    {"bit_not", "bitwise_not"},
    {"shift_left", "left_shift"},
    {"shift_right", "right_shift"},
};

}  // namespace

void OpTable::nothing_to_run(std::string_view name) {
  fail(ErrorKind::internal, "the op '{}' has neither lower nor expand, and is no view: nothing can run it",
       name);
}

void OpTable::add(OpInfo info) {
  const std::string name = info.name;
  const std::scoped_lock lock(mutex_);
  if (!ops_.emplace(name, std::move(info)).second)
    fail(ErrorKind::invalid_argument, "there is an op named '{}' already", name);
}

std::vector<std::pair<std::string_view, const OpInfo&>> OpTable::all() const {
  const std::shared_lock lock(mutex_);
  return {ops_.begin(), ops_.end()};
}

const OpInfo* OpTable::find(std::string_view name) const {
  const std::shared_lock lock(mutex_);
  const auto it = ops_.find(name);
  return it == ops_.end() ? nullptr : &it->second;
}

const OpInfo& OpTable::at(std::string_view name) const {
  if (const OpInfo* info = find(name)) return *info;
  for (const auto& [former, present] : kFormerNames) {
    if (name == former) fail("the op '{}' is named '{}' now", former, present);
  }
  std::string near;
  for (const auto& [known, info] : all()) {
    if (is_near(name, known)) near += (near.empty() ? "similar: " : ", ") + std::string(known);
  }
  fail("there is no op named '{}' ({}`rlx ops` lists all)", excerpt(name), near.empty() ? "" : near + "; ");
}

void OpTable::check_variant(std::string_view op, std::string_view variant) const {
  const OpInfo* info = find(op == "elementwise" ? "add" : op);
  if (!info) {
    fail(ErrorKind::invalid_argument, "there is no op '{}' to choose a kernel for (`rlx ops` lists them)",
         op);
  }
  // Values of constants depend on sizes: decide() checks them.
  std::istringstream words{std::string(variant)};
  std::string word;
  for (bool is_first = true; words >> word || is_first; is_first = false) {
    if (std::ranges::contains(info->variants, word) || (!is_first && word.contains('='))) continue;
    fail(ErrorKind::invalid_argument, "the op '{}' has no kernel '{}' (it has: {})", op, word,
         joined(info->variants));
  }
}

OpTable& op_table() {
  static OpTable table;
  static const bool filled = (ops::register_all(table), true);
  static_cast<void>(filled);
  return table;
}

std::shared_ptr<Op> make_op(std::string_view name) {
  if (name == Input::kName) return std::make_shared<Input>();
  if (name == Param::kName) return std::make_shared<Param>();
  if (name == State::kName) return std::make_shared<State>();
  if (name == Constant::kName) return std::make_shared<Constant>();
  return op_table().at(name).make();
}

}  // namespace rlx
