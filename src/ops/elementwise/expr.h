// An expression over scalars of known types: what a fused element-wise region, or the tail of a matmul,
// computes for one element. Ops keep it without types (ir/expr_attr.h).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/expr_attr.h"
#include "ir/reference.h"
#include "kernels/dispatch.h"
#include "ops/elementwise/scalar.h"

namespace rlx {

struct Expr {
  using Arg = ExprArg;
  struct Step {
    const ScalarFn* fn = nullptr;  // null: a cast
    DType type = DType::f32;       // of the result
    std::vector<Arg> args;
  };

  std::vector<DType> inputs;
  std::vector<Step> steps;

  DType result_type() const { return steps.empty() ? inputs.at(0) : steps.back().type; }
  DType arg_type(const Step& step, size_t arg) const;

  // Adds a step and returns it as an argument for later ones. The type of the result is inferred; an error
  // when the function is not defined for the types.
  Arg apply(const ScalarFn& fn, std::vector<Arg> args);
  Arg cast(Arg value, DType to);
  static Arg input(int32_t index) { return {Arg::Kind::input, index, 0}; }
  static Arg constant(double number) { return {Arg::Kind::number, 0, number}; }

  ExprAttr untyped() const;
  static Expr parse(std::string_view text, std::vector<DType> inputs);

  // The tolerance of the composition: the steps' errors added up, plus one unit of f16 or bf16 for each
  // rounding to it on the way.
  double ulps() const;
  int64_t cost() const;  // the steps' costs added up
  // Whether a step may give an i64 that needs more than 32 bits. Its code then calls left_range(), and the
  // kernel has Lowering::overflow as an operand.
  bool may_overflow() const;

  // One value on the host; the type determines which member is used.
  struct Scalar {
    double real = 0;
    int64_t integer = 0;
    std::complex<double> complex = 0;
  };
  Scalar evaluate(const Scalar* values) const;
};

// For inputs of these types; an error if there are fewer than it uses, if there is no such function, or if a
// function or a number does not fit a type.
Expr typed(const ExprAttr& attr, std::vector<DType> inputs);

// An expression as WGSL. Its numbers are passed as parameters, so that a new number is not a new shader (and
// because a constant infinity does not compile).
struct ExprCode {
  std::string statements;           // let t0 = ...;
  std::string result;               // the expression that names the result
  std::vector<std::string> params;  // members for struct Params: "c0: f32"
  std::vector<uint32_t> words;      // their values
};

// `inputs` are WGSL expressions of the inputs' values; names of steps begin with `prefix`, parameters with
// "c", numbered from `first_param` on.
ExprCode generate(const Expr& expr, const std::vector<std::string>& inputs, const std::string& prefix = "t",
                  size_t first_param = 0);

// WGSL for an f32 value rounded to the type, if that is f16 or bf16; else the value.
std::string rounded(const std::string& value, DType type);

// Evaluates over whole tensors with broadcasting; `r.out()` has the broadcast shape.
void reference(const Expr& expr, RefContext& r);

}  // namespace rlx
