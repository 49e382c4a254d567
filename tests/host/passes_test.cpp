// Passes, text in and text out.
#include "passes/passes.h"

#include <gtest/gtest.h>

#include "passes/pass_order.h"
#include "rlx/graph.h"

namespace rlx {
namespace {

// Compares without the indentation that makes the tests readable.
std::string squeeze(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const size_t first = text.find_first_not_of(' ', at);
    if (first < end) out += text.substr(first, end - first) + "\n";
    at = end + 1;
  }
  return out;
}

void expect_pass(const std::function<Graph(const Graph&)>& pass, const std::string& before,
                 const std::string& after) {
  const Graph result = pass(parse_graph("graph g {\n" + before + "}"));
  verify(result);
  EXPECT_EQ(squeeze(to_text(result)), squeeze("graph g {\n" + after + "}\n"));
}

TEST(RemoveDeadCode, KeepsInputsAndWhatOutputsNeed) {
  expect_pass(remove_dead_code,
              R"g(%x = input : f32[2]
                 %unused = input : f32[3]
                 %w = param : f32[2]
                 %a = neg(%x)
                 %b = exp(%x)
                 output y = %a
              )g",
              R"g(%x = input : f32[2]
                 %unused = input : f32[3]
                 %a = neg(%x) : f32[2]
                 output y = %a
              )g");
}

TEST(InlineCalls, PutsNestedBodiesInPlace) {
  expect_pass(inline_calls,
              R"g(%a = input : f32[n]
                 %c = call(%a) {body=graph outer {
                   %x = input : f32[n]
                   %y = call(%x) {body=graph inner {
                     %x = input : f32[n]
                     %y = relu(%x)
                     output y = %y
                   }}
                   %z = sub(%y, %x)
                   output y = %y
                   output z = %z
                 }}
                 output z = %c:1
              )g",
              R"g(%a = input : f32[n]
                 %c.y.y = relu(%a) : f32[n]
                 %c.z = sub(%c.y.y, %a) : f32[n]
                 output z = %c.z
              )g");
}

TEST(MergeCommonSubexpressions, JoinsEqualNodesAndConstants) {
  expect_pass(merge_common_subexpressions,
              R"g(%x = input : f32[2]
                 %c = constant {value=tensor f32[] (2.0)}
                 %d = constant {value=tensor f32[] fill 2.0}
                 %a = mul(%x, %c)
                 %b = mul(%x, %d)
                 %y = add(%a, %b)
                 output y = %y
              )g",
              R"g(%x = input : f32[2]
                 %c = constant {value=tensor f32[] (2.0)} : f32[]
                 %a = mul(%x, %c) : f32[2]
                 %y = add(%a, %a) : f32[2]
                 output y = %y
              )g");
}

TEST(FoldConstants, ComputesSmallOnesOnly) {
  const auto fold = [](const Graph& g) { return remove_dead_code(fold_constants(g, 4)); };
  expect_pass(fold,
              R"g(%x = input : f32[2]
                 %c = constant {value=tensor f32[2] (1.0,2.0)}
                 %d = mul(%c, 3)
                 %big = constant {value=tensor f32[5] fill 1.0}
                 %e = neg(%big)
                 %y = add(%x, %d)
                 output y = %y
                 output e = %e
              )g",
              R"g(%x = input : f32[2]
                 %d = constant {value=tensor f32[2] (3.0,6.0)} : f32[2]
                 %big = constant {value=tensor f32[5] fill 1.0} : f32[5]
                 %e = neg(%big) : f32[5]
                 %y = add(%x, %d) : f32[2]
                 output y = %y
                 output e = %e
              )g");
}

// The device refuses such a number when it is uploaded; what is made of it must not pass for a result.
TEST(FoldConstants, LeavesNumbersThatTheDeviceCannotHold) {
  const auto folded = [](const std::string& number) {
    return to_text(fold_constants(parse_graph("graph g {\n%c = constant {value=tensor i64[2] (" + number +
                                              ", 4)}\n%y = div(%c, 4)\noutput y = %y\n}"),
                                  4));
  };
  EXPECT_FALSE(folded("2147483647").contains("div(")) << folded("2147483647");
  EXPECT_FALSE(folded("-2147483648").contains("div(")) << folded("-2147483648");
  EXPECT_TRUE(folded("2147483648").contains("div(")) << folded("2147483648");
  EXPECT_TRUE(folded("-2147483649").contains("div(")) << folded("-2147483649");
}

TEST(Canonicalize, DropsViewsThatChangeNothingAndMergesOthers) {
  const auto tidy = [](const Graph& g) { return remove_dead_code(canonicalize(g)); };
  expect_pass(tidy,
              R"g(%x = input : f32[2, 3, 4]
                 %a = transpose(%x) {perm=[0, 2, 1]}
                 %b = transpose(%a) {perm=[0, 2, 1]}
                 %c = reshape(%b) {shape=[6, 4]}
                 %d = reshape(%c) {shape=[24]}
                 %e = slice(%d) {axis=0, start=0, length=24}
                 %f = mul(%e, 1)
                 %g = cast(%f) {to=f32}
                 %h = transpose(%x) {perm=[1, 0, 2]}
                 %i = transpose(%h) {perm=[0, 2, 1]}
                 output g = %g
                 output i = %i
              )g",
              R"g(%x = input : f32[2, 3, 4]
                 %d = reshape(%x) {shape=[24]} : f32[24]
                 %i = transpose(%x) {perm=[1, 2, 0]} : f32[3, 4, 2]
                 output g = %d
                 output i = %i
              )g");
}

TEST(Canonicalize, SplitBecomesNarrows) {
  expect_pass(canonicalize,
              R"g(%x = input : f32[6]
                 %s = split(%x) {axis=0, sizes=[2, 4]}
                 output a = %s
                 output b = %s:1
              )g",
              R"g(%x = input : f32[6]
                 %s = slice(%x) {axis=0, start=0, length=2} : f32[2]
                 %s.1 = slice(%x) {axis=0, start=2, length=4} : f32[4]
                 output a = %s
                 output b = %s.1
              )g");
}

TEST(Canonicalize, AGatherOfOneIndexIsAView) {
  const auto tidy = [](const Graph& g) { return remove_dead_code(canonicalize(g)); };
  expect_pass(tidy,
              R"g(%x = input : f32[6, 5]
                 %i = constant {value=tensor i64[] (2)}
                 %j = constant {value=tensor i64[1, 1] (-1)}
                 %far = constant {value=tensor i64[1] (9)}
                 %a = gather(%x, %i)
                 %b = gather(%x, %j) {axis=1}
                 %c = gather(%x, %far) {axis=-1}
                 output a = %a
                 output b = %b
                 output c = %c
              )g",
              R"g(%x = input : f32[6, 5]
                 %a.part = slice(%x) {axis=0, start=2, length=1} : f32[1, 5]
                 %a = reshape(%a.part) {shape=[5]} : f32[5]
                 %b.part = slice(%x) {axis=1, start=4, length=1} : f32[6, 1]
                 %b = reshape(%b.part) {shape=[6, 1, 1]} : f32[6, 1, 1]
                 %c.part = slice(%x) {axis=1, start=4, length=1} : f32[6, 1]
                 output a = %a
                 output b = %b
                 output c = %c.part
              )g");
  // Several, one that a run decides, and what a state holds before it is written.
  for (const char* body :
       {"%x = input : f32[6, 5]\n%i = constant {value=tensor i64[2] (1, 3)}\n%y = gather(%x, %i)",
        "%x = input : f32[6, 5]\n%i = input : i64[1]\n%y = gather(%x, %i)",
        "%x = state : f32[6, 5]\n%u = input : f32[6, 5]\n"
        "%i = constant {value=tensor i64[1] (1)}\n%y = gather(%x, %i)\n%w = write_state(%x, %u)",
        "%x = input : f32[n, 5]\n%i = constant {value=tensor i64[1] (1)}\n%y = gather(%x, %i)"}) {
    const Graph g = parse_graph(std::string("graph g {\n") + body + "\noutput y = %y\n}");
    EXPECT_TRUE(to_text(canonicalize(g)).contains("gather(")) << to_text(canonicalize(g));
  }
}

TEST(Canonicalize, NumbersHaveNoAxes) {
  const auto tidy = [](const Graph& g) { return remove_dead_code(canonicalize(g)); };
  expect_pass(tidy,
              R"g(%x = input : f32[6]
                 %k = constant {value=tensor f32[1] (3)}
                 %l = constant {value=tensor f32[1, 1] (4)}
                 %a = add(%x, %k)
                 %b = mul(%k, %a)
                 %y = add(%b, %l)
                 output y = %y
              )g",
              R"g(%x = input : f32[6]
                 %l = constant {value=tensor f32[1, 1] (4.0)} : f32[1, 1]
                 %k.number = constant {value=tensor f32[] (3.0)} : f32[]
                 %a = add(%x, %k.number) : f32[6]
                 %b = mul(%k.number, %a) : f32[6]
                 %y = add(%b, %l) : f32[1, 6]
                 output y = %y
              )g");
}

TEST(Canonicalize, ReshapesFollowElementwiseOpsOfProducts) {
  const auto tidy = [](const Graph& g) { return remove_dead_code(canonicalize(g)); };
  expect_pass(tidy,
              R"g(%x = input : f32[6, 4]
                 %w = input : f32[4, 8]
                 %m = matmul(%x, %w)
                 %r = reshape(%m) {shape=[2, 3, 8]}
                 %a = mul(%r, 0.5)
                 %b = tanh(%r)
                 %y = mul(%a, %b)
                 output y = %y
              )g",
              R"g(%x = input : f32[6, 4]
                 %w = input : f32[4, 8]
                 %m = matmul(%x, %w) : f32[6, 8]
                 %constant.4 = constant {value=tensor f32[] fill 0.5} : f32[]
                 %a = mul(%m, %constant.4) : f32[6, 8]
                 %b = tanh(%m) : f32[6, 8]
                 %y = mul(%a, %b) : f32[6, 8]
                 %y.reshape = reshape(%y) {shape=[2, 3, 8]} : f32[2, 3, 8]
                 output y = %y.reshape
              )g");
}

// Nothing made it that an op could join, or something else is in the way.
TEST(Canonicalize, OtherReshapesStayWhereTheyAre) {
  const std::string product = "%x = input : f32[6, 4]\n%w = input : f32[4, 8]\n%m = matmul(%x, %w)\n";
  const std::string graphs[] = {
      "%x = input : f32[6, 4]\n%r = reshape(%x) {shape=[24]}\n%y = tanh(%r)\noutput y = %y",
      product + "%c = input : f32[8]\n%r = reshape(%m) {shape=[2, 3, 8]}\n%y = add(%r, %c)\noutput y = %y",
      // Two shapes that broadcast to one.
      product +
          "%r = reshape(%m) {shape=[48, 1]}\n%s = reshape(%m) {shape=[1, 48]}\n%y = mul(%r, %s)\n"
          "output y = %y",
      // The same shape now, but not before.
      product +
          "%k = slice(%x) {axis=0, start=0, length=4}\n"
          "%o = matmul(%k, %k)\n%q = slice(%m) {axis=0, start=0, length=2}\n%t = tanh(%q)\n"
          "%r = reshape(%t) {shape=[16]}\n%s = reshape(%o) {shape=[16]}\n%y = mul(%r, %s)\noutput y = %y",
  };
  for (const std::string& body : graphs) {
    const Graph g = parse_graph("graph g {\n" + body + "\n}");
    EXPECT_FALSE(to_text(canonicalize(g)).contains(".reshape")) << to_text(g);
  }
}

TEST(FuseElementwise, JoinsChainsAndTreesAndInlinesScalars) {
  const auto fuse = [](const Graph& g) { return fuse_elementwise(g, 7); };
  expect_pass(fuse,
              R"g(%x = input : f32[4, 3]
                 %y = input : f32[3]
                 %a = mul(%x, 0.5)
                 %b = add(%a, %y)
                 %c = tanh(%x)
                 %d = mul(%b, %c)
                 output d = %d
              )g",
              R"g(%x = input : f32[4, 3]
                 %y = input : f32[3]
                 %d = fused_elementwise(%x, %y) {expr="t0=mul($0,0.5); t1=add(t0,$1); t2=tanh($0); mul(t1,t2)"} : f32[4, 3]
                 output d = %d
              )g");
}

TEST(FuseElementwise, TakesAValueThatIsReadTwiceInside) {
  const auto fuse = [](const Graph& g) { return fuse_elementwise(g, 7); };
  expect_pass(fuse,
              R"g(%x = input : f32[4]
                 %a = tanh(%x)
                 %b = sigmoid(%a)
                 %c = mul(%b, %a)
                 output c = %c
              )g",
              R"g(%x = input : f32[4]
                 %c = fused_elementwise(%x) {expr="t0=tanh($0); t1=sigmoid(t0); mul(t1,t0)"} : f32[4]
                 output c = %c
              )g");
}

TEST(FuseElementwise, KeepsWhatOthersNeedAndWhatBroadcasts) {
  const auto fuse = [](const Graph& g) { return fuse_elementwise(g, 7); };
  const std::string graph = R"g(%x = input : f32[4, 3]
                               %y = input : f32[3]
                               %e = exp(%y) : f32[3]
                               %a = add(%x, %e) : f32[4, 3]
                               %b = neg(%a) : f32[4, 3]
                               output a = %a
                               output b = %b
                            )g";
  expect_pass(fuse, graph, graph);
}

TEST(FuseElementwise, StopsAtTheNumberOfInputs) {
  const auto fuse = [](const Graph& g) { return fuse_elementwise(g, 2); };
  expect_pass(fuse,
              R"g(%a = input : f32[3]
                 %b = input : f32[3]
                 %c = input : f32[3]
                 %s = add(%a, %b)
                 %t = add(%s, %c)
                 %u = neg(%t)
                 output u = %u
              )g",
              R"g(%a = input : f32[3]
                 %b = input : f32[3]
                 %c = input : f32[3]
                 %s = add(%a, %b) : f32[3]
                 %u = fused_elementwise(%s, %c) {expr="t0=add($0,$1); neg(t0)"} : f32[3]
                 output u = %u
              )g");
}

TEST(FuseMatmulEpilogue, TakesBiasActivationAndResidual) {
  const auto fuse = [](const Graph& g) { return fuse_epilogue(g, 7); };
  expect_pass(fuse,
              R"g(%x = input : f32[4, 8]
                 %w = param : f32[8, 6]
                 %b = param : f32[6]
                 %r = input : f32[4, 6]
                 %m = matmul(%x, %w)
                 %s = add(%m, %b)
                 %g = gelu(%s)
                 %y = add(%r, %g)
                 output y = %y
              )g",
              R"g(%x = input : f32[4, 8]
                 %w = param : f32[8, 6]
                 %b = param : f32[6]
                 %r = input : f32[4, 6]
                 %y = matmul(%x, %w, %b, %r) {epilogue="t0=add($0,$1); t1=gelu(t0); add($2,t1)"} : f32[4, 6]
                 output y = %y
              )g");
}

TEST(JoinMatmuls, PutsTheWeightsOfOneInputSideBySide) {
  expect_pass(join_products,
              R"g(%x = input : f32[batch, 8]
                 %wq = param : f32[8, 4]
                 %bq = param : f32[4]
                 %wk = param : f32[8, 2]
                 %bk = param : f32[2]
                 %q = matmul(%x, %wq, %bq) {epilogue="add($0,$1)"}
                 %k = matmul(%x, %wk, %bk) {epilogue="add($0,$1)"}
                 output q = %q
                 output k = %k
              )g",
              R"g(%wq = param : f32[8, 4]
                 %bq = param : f32[4]
                 %wk = param : f32[8, 2]
                 %bk = param : f32[2]
                 %x = input : f32[batch, 8]
                 %q.joined_weight = concat(%wq, %wk) {axis=1} : f32[8, 6]
                 %q.joined_weight_1 = concat(%bq, %bk) {axis=0} : f32[6]
                 %q.joined = matmul(%x, %q.joined_weight, %q.joined_weight_1) {epilogue="add($0,$1)"} : f32[batch, 6]
                 %q = slice(%q.joined) {axis=-1, start=0, length=4} : f32[batch, 4]
                 %k = slice(%q.joined) {axis=-1, start=4, length=2} : f32[batch, 2]
                 output q = %q
                 output k = %k
              )g");
}

TEST(FuseAttention, FindsTheWrittenOutForm) {
  expect_pass(fuse_attention,
              R"g(%q = input : f32[b, 2, s, 4]
                 %k = input : f32[b, 2, s, 4]
                 %v = input : f32[b, 2, s, 4]
                 %mask = input : f32[b, 1, 1, s]
                 %kt = transpose(%k) {perm=[0, 1, 3, 2]}
                 %m = matmul(%q, %kt)
                 %c = div(%m, 2)
                 %d = add(%c, %mask)
                 %p = softmax(%d)
                 %y = matmul(%p, %v)
                 output y = %y
              )g",
              R"g(%q = input : f32[b, 2, s, 4]
                 %k = input : f32[b, 2, s, 4]
                 %v = input : f32[b, 2, s, 4]
                 %mask = input : f32[b, 1, 1, s]
                 %y = attention(%q, %k, %v, %mask) {heads=2, scale=0.5, empty_row="nan"} : f32[b, 2, s, 4]
                 output y = %y
              )g");
}

TEST(FuseResidualNorm, KeepsTheSumForOtherReaders) {
  expect_pass(fuse_residual_norm,
              R"g(%x = input : f32[4, 8]
                 %r = input : f32[4, 8]
                 %g = param : f32[8]
                 %b = param : f32[8]
                 %s = add(%x, %r)
                 %n = layer_norm(%s, %g, %b) {eps=0.001}
                 %y = add(%n, %s)
                 %m = rms_norm(%y, %g)
                 output m = %m
              )g",
              R"g(%x = input : f32[4, 8]
                 %r = input : f32[4, 8]
                 %g = param : f32[8]
                 %b = param : f32[8]
                 %n = residual_layer_norm(%x, %r, none, %g, %b) {keep_sum=true, eps=0.001} : f32[4, 8], f32[4, 8]
                 %m = residual_rms_norm(%n, %n:1, none, %g) : f32[4, 8]
                 output m = %m
              )g");
}

TEST(Optimize, AttentionReadsPackedProjectionsUnlessToldNotTo) {
  const Graph g = parse_graph(R"g(graph g {
    %x = input : f32[1, 4, 8]
    %w = param : f32[8, 24]
    %p = matmul(%x, %w)
    %q = slice(%p) {axis=2, start=0, length=8}
    %k = slice(%p) {axis=2, start=8, length=8}
    %v = slice(%p) {axis=2, start=16, length=8}
    %y = attention(%q, %k, %v) {heads=2, layout="bsd"}
    output y = %y
  })g");
  EXPECT_EQ(to_text(optimize(g, {})).find("contiguous"), std::string::npos);
  EXPECT_TRUE(to_text(optimize(g, {.packed_attention = false})).contains("contiguous"));
}

TEST(PackWeights, WritesOutAWeightThatLiesAlongItsBatches) {
  expect_pass([](const Graph& graph) { return pack_weights(graph); },
              R"g(%x = input : f32[5, 3, 8]
                 %w = param : f32[8, 4, 5]
                 %t = transpose(%w) {perm=[2, 0, 1]}
                 %y = matmul(%x, %t)
                 output y = %y
              )g",
              R"g(%x = input : f32[5, 3, 8]
                 %w = param : f32[8, 4, 5]
                 %t = transpose(%w) {perm=[2, 0, 1]} : f32[5, 8, 4]
                 %t.packed = contiguous(%t) : f32[5, 8, 4]
                 %y = matmul(%x, %t.packed) : f32[5, 3, 4]
                 output y = %y
              )g");
  const Graph along_k = parse_graph(R"g(graph g {
    %x = input : f32[3, 8]
    %w = param : f32[4, 8]
    %t = transpose(%w)
    %y = matmul(%x, %t)
    output y = %y
  })g");
  EXPECT_EQ(to_text(pack_weights(along_k)), to_text(along_k));
}

TEST(MaterializeViews, CopiesOnlyWhereStridesCanNotSayIt) {
  expect_pass([](const Graph& g) { return materialize_views(g); },
              R"g(%x = input : f32[2, 3, 4]
                 %t = transpose(%x) {perm=[1, 0, 2]}
                 %r = reshape(%t) {shape=[6, 4]}
                 %n = neg(%t)
                 output r = %r
                 output n = %n
                 output t = %t
              )g",
              R"g(%x = input : f32[2, 3, 4]
                 %t = transpose(%x) {perm=[1, 0, 2]} : f32[3, 2, 4]
                 %t.copy = contiguous(%t) : f32[3, 2, 4]
                 %r = reshape(%t.copy) {shape=[6, 4]} : f32[6, 4]
                 %n = neg(%t) : f32[3, 2, 4]
                 output r = %r
                 output n = %n
                 output t = %t.copy
              )g");
}

TEST(Passes, CapacitiesSettleMinima) {
  const Graph g = parse_graph(R"(graph g {
    symbol n <= 64
    %x = input : f32[n, 2]
    %y = slice(%x) {axis=0, start=0, length=dim(min(100,n))}
    %z = slice(%x) {axis=0, start=0, length=dim(min(3,n))}
    %c = constant {value=tensor bool[] fill 1}
    %b = if(%c, %y) {then=graph a { %y = input : f32[min(100,n), 2] %r = neg(%y) output r = %r },
                     else=graph e { %y = input : f32[min(100,n), 2] output r = %y }}
    output y = %y
    output z = %z
    output b = %b
  })");
  const Graph settled = settle_minima(g);
  const auto shape = [&](const char* name) {
    return settled.node(settled.find(name)).outputs[0].shape.text();
  };
  EXPECT_EQ(shape("y"), "[n, 2]");
  EXPECT_EQ(shape("z"), "[min(3,n), 2]");
  EXPECT_EQ(shape("b"), "[n, 2]");
}

}  // namespace
}  // namespace rlx
