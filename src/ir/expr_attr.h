// A scalar expression as an attribute: the tail of a matmul, a fused element-wise region. It has no types of
// its own; Expr (ops/elementwise/expr.h) has those of an op's inputs.
//
// Text form: "t0=mul($0,$1); t1=add(t0,0.5); gelu(t1)". $n is input n, tn the n-th step, the last step the
// result. Functions are those of ops/elementwise/scalar.cpp, and casts: cast_f16($0).
#pragma once

#include <bit>
#include <compare>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "rlx/dtype.h"

namespace rlx {

struct ExprArg {
  enum class Kind { input, step, number } kind = Kind::input;
  int32_t index = 0;
  double number = 0;

  // By bits: functions tell 0 from -0, and a NaN equals itself.
  auto key() const { return std::tuple(kind, index, std::bit_cast<uint64_t>(number)); }
  friend bool operator==(const ExprArg& a, const ExprArg& b) { return a.key() == b.key(); }
  friend auto operator<=>(const ExprArg& a, const ExprArg& b) { return a.key() <=> b.key(); }
};

// Immutable; copies share the steps.
class ExprAttr {
 public:
  struct Step {
    std::string function;   // "": a cast
    DType to = DType::f32;  // what a cast makes
    std::vector<ExprArg> args;
    friend auto operator<=>(const Step&, const Step&) = default;
  };

  ExprAttr() = default;  // no steps
  explicit ExprAttr(std::vector<Step> steps);
  // An empty text has no steps. An error names the place; whether its functions exist is known to `typed`
  // alone.
  static ExprAttr parse(std::string_view text);

  bool empty() const { return !steps_; }
  const std::vector<Step>& steps() const;
  std::string text() const;
  uint64_t hash() const;

  friend bool operator==(const ExprAttr& a, const ExprAttr& b) { return std::is_eq(a <=> b); }
  friend std::strong_ordering operator<=>(const ExprAttr& a, const ExprAttr& b) {
    if (a.steps_ == b.steps_) return std::strong_ordering::equal;
    return a.steps() <=> b.steps();
  }

 private:
  std::shared_ptr<const std::vector<Step>> steps_;  // null if there are none
};

}  // namespace rlx
