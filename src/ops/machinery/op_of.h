// Bases of ops that the table has (ops/machinery/op_table.h).
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <string_view>

#include "ir/op.h"
#include "ops/machinery/operand_name.h"

namespace rlx {

// Whether an op overrides these.
template <class T>
constexpr bool kHasLower = !std::same_as<decltype(&T::lower), decltype(&Op::lower)>;
template <class T>
constexpr bool kHasExpand = !std::same_as<decltype(&T::expand), decltype(&Op::expand)>;

// One class for several names of the table, such as sum and mean.
class TableOp : public Op {
 public:
  std::string operand_name(int64_t input) const override { return rlx::operand_name(name(), input); }
  bool optional_input(int64_t input) const override { return is_optional_operand(name(), input); }
};

// struct Gather final : OpOf<Gather> { static constexpr auto kName = "gather"; ... };
template <class Self>
class OpOf : public TableOp {
 public:
  std::string_view name() const override { return Self::kName; }
  std::shared_ptr<Op> clone() const override {
    return std::make_shared<Self>(static_cast<const Self&>(*this));
  }
  bool expands() const override { return kHasExpand<Self>; }
};

}  // namespace rlx
