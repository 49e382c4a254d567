// Attention written as nodes, and what only looks like it.
#include <gtest/gtest.h>

#include <limits>

#include "passes/passes.h"
#include "rlx/graph.h"
#include "tests/support/fusion_cases.h"

namespace rlx::testing {
namespace {

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

// Six heads of queries share three of keys and values, as exporters of Llama write it.
struct SharedHeads {
  std::string one = "[2, 3, 1, 7, 4]";
  std::string several = "[2, 3, 2, 7, 4]";
  std::string values = "%vt";  // which are repeated

  std::string text() const {
    return "%q = input : f32[2, 6, 5, 4]\n%k = input : f32[2, 3, 7, 4]\n%v = input : f32[2, 3, 7, 4]\n"
           "%w = input : f32[2, 6, 7, 4]\n%k1 = reshape(%k) {shape=" +
           one + "}\n%k2 = expand(%k1) {shape=" + several +
           "}\n%kr = reshape(%k2) {shape=[2, 6, 7, 4]}\n%v1 = reshape(%v) {shape=[2, 3, 1, 7, 4]}\n"
           "%v2 = expand(%v1) {shape=[2, 3, 2, 7, 4]}\n%vt = reshape(%v2) {shape=[2, 6, 7, 4]}\n"
           "%kt = transpose(%kr) {perm=[0, 1, 3, 2]}\n%s = matmul(%q, %kt)\n%p = softmax(%s)\n%y = "
           "matmul(%p, " +
           values + ")\noutput y = %y\n";
  }
};

TEST(FuseAttention, ReadsHeadsThatAreShared) {
  expect_cases(
      fuse_attention, "kv_heads=3",
      {{"each head twice", SharedHeads{}.text(), true},
       {"all heads twice", SharedHeads{.one = "[2, 1, 3, 7, 4]", .several = "[2, 2, 3, 7, 4]"}.text(), false},
       {"only the keys", SharedHeads{.values = "%w"}.text(), false}});
  // What is not shared is attention all the same.
  expect_cases(
      fuse_attention, "= attention(",
      {{"all heads twice", SharedHeads{.one = "[2, 1, 3, 7, 4]", .several = "[2, 2, 3, 7, 4]"}.text(), true},
       {"only the keys", SharedHeads{.values = "%w"}.text(), true}});
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

TEST(FuseAttention, MovesTheFactorOfKeysToTheQueries) {
  const std::string turned = "%t = transpose(%k) {perm=[0, 1, 3, 2]}\n%qs = mul(%q, 0.5)";
  const auto scaled = [&](const std::string& more, const std::string& product, const std::string& end = "") {
    return "%q = input : f32[2, 3, 5, 4]\n%k = input : f32[2, 3, 7, 4]\n%v = input : f32[2, 3, 7, 6]\n" +
           more + "\n%s = " + product + "\n%p = softmax(%s)\n%y = matmul(%p, %v)\noutput y = %y\n" + end;
  };
  // The sign is what is left of the factor.
  expect_cases(
      fuse_attention, ".queries = mul(%q",
      {
          {"both sides", scaled(turned + "\n%ks = mul(%t, 0.25)", "matmul(%qs, %ks)"), true},
          {"keys before they are transposed",
           scaled("%kk = div(%k, 4.0)\n%ks = transpose(%kk) {perm=[0, 1, 3, 2]}", "matmul(%q, %ks)"), true},
          {"queries alone stay as they are", scaled(turned, "matmul(%qs, %t)"), false},
          {"a vector", scaled(turned + "\n%c = input : f32[7]\n%ks = mul(%t, %c)", "matmul(%qs, %ks)"),
           false},
          {"something else reads the keys",
           scaled(turned + "\n%ks = mul(%t, 0.25)", "matmul(%qs, %ks)", "output ks = %ks"), false},
          {"a factor of infinity", scaled(turned + "\n%ks = mul(%t, inf)", "matmul(%qs, %ks)"), false},
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
  const std::string text = to_text(fuse_attention(graph_of(masked("bool[5, 7]"))));
  EXPECT_TRUE(text.contains("{heads=3, scale=1.0, masked_score=-1e+09, empty_row=\"nan\"}")) << text;
  expect_same_values(parse_graph(text), graph_of(masked("bool[5, 7]")));
}

}  // namespace
}  // namespace rlx::testing
