// The table of all ops. A source of an op has a function register_<name>(OpTable&); the build collects them
// in a generated register_all, since objects that register themselves are dropped when a static library is
// linked.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/machinery/op_of.h"

namespace rlx {

// A list of texts. From constants it is made in one call: a std::vector<std::string> of them would be built
// by code at each of the places that have one, which takes a compiler long.
class Texts {
 public:
  Texts() = default;
  Texts(std::initializer_list<std::string_view> texts);
  Texts(std::vector<std::string> texts) : list_(std::move(texts)) {}

  void push_back(std::string text) { list_.push_back(std::move(text)); }
  const std::vector<std::string>& list() const { return list_; }
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }
  size_t size() const { return list_.size(); }
  bool empty() const { return list_.empty(); }
  const std::string& operator[](size_t i) const { return list_[i]; }

 private:
  std::vector<std::string> list_;
};

struct OpInfo {
  std::string name;
  std::string formula;  // what it computes, in one line
  // A line for each: "bias? (f32): added to each row". docs/adding-an-op.md explains the format, which
  // op_schema (rlx/schema.h) reads.
  std::string_view operands;
  std::string_view attributes = "";  // their documentation; the rest is in Op::visit_attributes
  std::string_view outputs = "y: the result";
  std::string types;  // element types of the data input, T, as in "f32 f16 bf16"
  // Rows of its kernel table; "view", "expanded" or "control_flow" if it has no kernel.
  Texts variants;
  // What the sweep runs, as one call each: "softmax(T[4,17]) {axis=1}". T takes every type above; "i32[3] in
  // 0..9" bounds the random values of an input, "state T[3]" makes a state of it, and "none" leaves it out.
  Texts samples;
  // Only passes and the text form make it: users have no function for it in rlx/ops.h.
  bool internal = false;
  bool custom = false;  // registered by a program (rlx/custom_op.h)
  std::function<std::shared_ptr<Op>()> make;
};

class OpTable {
 public:
  template <class T>
  void add(OpInfo info) {
    if (!kHasLower<T> && !kHasExpand<T> && !T().has(Trait::view) && !T().has(Trait::control_flow))
      nothing_to_run(T::kName);
    info.name = T::kName;
    info.make = [] { return std::make_shared<T>(); };
    add(std::move(info));
  }
  // Any thread may call any of these at any time; an info that was found stays where it is.
  void add(OpInfo info);
  const OpInfo* find(std::string_view name) const;
  std::vector<std::pair<std::string_view, const OpInfo&>> all() const;
  // The op of that name; otherwise an error with its current name, or with similar ones.
  const OpInfo& at(std::string_view name) const;
  // An error that lists the op's kernels, unless all words are names of them, perhaps with constants after
  // them ("transposed rows ROWS=16"). Element-wise ops are one family, "elementwise", with one table.
  void check_variant(std::string_view op, std::string_view variant) const;

 private:
  [[noreturn]] static void nothing_to_run(std::string_view name);

  mutable std::shared_mutex mutex_;
  std::map<std::string, OpInfo, std::less<>> ops_;
};

// Programs add theirs with register_op (rlx/custom_op.h).
OpTable& op_table();

namespace ops {
void register_all(OpTable& table);  // generated
}

// A default op of that name, to set attributes on; an error when there is none.
std::shared_ptr<Op> make_op(std::string_view name);
// Back from attribute_text.
AttrValue parse_attribute(std::string_view text);

}  // namespace rlx
