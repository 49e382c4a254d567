// Scalar expressions as attributes: their text, when they are equal, and what is checked when they get types.
#include "ops/elementwise/expr.h"

#include <gtest/gtest.h>

#include "base/format.h"
#include "ops/linear_algebra/matmul.h"
#include "passes/pass_order.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "tests/support/message.h"

namespace rlx::testing {
namespace {

TEST(Expressions, TheTextComesBack) {
  for (const char* text :
       {"", "neg($0)", "t0=mul($0,$1); t1=add(t0,0.5); gelu(t1)", "t0=cast_f16($0); where($1,t0,-inf)",
        "t0=add($0,-0); t1=mul(t0,nan); sub(t1,1e-40)"}) {
    const ExprAttr e = ExprAttr::parse(text);
    EXPECT_EQ(e.text(), text);
    EXPECT_EQ(e, ExprAttr::parse(e.text()));
    EXPECT_EQ(e.hash(), ExprAttr::parse(e.text()).hash());
  }
  EXPECT_EQ(ExprAttr::parse(" t0 = add( $0 , 1.50 ) ;neg(t0); ").text(), "t0=add($0,1.5); neg(t0)");
}

TEST(Expressions, AreComparedByWhatTheyCompute) {
  const ExprAttr e = ExprAttr::parse("t0=add($0,1); neg(t0)");
  EXPECT_EQ(e, ExprAttr::parse("t0 = add($0, 1.0); neg(t0)"));
  EXPECT_EQ(e.hash(), ExprAttr::parse("t0 = add($0, 1.0); neg(t0)").hash());
  for (const char* other : {"", "add($0,1)", "t0=add($0,1); neg($0)", "t0=add($1,1); neg(t0)",
                            "t0=sub($0,1); neg(t0)", "t0=add($0,2); neg(t0)"}) {
    EXPECT_NE(e, ExprAttr::parse(other));
  }
  EXPECT_NE(ExprAttr::parse("cast_f16($0)"), ExprAttr::parse("cast_bf16($0)"));
  // 1 / 0 and 1 / -0 are different numbers.
  EXPECT_NE(ExprAttr::parse("div($0,0)"), ExprAttr::parse("div($0,-0)"));
  MatMul a, b;
  a.epilogue = ExprAttr::parse("div($0,0)");
  b.epilogue = ExprAttr::parse("div($0,-0)");
  EXPECT_FALSE(same(a, b));
  b.epilogue = ExprAttr::parse("div($0,0.0)");
  EXPECT_TRUE(same(a, b));
  EXPECT_EQ(hash_of(a), hash_of(b));
}

TEST(Expressions, TypesAreGivenWithoutText) {
  const Expr e = Expr::parse("t0=cast_f32($0); t1=less(t0,$1); where(t1,t0,2)", {DType::i32, DType::f32});
  EXPECT_EQ(e.steps[0].type, DType::f32);
  EXPECT_EQ(e.steps[1].type, DType::bool_);
  EXPECT_EQ(e.result_type(), DType::f32);
  EXPECT_EQ(e.untyped().text(), "t0=cast_f32($0); t1=less(t0,$1); where(t1,t0,2)");
}

// The text form's error for such a node.
std::string said(std::string_view type, std::string_view call) {
  return message(
      [&] { parse_graph(formatted("graph g {{\n%x = input : {}[4, 4]\n%y = {}\n}}", type, call)); });
}

TEST(Expressions, MistakesNameTheNode) {
  EXPECT_EQ(said("f32", "fused_elementwise(%x) {expr=\"neg($0\"}"),
            "line 3: node 'y': 'neg($0' is not an expression (stopped at character 7)");
  EXPECT_EQ(said("f32", "fused_elementwise(%x) {expr=\"\"}"),
            "line 3: node 'y': fused_elementwise: the expression is empty");
  EXPECT_EQ(said("f32", "matmul(%x, %x) {epilogue=\"twice($0)\"}"),
            "line 3: node 'y': the expression 'twice($0)' calls 'twice', which is not a scalar function");
  EXPECT_EQ(said("f32", "matmul(%x, %x) {epilogue=\"add($0,$1)\"}"),
            "line 3: node 'y': the expression 'add($0,$1)' uses input 1, but there are 1");
  EXPECT_EQ(said("f32", "matmul(%x, %x) {epilogue=\"add($0,1,2,3)\"}"),
            "line 3: node 'y': add: takes 2 inputs, not 4");
  EXPECT_EQ(said("f32", "matmul(%x, %x) {epilogue=3}"),
            "line 3: node 'y': the attribute epilogue takes a value of the kind 'expression', not 3");
  EXPECT_SAYS(
      [] {
        Graph g;
        const Value x = g.input("x", DType::f32, {4, 4});
        return matmul_bias_act(x, x, x, "twice");
      }(),
      "matmul_bias_act: 'twice' is not an element-wise function");
}

TEST(Expressions, NumbersMustFitTheirType) {
  const auto fused = [](std::string_view type, std::string_view expr) {
    return said(type, formatted("fused_elementwise(%x) {{expr=\"{}\"}}", expr));
  };
  EXPECT_EQ(fused("u8", "add($0,300)"),
            "line 3: node 'y': the number 300 does not fit in u8, which goes from 0 to 255");
  EXPECT_EQ(fused("i32", "mul($0,0.5)"),
            "line 3: node 'y': the number 0.5 is not whole, but its type is i32");
  EXPECT_EQ(fused("f16", "t0=neg($0); add(t0,1e6)"),
            "line 3: node 'y': the number 1e+06 does not fit in f16");
  EXPECT_EQ(fused("f32", "add($0,1e39)"), "line 3: node 'y': the number 1e+39 does not fit in f32");
  EXPECT_EQ(fused("i32", "where(2,$0,1)"),
            "line 3: node 'y': the number 2 does not fit in bool, which goes from 0 to 1");
  EXPECT_EQ(fused("f16", "t0=mul($0,-inf); t1=add(t0,nan); add(t1,65504)"), "no error");
}

TEST(Expressions, AConditionCanBeANumber) {
  Graph g;
  const Value x = g.input("x", DType::f32, {4});
  g.output("y", neg(where(g.scalar(DType::bool_, 1), x, exp(x))));
  const std::string text = to_text(optimize(g, {}));
  EXPECT_TRUE(text.contains("{expr=\"t0=exp($0); t1=where(1,$0,t0); neg(t1)\"}")) << text;
}

}  // namespace
}  // namespace rlx::testing
