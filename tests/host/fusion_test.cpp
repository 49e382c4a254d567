// Graphs that match a fusion and graphs that nearly do. Whatever a pass makes of them computes the same, with
// NaN and infinities in every input; whether it fuses is stated for each.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/reference.h"
#include "ir/states.h"
#include "passes/passes.h"
#include "plan/program.h"
#include "tests/support/sample.h"

namespace rlx::testing {
namespace {

struct Case {
  std::string_view what;
  std::string body;
  bool fuses;
};

Graph graph_of(const std::string& body) { return parse_graph("graph g {\n" + body + "\n}"); }

NamedTensors random_leaves(const Graph& graph) {
  std::mt19937 random(7);
  NamedTensors leaves;
  for (const Node& n : graph.nodes()) {
    if (!n.op->is(LeafKind::input) && !n.op->is(LeafKind::param)) continue;
    leaves[n.name] = random_tensor(n.outputs[0].dtype, n.outputs[0].shape.values(), -2, 2, random);
  }
  return leaves;
}

void expect_equal(const RefTensor& got, const RefTensor& want) {
  ASSERT_EQ(got.dims, want.dims);
  EXPECT_EQ(got.dtype, want.dtype);
  EXPECT_EQ(got.ints, want.ints);
  for (size_t i = 0; i < want.real.size(); ++i) {
    const double g = got.real[i];
    const double w = want.real[i];
    const bool same = std::isnan(w) ? std::isnan(g) : g == w || std::fabs(g - w) <= 1e-9 * (1 + std::fabs(w));
    ASSERT_TRUE(same) << "element " << i << " is " << g << " instead of " << w;
  }
}

// The same values from both graphs: random ones, and again with the first and the last number of each input
// replaced by a value that spreads.
void expect_same_values(const Graph& got, const Graph& want) {
  const auto compare_all = [&](const NamedTensors& leaves) {
    const auto wanted = run_reference(want, leaves);
    const auto found = run_reference(got, leaves);
    for (const auto& [name, value] : wanted) expect_equal(found.at(name), value);
  };
  const NamedTensors plain = random_leaves(want);
  compare_all(plain);
  const double inf = std::numeric_limits<double>::infinity();
  for (const auto& [name, tensor] : plain) {
    if (!is_float(tensor.dtype()) || tensor.elements() == 0) continue;
    for (const double bad : {inf, -inf, std::nan("")}) {
      for (const bool whole : {false, true}) {
        SCOPED_TRACE(name + " holds " + std::to_string(bad));
        std::vector<double> values = tensor.doubles();
        if (whole) {
          std::ranges::fill(values, bad);
        } else {
          values.back() = bad;
        }
        NamedTensors leaves = plain;
        leaves[name] = Tensor::from_doubles(tensor.dtype(), tensor.shape(), values);
        compare_all(leaves);
      }
    }
  }
  for (const auto& [name, tensor] : plain) {
    if (tensor.dtype() != DType::bool_) continue;
    NamedTensors leaves = plain;
    leaves[name] = Tensor::from_ints(DType::bool_, tensor.shape(),
                                     std::vector<int64_t>(static_cast<size_t>(tensor.elements()), 0));
    compare_all(leaves);
  }
}

void expect_cases(const std::function<Graph(const Graph&)>& pass, std::string_view sign,
                  const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    SCOPED_TRACE(std::string(c.what) + "\n" + c.body);
    const Graph before = graph_of(c.body);
    const Graph after = pass(before);
    verify(after);
    EXPECT_EQ(print(after).contains(sign), c.fuses) << print(after);
    if (before.symbols().empty()) expect_same_values(after, before);
    verify(optimize(before, {}));
    if (before.symbols().empty()) expect_same_values(optimize(before, {}), before);
  }
}

// --- Attention ---

struct AttentionText {
  std::string q = "f32[2, 3, 5, 4]";
  std::string k = "f32[2, 3, 7, 4]";
  std::string v = "f32[2, 3, 7, 6]";
  std::string transpose = "transpose(%k) {perm=[0, 1, 3, 2]}";
  std::string more = "";            // inputs and constants
  std::string scores = "";          // nodes from %s to %d
  std::string softmax = "softmax";  // of %d
  std::string end = "";

  std::string text() const {
    return "%q = input : " + q + "\n%k = input : " + k + "\n%v = input : " + v + "\n" + more +
           "\n%kt = " + transpose + "\n%s = matmul(%q, %kt)\n" + scores + "\n%p = " + softmax + "(" +
           (scores.empty() ? "%s" : "%d") + ")" + "\n%y = matmul(%p, %v)\noutput y = %y\n" + end;
  }
};

std::string with_scores(const std::string& more, const std::string& scores) {
  return AttentionText{.more = more, .scores = scores}.text();
}
std::string number(const std::string& value) {
  return "%c = constant {value=tensor f32[] fill " + value + "}";
}
std::string masked(const std::string& type) {
  return with_scores("%m = input : " + type, type.starts_with("bool")
                                                 ? "%c = constant {value=tensor f32[] fill -1e9}\n"
                                                   "%d = where(%m, %s, %c)"
                                                 : "%d = add(%s, %m)");
}

TEST(FuseAttention, TakesScalesAndMasksThatTheOpHas) {
  expect_cases(
      fuse_attention, "= attention(",
      {
          {"plain", AttentionText{}.text(), true},
          {"keys already transposed", AttentionText{.k = "f32[2, 3, 4, 7]", .transpose = "neg(%k)"}.text(),
           true},
          {"another transpose",
           AttentionText{.k = "f32[2, 7, 3, 4]", .transpose = "transpose(%k) {perm=[0, 2, 3, 1]}"}.text(),
           true},
          {"scale", with_scores(number("0.3"), "%d = mul(%s, %c)"), true},
          {"scale on the left", with_scores(number("0.3"), "%d = mul(%c, %s)"), true},
          {"divisor", with_scores(number("3"), "%d = div(%s, %c)"), true},
          {"negative scale", with_scores(number("-0.5"), "%d = mul(%s, %c)"), true},
          {"scale and mask",
           with_scores("%m = input : f32[5, 7]\n" + number("0.5"), "%e = mul(%s, %c)\n%d = add(%m, %e)"),
           true},
          {"the mask is a product too",
           with_scores("%m = input : f32[2, 3, 5, 7]\n" + number("0.5"),
                       "%e = mul(%m, %c)\n%d = add(%e, %s)"),
           true},
          {"mask of rank 0", masked("f32[]"), true},
          {"mask of rank 1", masked("f32[7]"), true},
          {"mask of rank 2", masked("f32[5, 1]"), true},
          {"mask of rank 3", masked("f32[3, 5, 7]"), true},
          {"mask of rank 4", masked("f32[2, 1, 1, 7]"), true},
          {"where of rank 0", masked("bool[]"), true},
          {"where of rank 1", masked("bool[7]"), true},
          {"where of rank 2", masked("bool[5, 7]"), true},
          {"where of rank 4", masked("bool[2, 1, 5, 1]"), true},
          {"where with -inf",
           with_scores("%m = input : bool[5, 7]\n" + number("-inf"), "%d = where(%m, %s, %c)"), true},
          {"where with 3", with_scores("%m = input : bool[5, 7]\n" + number("3"), "%d = where(%m, %s, %c)"),
           true},
          {"f16",
           AttentionText{.q = "f16[2, 3, 5, 4]", .k = "f16[2, 3, 7, 4]", .v = "f16[2, 3, 7, 6]"}.text(),
           true},
          {"bf16",
           AttentionText{.q = "bf16[2, 3, 5, 4]", .k = "bf16[2, 3, 7, 4]", .v = "bf16[2, 3, 7, 6]"}.text(),
           true},
          {"no keys", AttentionText{.k = "f32[2, 3, 0, 4]", .v = "f32[2, 3, 0, 6]"}.text(), true},
          {"heads of nothing", AttentionText{.q = "f32[2, 3, 5, 0]", .k = "f32[2, 3, 7, 0]"}.text(), true},
          {"symbols",
           AttentionText{.q = "f32[b, 3, s, 4]", .k = "f32[b, 3, t, 4]", .v = "f32[b, 3, t, 6]"}.text(),
           true},
      });
}

TEST(FuseAttention, LeavesWhatOnlyLooksLikeIt) {
  const auto shapes = [](std::string q, std::string k, std::string v, std::string transpose) {
    return AttentionText{
        .q = std::move(q), .k = std::move(k), .v = std::move(v), .transpose = std::move(transpose)}
        .text();
  };
  const std::string last_two = "transpose(%k) {perm=[0, 1, 3, 2]}";
  const std::string mask = "%m = input : bool[5, 7]\n";
  expect_cases(
      fuse_attention, "= attention(",
      {
          {"log_softmax", AttentionText{.softmax = "log_softmax"}.text(), false},
          {"another axis",
           "%q = input : f32[2, 3, 5, 4]\n%k = input : f32[2, 3, 4, 5]\n"
           "%v = input : f32[2, 3, 5, 6]\n%s = matmul(%q, %k)\n%p = softmax(%s) {axis=2}\n"
           "%y = matmul(%p, %v)\noutput y = %y",
           false},
          {"keys of rank 2", shapes("f32[2, 3, 5, 4]", "f32[7, 4]", "f32[2, 3, 7, 6]", "transpose(%k)"),
           false},
          {"keys of rank 3",
           shapes("f32[2, 3, 5, 4]", "f32[3, 7, 4]", "f32[2, 3, 7, 6]", "transpose(%k) {perm=[0, 2, 1]}"),
           false},
          {"keys of one batch", shapes("f32[2, 3, 5, 4]", "f32[1, 3, 7, 4]", "f32[2, 3, 7, 6]", last_two),
           false},
          {"keys of one head", shapes("f32[2, 3, 5, 4]", "f32[2, 1, 7, 4]", "f32[2, 3, 7, 6]", last_two),
           false},
          {"queries of one head", shapes("f32[2, 1, 5, 4]", "f32[2, 3, 7, 4]", "f32[2, 3, 7, 6]", last_two),
           false},
          {"queries of rank 3", shapes("f32[3, 5, 4]", "f32[2, 3, 7, 4]", "f32[2, 3, 7, 6]", last_two),
           false},
          {"values of one head", shapes("f32[2, 3, 5, 4]", "f32[2, 3, 7, 4]", "f32[2, 1, 7, 6]", last_two),
           false},
          {"values of more batches",
           shapes("f32[1, 3, 5, 4]", "f32[1, 3, 7, 4]", "f32[2, 3, 7, 6]", last_two), false},
          {"values of rank 2", shapes("f32[2, 3, 5, 4]", "f32[2, 3, 7, 4]", "f32[7, 6]", last_two), false},
          {"a vector of values", shapes("f32[2, 3, 5, 4]", "f32[2, 3, 7, 4]", "f32[7]", last_two), false},
          {"no heads", shapes("f32[2, 0, 5, 4]", "f32[2, 0, 7, 4]", "f32[2, 0, 7, 6]", last_two), false},
          {"a symbol of heads", shapes("f32[2, h, 5, 4]", "f32[2, h, 7, 4]", "f32[2, h, 7, 6]", last_two),
           false},
          {"an added mask that enlarges",
           AttentionText{.q = "f32[1, 3, 5, 4]",
                         .k = "f32[1, 3, 7, 4]",
                         .v = "f32[1, 3, 7, 6]",
                         .more = "%m = input : f32[2, 1, 5, 7]",
                         .scores = "%d = add(%s, %m)"}
               .text(),
           false},
          {"a where that enlarges",
           AttentionText{.q = "f32[1, 3, 5, 4]",
                         .k = "f32[1, 3, 7, 4]",
                         .v = "f32[1, 3, 7, 6]",
                         .more = "%m = input : bool[2, 1, 5, 7]\n" + number("-1e9"),
                         .scores = "%d = where(%m, %s, %c)"}
               .text(),
           false},
          {"where with NaN", with_scores(mask + number("nan"), "%d = where(%m, %s, %c)"), false},
          {"where with infinity", with_scores(mask + number("inf"), "%d = where(%m, %s, %c)"), false},
          {"where the other way", with_scores(mask + number("-1e9"), "%d = where(%m, %c, %s)"), false},
          {"where with a tensor", with_scores(mask + "%c = input : f32[7]", "%d = where(%m, %s, %c)"), false},
          {"mask before scale",
           with_scores("%m = input : f32[5, 7]\n" + number("0.5"), "%e = add(%s, %m)\n%d = mul(%e, %c)"),
           false},
          {"scale 0", with_scores(number("0"), "%d = mul(%s, %c)"), false},
          {"divisor 0", with_scores(number("0"), "%d = div(%s, %c)"), false},
          {"divisor infinity", with_scores(number("inf"), "%d = div(%s, %c)"), false},
          {"scale infinity", with_scores(number("inf"), "%d = mul(%s, %c)"), false},
          {"a divisor whose inverse is too large", with_scores(number("1e-40"), "%d = div(%s, %c)"), false},
          {"a number divided", with_scores(number("2"), "%d = div(%c, %s)"), false},
          {"a vector of scales", with_scores("%c = input : f32[7]", "%d = mul(%s, %c)"), false},
          {"scores are an output", AttentionText{.end = "output s = %s"}.text(), false},
          {"weights are an output", AttentionText{.end = "output p = %p"}.text(), false},
          {"scores are read elsewhere", AttentionText{.end = "%n = neg(%s)\noutput n = %n"}.text(), false},
          {"scores are their own mask", with_scores("", "%d = add(%s, %s)"), false},
          {"the scaled scores are read twice",
           AttentionText{
               .more = number("0.5"), .scores = "%d = mul(%s, %c)", .end = "%n = neg(%d)\noutput n = %n"}
               .text(),
           false},
      });
}

TEST(AttentionLayout, TakesHeadsWhereTheyLie) {
  const auto around = [](const std::string& perm, const std::string& rest) {
    return "%a = input : f32[2, 5, 3, 4]\n%b = input : f32[2, 7, 3, 4]\n%v = input : f32[2, 3, 7, 4]\n"
           "%m = input : f32[5, 7]\n%q = transpose(%a) {perm=[0, 2, 1, 3]}\n"
           "%k = transpose(%b) {perm=[0, 2, 1, 3]}\n%t = attention(%q, %k, %v, %m)\n%y = transpose(%t) "
           "{perm=" +
           perm + "}\noutput y = %y\n" + rest;
  };
  expect_cases(attention_layout, "layout=\"bshd\"",
               {
                   {"between transposes", around("[0, 2, 1, 3]", ""), true},
                   {"another transpose", around("[0, 2, 3, 1]", ""), false},
                   {"read without the transpose", around("[0, 2, 1, 3]", "output t = %t"), false},
               });
}

TEST(FuseAttention, KeepsTheNumberOfAMask) {
  const std::string text = print(fuse_attention(graph_of(masked("bool[5, 7]"))));
  EXPECT_TRUE(text.contains("{heads=3, scale=1.0, masked_score=-1e+09, empty_row=\"nan\"}")) << text;
  expect_same_values(parse_graph(text), graph_of(masked("bool[5, 7]")));
}

// --- Epilogues of products ---

std::string product(const std::string& rest) {
  return "%a = input : f32[4, 8]\n%b = param : f32[8, 6]\n%m = matmul(%a, %b)\n" + rest;
}

TEST(FuseMatmulEpilogue, TakesWhatHasTheShapeOfTheProduct) {
  const auto fuse = [](const Graph& g) { return fuse_epilogue(g, 7); };
  expect_cases(
      fuse, "epilogue=",
      {
          {"bias", product("%c = param : f32[6]\n%y = add(%m, %c)\noutput y = %y"), true},
          {"product on the right", product("%c = input : f32[4, 1]\n%y = sub(%c, %m)\noutput y = %y"), true},
          {"cast", product("%y = cast(%m) {to=f16}\noutput y = %y"), true},
          {"where",
           product("%c = input : bool[6]\n%d = input : f32[]\n%y = where(%c, %d, %m)\noutput y = %y"), true},
          {"the bias is a factor of the product",
           "%a = input : f32[4, 4]\n%b = param : f32[4, 4]\n%m = matmul(%a, %b)\n%y = add(%m, %a)\noutput y "
           "= %y",
           true},
          {"a vector times a matrix",
           "%a = input : f32[8]\n%b = param : f32[8, 6]\n%c = param : f32[6]\n"
           "%m = matmul(%a, %b)\n%y = add(%m, %c)\noutput y = %y",
           true},
          {"a matrix times a vector",
           "%a = input : f32[2, 4, 8]\n%b = param : f32[8]\n%c = input : f32[2, 1]\n"
           "%m = matmul(%a, %b)\n%y = mul(%m, %c)\noutput y = %y",
           true},
          {"two vectors",
           "%a = input : f32[8]\n%b = param : f32[8]\n%m = matmul(%a, %b)\n%y = exp(%m)\noutput y = %y",
           true},
          {"batches",
           "%a = input : f16[2, 1, 4, 8]\n%b = input : f16[3, 8, 6]\n%c = param : f16[3, 1, 6]\n"
           "%m = matmul(%a, %b)\n%y = add(%c, %m)\noutput y = %y",
           true},
          {"the product is an output", product("%y = neg(%m)\noutput y = %y\noutput m = %m"), false},
          {"the product is read twice", product("%y = mul(%m, %m)\noutput y = %y"), false},
          {"the product is enlarged", product("%c = input : f32[2, 1, 6]\n%y = add(%m, %c)\noutput y = %y"),
           false},
          {"the product gets an axis", product("%c = input : f32[1, 4, 6]\n%y = add(%m, %c)\noutput y = %y"),
           false},
          {"a comparison", product("%c = input : f32[6]\n%y = less(%m, %c)\noutput y = %y"), false},
          {"a cast to integers", product("%y = cast(%m) {to=i32}\noutput y = %y"), false},
          {"integers",
           "%a = input : i32[4, 8]\n%b = input : i32[8, 6]\n%m = matmul(%a, %b)\n%y = neg(%m)\noutput y = %y",
           false},
          {"a product of weights",
           "%a = param : f32[4, 8]\n%b = param : f32[8, 6]\n%c = input : f32[6]\n"
           "%m = matmul(%a, %b)\n%y = add(%m, %c)\noutput y = %y",
           false},
      });
}

TEST(FuseMatmulEpilogue, StopsAtTheNumberOfInputs) {
  const std::string body = product(
      "%c = input : f32[6]\n%d = add(%m, %c)\n%e = input : f32[4, 6]\n%y = mul(%d, %e)\n"
      "output y = %y");
  EXPECT_TRUE(print(fuse_epilogue(graph_of(body), 4)).contains("mul(t0,$2)"));
  EXPECT_TRUE(print(fuse_epilogue(graph_of(body), 3)).contains("%y = mul(%d, %e)"));
}

// A convolution %m without a bias, and what follows it.
std::string convolution(const std::string& rest) {
  return "%x = input : f32[2, 3, 5, 4]\n%w = param : f32[6, 3, 3, 3]\n"
         "%m = conv(%x, %w) {pads=[1, 1, 1, 1]}\n" +
         rest;
}
// The same with a bias.
std::string biased(const std::string& rest) {
  return "%x = input : f32[2, 3, 5, 4]\n%w = param : f32[6, 3, 3, 3]\n%b = param : f32[6]\n"
         "%m = conv(%x, %w, %b) {pads=[1, 1, 1, 1]}\n" +
         rest;
}

TEST(FuseConvEpilogue, TakesWhatHasTheShapeOfTheResult) {
  const auto fuse = [](const Graph& g) { return fuse_epilogue(g, 7); };
  expect_cases(
      fuse, "epilogue=",
      {
          {"an activation", convolution("%y = relu(%m)\noutput y = %y"), true},
          {"an activation after the bias", biased("%y = relu(%m)\noutput y = %y"), true},
          {"a factor for each filter",
           convolution("%c = param : f32[6, 1, 1]\n%y = mul(%m, %c)\noutput y = %y"), true},
          {"a factor for each column", biased("%c = param : f32[4]\n%y = mul(%m, %c)\noutput y = %y"), true},
          {"a residual on the left", biased("%r = input : f32[2, 6, 5, 4]\n%y = sub(%r, %m)\noutput y = %y"),
           true},
          {"a residual of one image",
           convolution("%r = input : f32[6, 5, 4]\n%a = relu(%m)\n%y = add(%a, %r)\noutput y = %y"), true},
          {"its own input",
           "%x = input : f32[2, 3, 5]\n%w = param : f32[3, 3, 1]\n%m = conv(%x, %w)\n%y = add(%m, %x)\n"
           "output y = %y",
           true},
          {"its own bias",
           "%x = input : f32[2, 3, 5, 4]\n%w = param : f32[4, 3, 3, 3]\n%b = param : f32[4]\n"
           "%m = conv(%x, %w, %b) {pads=[1, 1, 1, 1]}\n%y = mul(%m, %b)\noutput y = %y",
           true},
          {"channels last",
           "%x = input : f32[2, 5, 4, 3]\n%w = param : f32[6, 3, 3, 3]\n%b = param : f32[6]\n"
           "%m = conv(%x, %w) {layout=\"channels_last\"}\n%y = add(%m, %b)\noutput y = %y",
           true},
          {"half precision",
           "%x = input : f16[1, 2, 5]\n%w = param : f16[3, 2, 3]\n%b = param : f16[3]\n"
           "%m = conv(%x, %w, %b)\n%y = gelu(%m)\noutput y = %y",
           true},
          {"the result is an output", convolution("%y = relu(%m)\noutput y = %y\noutput m = %m"), false},
          {"the result is read twice", convolution("%y = mul(%m, %m)\noutput y = %y"), false},
          {"another batch",
           "%x = input : f32[1, 3, 5]\n%w = param : f32[6, 3, 3]\n%m = conv(%x, %w)\n"
           "%r = input : f32[2, 6, 3]\n%y = add(%m, %r)\noutput y = %y",
           false},
          {"another axis", convolution("%r = input : f32[1, 2, 6, 5, 4]\n%y = add(%m, %r)\noutput y = %y"),
           false},
          {"a view in between",
           convolution("%t = transpose(%m) {perm=[0, 2, 3, 1]}\n%y = relu(%t)\noutput y = %y"), false},
          {"a sum over pixels", convolution("%y = sum(%m) {axes=[2, 3]}\noutput y = %y"), false},
          {"a comparison", convolution("%c = input : f32[4]\n%y = less(%m, %c)\noutput y = %y"), false},
          {"a convolution of weights",
           "%x = param : f32[1, 3, 5]\n%w = param : f32[6, 3, 3]\n%c = input : f32[6, 1]\n"
           "%m = conv(%x, %w)\n%y = add(%m, %c)\noutput y = %y",
           false},
      });
}

// What comes after the inputs of its own stays there, whether there is a bias or not.
TEST(FuseConvEpilogue, AnAbsentBiasStaysAbsent) {
  const auto fused = [](const std::string& body) { return print(fuse_epilogue(graph_of(body), 7)); };
  const std::string residual = "%r = input : f32[2, 6, 5, 4]\n%y = add(%m, %r)\noutput y = %y";
  EXPECT_TRUE(fused(convolution(residual)).contains("conv(%x, %w, none, %r)"))
      << fused(convolution(residual));
  EXPECT_TRUE(fused(biased(residual)).contains("conv(%x, %w, %b, %r)")) << fused(biased(residual));
  const std::string relu = fused(convolution("%y = relu(%m)\noutput y = %y"));
  EXPECT_TRUE(relu.contains("conv(%x, %w) {")) << relu;
  // Again, on what was fused before.
  const std::string again = fused(
      "%x = input : f32[1, 2, 5]\n%w = param : f32[3, 2, 3]\n%r = input : f32[3, 3]\n%s = input : f32[3]\n"
      "%m = conv(%x, %w, none, %r) {epilogue=\"add($0,$1)\"}\n%y = mul(%m, %s)\noutput y = %y");
  EXPECT_TRUE(again.contains("conv(%x, %w, none, %r, %s) {epilogue=\"t0=add($0,$1); mul(t0,$2)\"}")) << again;
}

TEST(FuseConvEpilogue, StopsAtTheNumberOfInputs) {
  const std::string body = biased(
      "%c = input : f32[6, 1, 1]\n%d = add(%m, %c)\n%r = input : f32[2, 6, 5, 4]\n%y = mul(%d, %r)\n"
      "output y = %y");
  EXPECT_TRUE(print(fuse_epilogue(graph_of(body), 5)).contains("mul(t0,$2)"));
  EXPECT_TRUE(print(fuse_epilogue(graph_of(body), 4)).contains("%y = mul(%d, %r)"));
}

// --- Norms of sums ---

std::string normed(const std::string& rest) {
  return "%x = input : f32[4, 8]\n%r = input : f32[4, 8]\n%g = param : f32[8]\n%s = add(%x, %r)\n" + rest;
}

TEST(FuseDiamonds, TakesWhatIsComputedFromOneValue) {
  const std::string tanh_gelu =
      "%aa = mul(%m, 0.5)\n%bb = pow(%m, 3)\n%cc = mul(%bb, 0.044715)\n%dd = add(%m, %cc)\n%ee = mul(%dd, "
      "0.79788)\n"
      "%ff = tanh(%ee)\n%gg = add(%ff, 1)\n%y = mul(%aa, %gg)\noutput y = %y";
  expect_cases(
      fuse_diamonds, "fused_elementwise",
      {
          {"gelu in parts", product(tanh_gelu), true},
          {"gelu in parts of f16",
           "%a = input : f16[4, 8]\n%b = input : f16[8, 6]\n%m = matmul(%a, %b)\n" + tanh_gelu, true},
          {"x sigmoid x", product("%s = sigmoid(%m)\n%y = mul(%m, %s)\noutput y = %y"), true},
          {"after a bias",
           product(
               "%c = input : f32[6]\n%z = add(%m, %c)\n%s = sigmoid(%z)\n%y = mul(%z, %s)\noutput y = %y"),
           true},
          {"a choice",
           product("%s = greater(%m, 0)\n%t = mul(%m, 0.1)\n%y = where(%s, %m, %t)\noutput y = %y"), true},
          {"another tensor takes part",
           product("%c = input : f32[6]\n%s = mul(%m, %c)\n%y = mul(%m, %s)\noutput y = %y"), false},
          {"something else reads the product",
           product("%s = sigmoid(%m)\n%y = mul(%m, %s)\n%z = softmax(%m)\noutput y = %y\noutput z = %z"),
           false},
          {"the product is an output",
           product("%s = sigmoid(%m)\n%y = mul(%m, %s)\noutput y = %y\noutput m = %m"), false},
          {"a step is an output", product("%s = sigmoid(%m)\n%y = mul(%m, %s)\noutput y = %y\noutput s = %s"),
           false},
          {"two results", product("%y = sigmoid(%m)\n%z = tanh(%m)\noutput y = %y\noutput z = %z"), false},
          {"one result too many",
           product("%s = sigmoid(%m)\n%t = tanh(%m)\n%y = mul(%m, %s)\noutput y = %y\noutput t = %t"), false},
          {"a step grows",
           product("%c = input : f32[2, 1, 6]\n%s = sigmoid(%m)\n%t = add(%s, %c)\n"
                   "%y = mul(%m, %t)\noutput y = %y"),
           false},
          {"of an input", "%m = input : f32[4, 6]\n%s = sigmoid(%m)\n%y = mul(%m, %s)\noutput y = %y", false},
      });
}

// Numbers alone do not say of which type the result is.
TEST(FuseElementwise, KeepsTheTypeOfNumbers) {
  const auto numbers = [](const std::string& type, const std::string& one, const std::string& other) {
    return formatted(
        "%m = input : bool[3, 5]\n%a = constant {{value=tensor {0}[] ({1})}}\n"
        "%b = constant {{value=tensor {0}[] ({2})}}\n%w = where(%m, %a, %b)\n",
        type, one, other);
  };
  const auto fuse = [](const Graph& g) { return fuse_elementwise(g, 7); };
  expect_cases(
      fuse, "fused_elementwise",
      {
          {"f16 alone", numbers("f16", "0", "-65504") + "output y = %w", true},
          {"f16 beside f16",
           numbers("f16", "0", "-65504") + "%x = input : f16[3, 5]\n%y = add(%w, %x)\noutput y = %y", true},
          {"i64 that f32 cannot hold", numbers("i64", "16777217", "-16777219") + "output y = %w", true},
          {"bools", numbers("bool", "1", "0") + "output y = %w", true},
          {"a cast of a number", numbers("f32", "1.5", "0.1") + "%y = cast(%w) {to=i32}\noutput y = %y",
           true},
      });
}

TEST(FuseResidualNorm, TakesSumsOfEqualShapes) {
  expect_cases(
      fuse_residual_norm, "= residual_",
      {
          {"rms", normed("%n = rms_norm(%s, %g) {eps=0.01}\noutput n = %n"), true},
          {"layer", normed("%n = layer_norm(%s, %g)\noutput n = %n"), true},
          {"two axes",
           "%x = input : f32[3, 4, 8]\n%r = input : f32[3, 4, 8]\n%g = param : f32[4, 8]\n"
           "%s = add(%x, %r)\n%n = layer_norm(%s, %g) {axis=1}\noutput n = %n",
           true},
          {"the sum is an output", normed("%n = rms_norm(%s, %g)\noutput n = %n\noutput s = %s"), true},
          {"two norms of a sum",
           normed("%n = rms_norm(%s, %g)\n%o = layer_norm(%s, %g)\noutput n = %n\noutput o = %o"), true},
          {"twice the same",
           "%x = input : f32[4, 8]\n%g = param : f32[8]\n%s = add(%x, %x)\n%n = rms_norm(%s, %g)\n"
           "output n = %n",
           true},
          {"the sum is its own gamma",
           "%x = input : f32[8]\n%r = input : f32[8]\n%s = add(%x, %r)\n"
           "%n = rms_norm(%s, %s)\noutput n = %n",
           true},
          {"f16",
           "%x = input : f16[4, 8]\n%r = input : f16[4, 8]\n%g = param : f16[8]\n%s = add(%x, %r)\n"
           "%n = rms_norm(%s, %g)\noutput n = %n",
           true},
          {"the sum is read before",
           normed("%e = neg(%s)\n%n = rms_norm(%s, %g)\noutput n = %n\noutput e = %e"), false},
          {"a bias",
           "%x = input : f32[4, 8]\n%r = param : f32[8]\n%s = add(%x, %r)\n%n = rms_norm(%s, %r)\noutput n = "
           "%n",
           false},
          {"a difference",
           "%x = input : f32[4, 8]\n%r = input : f32[4, 8]\n%g = param : f32[8]\n%s = sub(%x, %r)\n"
           "%n = rms_norm(%s, %g)\noutput n = %n",
           false},
      });
}

// --- Joined and packed weights ---

std::string two_products(const std::string& a, const std::string& b, const std::string& rest) {
  return "%x = input : f32[5, 8]\n%w = " + a + "\n%u = " + b + "\n" + rest + "\n";
}

TEST(JoinMatmuls, JoinsWeightsOfOneInput) {
  const std::string ends = "%p = matmul(%x, %w)\n%q = matmul(%x, %u)\noutput p = %p\noutput q = %q";
  expect_cases(
      join_products, ".joined",
      {
          {"two weights", two_products("param : f32[8, 3]", "param : f32[8, 4]", ends), true},
          {"one twice", two_products("param : f32[8, 3]", "neg(%w)", ends), true},
          {"no columns", two_products("param : f32[8, 0]", "param : f32[8, 4]", ends), true},
          {"one that is used for the other",
           two_products(
               "param : f32[8, 8]", "param : f32[8, 4]",
               "%p = matmul(%x, %w)\n%q = matmul(%x, %u)\n%r = matmul(%p, %u)\noutput q = %q\noutput r = %r"),
           true},
          {"an input", two_products("param : f32[8, 3]", "input : f32[8, 4]", ends), false},
          {"batches of weights", two_products("param : f32[2, 8, 3]", "param : f32[2, 8, 4]", ends), false},
          {"vectors", two_products("param : f32[8]", "param : f32[8]", ends), false},
          {"another input",
           two_products(
               "param : f32[8, 3]", "param : f32[8, 4]",
               "%z = neg(%x)\n%p = matmul(%x, %w)\n%q = matmul(%z, %u)\noutput p = %p\noutput q = %q"),
           false},
          {"another epilogue",
           two_products(
               "param : f32[8, 3]", "param : f32[8, 4]",
               "%p = matmul(%x, %w) {epilogue=\"relu($0)\"}\n%q = matmul(%x, %u) {epilogue=\"neg($0)\"}\n"
               "output p = %p\noutput q = %q"),
           false},
          {"biases of other types",
           two_products("param : f32[8, 3]", "param : f32[8, 4]",
                        "%b = param : f16[3]\n%c = param : f32[4]\n"
                        "%p = matmul(%x, %w, %b) {epilogue=\"t0=cast_f32($1); add($0,t0)\"}\n"
                        "%q = matmul(%x, %u, %c) {epilogue=\"t0=cast_f32($1); add($0,t0)\"}\n"
                        "output p = %p\noutput q = %q"),
           false},
          {"a bias for rows",
           two_products("param : f32[8, 5]", "param : f32[8, 5]",
                        "%b = param : f32[5, 1]\n%p = matmul(%x, %w, %b) {epilogue=\"add($0,$1)\"}\n"
                        "%q = matmul(%x, %u, %b) {epilogue=\"add($0,$1)\"}\noutput p = %p\noutput q = %q"),
           false},
      });
}

// Two convolutions %p and %q of %x, with these attributes.
std::string two_convolutions(const std::string& w, const std::string& u, const std::string& p = "",
                             const std::string& q = "") {
  return "%x = input : f32[2, 4, 5, 6]\n%w = " + w + "\n%u = " + u + "\n%b = param : f32[3]\n" +
         "%c = param : f32[5]\n%p = conv(%x, %w" + p + "\n%q = conv(%x, %u" + q +
         "\noutput p = %p\noutput q = %q";
}

TEST(JoinConvs, JoinsFiltersOfOneInput) {
  const std::string w = "param : f32[3, 4, 3, 2]";
  const std::string u = "param : f32[5, 4, 3, 2]";
  expect_cases(
      join_products, ".joined",
      {
          {"without biases", two_convolutions(w, u, ")", ")"), true},
          {"with biases", two_convolutions(w, u, ", %b)", ", %c)"), true},
          {"equal attributes",
           two_convolutions(w, u, ") {strides=[2, 1], pads=[1, 0, 1, 2]}",
                            ") {strides=[2, 1], pads=[1, 0, 1, 2]}"),
           true},
          {"equal epilogues",
           two_convolutions(w, u, ", %b) {epilogue=\"relu($0)\"}", ", %c) {epilogue=\"relu($0)\"}"), true},
          {"channels last",
           "%x = input : f32[2, 5, 6, 4]\n%w = param : f32[3, 4, 1, 1]\n%u = param : f32[5, 4, 1, 1]\n"
           "%p = conv(%x, %w) {layout=\"channels_last\"}\n%q = conv(%x, %u) {layout=\"channels_last\"}\n"
           "output p = %p\noutput q = %q",
           true},
          {"a bias and none", two_convolutions(w, u, ", %b)", ")"), false},
          {"another kernel", two_convolutions(w, "param : f32[5, 4, 3, 3]", ")", ")"), false},
          {"other strides", two_convolutions(w, u, ")", ") {strides=[1, 2]}"), false},
          {"other pads", two_convolutions(w, u, ") {pads=[1, 1, 1, 1]}", ")"), false},
          {"other epilogues", two_convolutions(w, u, ") {epilogue=\"relu($0)\"}", ") {epilogue=\"neg($0)\"}"),
           false},
          {"an input as weight", two_convolutions(w, "input : f32[5, 4, 3, 2]", ")", ")"), false},
          {"groups",
           two_convolutions("param : f32[2, 2, 3, 2]", "param : f32[4, 2, 3, 2]", ") {groups=2}",
                            ") {groups=2}"),
           false},
          {"a residual",
           "%x = input : f32[2, 4, 5]\n%w = param : f32[3, 4, 1]\n%u = param : f32[3, 4, 1]\n"
           "%r = param : f32[3, 5]\n%p = conv(%x, %w, none, %r) {epilogue=\"add($0,$1)\"}\n"
           "%q = conv(%x, %u, none, %r) {epilogue=\"add($0,$1)\"}\noutput p = %p\noutput q = %q",
           false},
          {"a convolution and a product",
           "%x = input : f32[4, 4, 4]\n%w = param : f32[4, 4, 1]\n%u = param : f32[4, 4]\n"
           "%p = conv(%x, %w)\n%q = matmul(%x, %u)\noutput p = %p\noutput q = %q",
           false},
      });
}

// Joining or packing them would decode them.
TEST(EncodedWeights, AreNotRewritten) {
  const std::string body =
      "%x = input : f32[3, 256]\n%w = param : q8_0[4, 256]\n%u = param : q8_0[8, 256]\n%a = transpose(%w)\n"
      "%b = transpose(%u)\n%c = slice(%u) {axis=0, start=1, length=3}\n%d = transpose(%c)\n"
      "%p = matmul(%x, %a)\n%q = matmul(%x, %b)\n%r = matmul(%x, %d)\n"
      "output p = %p\noutput q = %q\noutput r = %r";
  EXPECT_FALSE(print(join_products(graph_of(body))).contains(".joined"));
  EXPECT_FALSE(print(pack_weights(graph_of(body))).contains(".packed"));
  const std::string all = print(materialize_views(optimize(graph_of(body), {})));
  for (const char* word : {"contiguous", "concat", ".packed", ".joined"})
    EXPECT_FALSE(all.contains(word)) << all;
  // Of a convolution they are decoded, since it does not read blocks.
  const std::string conv = print(materialize_views(optimize(
      graph_of("%x = input : f32[1, 2, 64]\n%w = param : q8_0[4, 2, 32]\n%u = param : q8_0[4, 2, 32]\n"
               "%y = conv(%x, %w)\n%z = conv(%x, %u)\noutput y = %y\noutput z = %z"),
      {})));
  EXPECT_FALSE(conv.contains(".joined")) << conv;
}

TEST(PackWeights, PacksFiltersOnceSideBySide) {
  const std::string body =
      "%x = input : f32[1, 4, 5, 6]\n%w = param : f32[3, 4, 3, 2]\n%y = conv(%x, %w)\n%n = neg(%x)\n"
      "%z = conv(%n, %w)\noutput y = %y\noutput z = %z";
  const Graph packed = pack_weights(graph_of(body));
  expect_same_values(packed, graph_of(body));
  EXPECT_EQ(print(packed), print(graph_of(R"(
    %x = input : f32[1, 4, 5, 6]
    %w = param : f32[3, 4, 3, 2]
    %w.packed_order = transpose(%w) {perm=[2, 3, 1, 0]}
    %w.packed = contiguous(%w.packed_order)
    %w.packed_order_1 = transpose(%w.packed) {perm=[3, 2, 0, 1]}
    %y = conv(%x, %w.packed_order_1)
    %n = neg(%x)
    %z = conv(%n, %w.packed_order_1)
    output y = %y
    output z = %z)")));
  // What is packed stays as it is.
  EXPECT_EQ(print(pack_weights(packed)), print(packed));
}

TEST(PackWeights, OfConvolutions) {
  expect_cases(
      pack_weights, ".packed",
      {
          {"one axis",
           "%x = input : f32[2, 3, 7]\n%w = param : f32[4, 3, 2]\n%y = conv(%x, %w)\noutput y = %y", true},
          {"groups",
           "%x = input : f32[2, 6, 7]\n%w = param : f32[4, 3, 2]\n%y = conv(%x, %w) {groups=2}\n"
           "output y = %y",
           true},
          {"computed from params",
           "%x = input : f32[2, 3, 7]\n%w = param : f32[4, 3, 2]\n%s = param : f32[4, 1, 1]\n"
           "%v = mul(%w, %s)\n%y = conv(%x, %v)\noutput y = %y",
           true},
          {"already in order",
           "%x = input : f32[2, 3, 7]\n%v = param : f32[2, 3, 4]\n%w = transpose(%v) {perm=[2, 1, 0]}\n"
           "%y = conv(%x, %w)\noutput y = %y",
           false},
          {"an input",
           "%x = input : f32[2, 3, 7]\n%w = input : f32[4, 3, 2]\n%y = conv(%x, %w)\noutput y = %y", false},
      });
}

TEST(PackWeights, PacksWeightsThatLieAlongTheirBatches) {
  expect_cases(
      pack_weights, ".packed",
      {
          {"two readers",
           "%x = input : f32[2, 3, 8]\n%w = param : f32[8, 4, 2]\n%t = transpose(%w) {perm=[2, 0, 1]}\n"
           "%y = matmul(%x, %t)\n%n = neg(%x)\n%z = matmul(%n, %t)\noutput y = %y\noutput z = %z\n"
           "output t = %t",
           true},
          {"along k",
           "%x = input : f32[3, 8]\n%w = param : f32[4, 8]\n%t = transpose(%w)\n%y = matmul(%x, %t)\n"
           "output y = %y",
           false},
          {"along n, batches inside",
           "%x = input : f32[2, 3, 8]\n%w = param : f32[8, 2, 4]\n%t = transpose(%w) {perm=[1, 0, 2]}\n"
           "%y = matmul(%x, %t)\noutput y = %y",
           false},
          {"an input",
           "%x = input : f32[2, 3, 8]\n%w = input : f32[8, 4, 2]\n%t = transpose(%w) {perm=[2, 0, 1]}\n"
           "%y = matmul(%x, %t)\noutput y = %y",
           false},
          {"on the left",
           "%x = input : f32[8, 3]\n%w = param : f32[8, 4]\n%t = transpose(%w)\n%y = matmul(%t, %x)\n"
           "output y = %y",
           false},
      });
}

// --- Rotary embeddings ---

struct RopeText {
  std::string x = "%x = input : f32[2, 3, 28]";
  std::string q = "slice(%x) {axis=2, start=0, length=16}";
  std::string k = "slice(%x) {axis=-1, start=16, length=8}";
  std::string rope_q = "rope(%a, %c, %s) {head_dim=8}";
  std::string rope_k = "rope(%b, %c, %s) {head_dim=8}";
  std::string end = "%y = neg(%q)\n%z = exp(%k)\noutput y = %y\noutput z = %z\n";

  std::string text() const {
    return x + "\n%c = input : f32[5, 4]\n%s = input : f32[5, 4]\n%t = input : f32[5, 4]\n" +
           "%p = input : i32[3]\n%half = input : f32[5, 2]\n%a = " + q + "\n%b = " + k + "\n%q = " + rope_q +
           "\n%k = " + rope_k + "\n" + end;
  }
};

TEST(JoinRopes, JoinsNeighboursWithTheSameTables) {
  expect_cases(
      join_ropes, ".joined = rope(",
      {
          {"plain", RopeText{}.text(), true},
          {"not from the start of a head",
           RopeText{.q = "slice(%x) {axis=2, start=3, length=16}",
                    .k = "slice(%x) {axis=2, start=19, length=8}"}
               .text(),
           true},
          {"the second in the graph lies first",
           RopeText{.q = "slice(%x) {axis=2, start=8, length=8}",
                    .k = "slice(%x) {axis=2, start=0, length=8}"}
               .text(),
           true},
          {"with positions",
           RopeText{.rope_q = "rope(%a, %c, %s, %p) {head_dim=8}",
                    .rope_k = "rope(%b, %c, %s, %p) {head_dim=8}"}
               .text(),
           true},
          {"interleaved, half of a head",
           RopeText{.rope_q = "rope(%a, %half, %half) {head_dim=8, rotated=4, interleaved=true}",
                    .rope_k = "rope(%b, %half, %half) {head_dim=8, rotated=4, interleaved=true}"}
               .text(),
           true},
          {"16-bit floats", RopeText{.x = "%x = input : bf16[2, 3, 28]"}.text(), true},
          {"a third that lies apart",
           RopeText{.x = "%x = input : f32[2, 3, 40]",
                    .end = "%d = slice(%x) {axis=2, start=32, length=8}\n%v = rope(%d, %c, %s) {head_dim=8}\n"
                           "%y = neg(%q)\n%z = exp(%k)\n%w = neg(%v)\noutput y = %y\noutput z = %z\n"
                           "output w = %w\n"}
               .text(),
           true},
          {"a slice that others read too",
           RopeText{.end = "%y = neg(%q)\n%z = mul(%k, %b)\noutput y = %y\noutput z = %z\n"}.text(), true},
          {"a gap", RopeText{.k = "slice(%x) {axis=2, start=18, length=8}"}.text(), false},
          {"an overlap", RopeText{.k = "slice(%x) {axis=2, start=8, length=8}"}.text(), false},
          {"the same slice", RopeText{.q = "slice(%x) {axis=2, start=16, length=8}"}.text(), false},
          {"along another axis",
           RopeText{.x = "%x = input : f32[2, 6, 8]",
                    .q = "slice(%x) {axis=1, start=0, length=3}",
                    .k = "slice(%x) {axis=1, start=3, length=3}"}
               .text(),
           false},
          {"every second element",
           RopeText{.q = "slice(%x) {axis=2, start=0, length=8, step=2}",
                    .k = "slice(%x) {axis=2, start=8, length=8, step=2}"}
               .text(),
           false},
          {"backwards", RopeText{.q = "slice(%x) {axis=2, start=15, length=16, step=-1}"}.text(), false},
          {"other cosines", RopeText{.rope_k = "rope(%b, %t, %s) {head_dim=8}"}.text(), false},
          {"other sines", RopeText{.rope_k = "rope(%b, %c, %t) {head_dim=8}"}.text(), false},
          {"positions for one of them", RopeText{.rope_k = "rope(%b, %c, %s, %p) {head_dim=8}"}.text(),
           false},
          {"pairs of other elements",
           RopeText{.rope_k = "rope(%b, %c, %s) {head_dim=8, interleaved=true}"}.text(), false},
          {"heads of another size",
           RopeText{.rope_q = "rope(%a, %half, %half) {head_dim=4}",
                    .rope_k = "rope(%b, %half, %half) {head_dim=8, rotated=4}"}
               .text(),
           false},
          {"another part of a head is rotated",
           RopeText{.rope_q = "rope(%a, %c, %s) {head_dim=8}",
                    .rope_k = "rope(%b, %half, %half) {head_dim=8, rotated=4}"}
               .text(),
           false},
          {"slices of different values",
           RopeText{.x = "%x = input : f32[2, 3, 28]\n%other = neg(%x)",
                    .k = "slice(%other) {axis=2, start=16, length=8}"}
               .text(),
           false},
          {"one after the other",
           RopeText{.k = "slice(%x) {axis=2, start=16, length=8}",
                    .rope_q = "rope(%a, %c, %s) {head_dim=8}\n"
                              "%r = slice(%q) {axis=2, start=8, length=8}",
                    .rope_k = "rope(%r, %c, %s) {head_dim=8}"}
               .text(),
           false},
          {"one is an output", RopeText{.end = "%y = neg(%q)\noutput y = %y\noutput z = %k\n"}.text(), false},
          {"before and after a write of the state that they are slices of",
           RopeText{.x = "%u = input : f32[2, 1, 28]\n%old = state : f32[2, 3, 28]\n"
                         "%x = write_state(%old, %u) {axis=1, start=1}",
                    .q = "slice(%old) {axis=2, start=0, length=16}"}
               .text(),
           false},
      });
}

// --- States ---

// What is read before a write is not read after it.
TEST(Fusions, DoNotMoveReadsPastAWrite) {
  const auto expect_schedule = [](const Graph& g) { EXPECT_NO_THROW(schedule(g)) << print(g); };
  expect_schedule(fuse_epilogue(graph_of("%s = state : f32[4, 4]\n%u = input : f32[4, 4]\n"
                                         "%m = matmul(%s, %u)\n%n = write_state(%s, %u) {start=0}\n"
                                         "%y = add(%m, %n)\noutput y = %y"),
                                7));
  expect_schedule(
      fuse_residual_norm(graph_of("%s = state : f32[4]\n%u = input : f32[4]\n%a = add(%s, %u)\n"
                                  "%n = write_state(%s, %u) {start=0}\n%y = rms_norm(%a, %n)\n"
                                  "output y = %y")));
  expect_schedule(
      fuse_attention(graph_of("%s = state : f32[1, 1, 4, 4]\n%u = input : f32[1, 1, 4, 4]\n"
                              "%v = reshape(%s) {shape=[1, 1, 4, 4]}\n%m = matmul(%v, %u)\n"
                              "%p = softmax(%m)\n%n = write_state(%s, %u) {start=0}\n"
                              "%y = matmul(%p, %n)\noutput y = %y")));
}

// Two writes, of %s and %t.
struct WriteText {
  std::string before = "";
  std::string write_s = "write_state(%s, %u) {axis=1, start=3}";
  std::string between = "";
  std::string write_t = "write_state(%t, %v) {axis=1, start=3}";
  std::string end = "";

  std::string text() const {
    return "%s = state : f32[2, 8]\n%t = state : f32[2, 8]\n%u = input : f32[2, 1]\n%v = input : f32[2, "
           "1]\n" +
           before + "\n%m = " + write_s + "\n" + between + "\n%n = " + write_t +
           "\noutput m = %m\noutput n = %n\n" + end;
  }
};

TEST(JoinWrites, JoinsTwoThatDoNotDependOnEachOther) {
  const auto pass = [](const Graph& g) {
    Graph joined = join_writes(g);
    EXPECT_NO_THROW(schedule(joined)) << print(joined);
    return joined;
  };
  expect_cases(
      pass, "states=2",
      {
          {"plain", WriteText{}.text(), true},
          {"the first is read between them",
           WriteText{.between = "%r = slice(%m) {axis=1, start=0, length=4}\n%e = exp(%r)",
                     .end = "output e = %e"}
               .text(),
           true},
          {"the second's update is made between them",
           WriteText{.between = "%w = exp(%v)", .write_t = "write_state(%t, %w) {axis=1, start=3}"}.text(),
           true},
          {"the second's old contents are read between them",
           WriteText{.between = "%o = exp(%t)", .end = "output o = %o"}.text(), true},
          {"both old contents are read before",
           WriteText{.before = "%o = add(%s, %t)", .end = "output o = %o"}.text(), true},
          {"an update that is a part of its own state",
           WriteText{.between = "%w = slice(%t) {axis=1, start=2, length=2}",
                     .write_t = "write_state(%t, %w) {axis=1, start=3}"}
               .text(),
           true},
          {"updates and states of different sizes and types",
           "%s = state : f32[2, 8]\n%t = state : f16[3, 9]\n%u = input : f32[2, 8]\n%v = input : f16[1, 9]\n"
           "%m = write_state(%s, %u)\n%n = write_state(%t, %v)\noutput m = %m\noutput n = %n",
           true},
          {"another place", WriteText{.write_t = "write_state(%t, %v) {axis=1, start=4}"}.text(), false},
          {"another axis",
           WriteText{.before = "%w = input : f32[1, 8]", .write_t = "write_state(%t, %w) {axis=0, start=1}"}
               .text(),
           false},
          {"the second follows from the first",
           WriteText{.between = "%r = slice(%m) {axis=1, start=0, length=1}\n%w = exp(%r)",
                     .write_t = "write_state(%t, %w) {axis=1, start=3}"}
               .text(),
           false},
          {"the second takes a part of the first",
           WriteText{.between = "%r = slice(%m) {axis=1, start=3, length=1}",
                     .write_t = "write_state(%t, %r) {axis=1, start=3}"}
               .text(),
           false},
          {"the second's old contents are read with the first's new ones",
           WriteText{.between = "%o = add(%m, %t)", .end = "output o = %o"}.text(), false},
          {"the first takes a part of the second's old contents",
           WriteText{.before = "%o = slice(%t) {axis=1, start=5, length=1}",
                     .write_s = "write_state(%s, %o) {axis=1, start=3}"}
               .text(),
           false},
          {"the state that the first returned",
           WriteText{.write_t = "write_state(%m, %v) {axis=1, start=3}"}.text(), false},
          {"a body between them that reads the second",
           WriteText{.before = "%c = input : bool[]",
                     .between =
                         "%e = if(%c) {then=graph a { %t = state : f32[2, 8] %r = neg(%t) output r = %r }, "
                         "else=graph b { %t = state : f32[2, 8] %r = exp(%t) output r = %r }}",
                     .end = "output e = %e"}
               .text(),
           false},
          {"another write between them",
           WriteText{.between = "%r = state : f32[4]\n%w = input : f32[4]\n%o = write_state(%r, %w)",
                     .end = "output o = %o"}
               .text(),
           false},
      });
}

// The rope of queries and keys of a joint product, and the writes of keys and values.
struct CacheText {
  std::string x = "%x = input : f32[2, 1, 28]";
  std::string turned = "slice(%x) {axis=2, start=0, length=24}";
  std::string rope = "rope(%a, %c, %i) {head_dim=8}";
  std::string q = "slice(%r) {axis=-1, start=0, length=16}";
  std::string k = "slice(%r) {axis=2, start=16, length=8}";
  std::string v = "slice(%x) {axis=2, start=24, length=4}";
  std::string before = "";
  std::string write = "write_state(%s, %t, %k, %v) {axis=1, start=3, states=2}";
  std::string end = "%y = neg(%q)\noutput y = %y\n";

  std::string text() const {
    return x + "\n%s = state : f32[2, 5, 8]\n%t = state : f32[2, 5, 4]\n%c = input : f32[3, 4]\n" +
           "%i = input : f32[3, 4]\n%p = input : i32[1]\n%a = " + turned + "\n%r = " + rope + "\n%q = " + q +
           "\n%k = " + k + "\n%v = " + v + "\n" + before + "\n%w = " + write + "\n" + end + "output w = %w\n";
  }
};

TEST(FuseRopeWrite, FusesWhatReadsNeighbouringColumns) {
  const auto pass = [](const Graph& g) {
    Graph fused = fuse_rope_write(g);
    EXPECT_NO_THROW(schedule(fused)) << print(fused);
    return fused;
  };
  expect_cases(
      pass, " = rope_write(",
      {
          {"plain", CacheText{}.text(), true},
          {"values first",
           CacheText{.write = "write_state(%t, %s, %v, %k) {axis=1, start=3, states=2}"}.text(), true},
          {"not from the start",
           CacheText{.x = "%x = input : f32[2, 1, 35]",
                     .turned = "slice(%x) {axis=2, start=3, length=24}",
                     .v = "slice(%x) {axis=2, start=27, length=4}"}
               .text(),
           true},
          {"16-bit floats",
           "%x = input : bf16[1, 1, 24]\n%s = state : bf16[1, 5, 8]\n%t = state : bf16[1, 5, 8]\n"
           "%c = input : f32[3, 4]\n%a = slice(%x) {axis=2, start=0, length=16}\n"
           "%r = rope(%a, %c, %c) {head_dim=8}\n%q = slice(%r) {axis=2, start=0, length=8}\n"
           "%k = slice(%r) {axis=2, start=8, length=8}\n%v = slice(%x) {axis=2, start=16, length=8}\n"
           "%w = write_state(%s, %t, %k, %v) {axis=1, start=3, states=2}\n"
           "output q = %q\noutput w = %w\n",
           true},
          {"interleaved", CacheText{.rope = "rope(%a, %c, %i) {head_dim=8, interleaved=true}"}.text(), true},
          {"the values are read elsewhere too",
           CacheText{.end = "%y = neg(%q)\n%z = exp(%v)\noutput y = %y\noutput z = %z\n"}.text(), true},
          {"the old contents are read before",
           CacheText{.before = "%o = exp(%s)", .end = "%y = neg(%q)\noutput y = %y\noutput o = %o\n"}.text(),
           true},
          {"positions", CacheText{.rope = "rope(%a, %c, %i, %p) {head_dim=8}"}.text(), false},
          {"a gap before the values",
           CacheText{.x = "%x = input : f32[2, 1, 29]", .v = "slice(%x) {axis=2, start=25, length=4}"}.text(),
           false},
          {"values of another input",
           CacheText{.x = "%x = input : f32[2, 1, 28]\n%other = neg(%x)",
                     .v = "slice(%other) {axis=2, start=24, length=4}"}
               .text(),
           false},
          {"every second value",
           CacheText{.x = "%x = input : f32[2, 1, 32]", .v = "slice(%x) {axis=2, start=24, length=4, step=2}"}
               .text(),
           false},
          {"keys before the queries",
           CacheText{.q = "slice(%r) {axis=2, start=8, length=16}",
                     .k = "slice(%r) {axis=2, start=0, length=8}"}
               .text(),
           false},
          {"a gap before the keys", CacheText{.q = "slice(%r) {axis=2, start=0, length=8}"}.text(), false},
          {"the keys are read elsewhere too",
           CacheText{.end = "%y = neg(%q)\n%z = exp(%k)\noutput y = %y\noutput z = %z\n"}.text(), false},
          {"all of the rope is read",
           CacheText{.end = "%y = neg(%q)\n%z = exp(%r)\noutput y = %y\noutput z = %z\n"}.text(), false},
          {"the rope is an output", CacheText{.end = "%y = neg(%q)\noutput y = %y\noutput r = %r\n"}.text(),
           false},
          {"the queries are read before the write",
           CacheText{.before = "%y = neg(%q)", .end = "output y = %y\n"}.text(), false},
          {"a table is a part of the state",
           CacheText{.x = "%x = input : f32[2, 1, 28]\n%table = state : f32[3, 4]",
                     .rope = "rope(%a, %table, %i) {head_dim=8}",
                     .before = ""}
               .text(),
           false},
          {"one write alone", CacheText{.write = "write_state(%s, %k) {axis=1, start=3}"}.text(), false},
      });
}

}  // namespace
}  // namespace rlx::testing
