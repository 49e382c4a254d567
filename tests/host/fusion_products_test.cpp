// What becomes part of a product: epilogues, joined and packed weights.
#include <gtest/gtest.h>

#include "ir/op.h"
#include "passes/pass_order.h"
#include "passes/passes.h"
#include "rlx/graph.h"
#include "tests/support/fusion_cases.h"

namespace rlx::testing {
namespace {

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
          {"a cast to integers", product("%y = cast(%m) {to=i32}\noutput y = %y"), true},
          {"a cast to bytes", product("%y = cast(%m) {to=u8}\noutput y = %y"), true},
          {"a cast to booleans", product("%y = cast(%m) {to=bool}\noutput y = %y"), false},
          {"integers",
           "%a = input : i32[4, 8]\n%b = input : i32[8, 6]\n%m = matmul(%a, %b)\n%y = neg(%m)\noutput y = %y",
           true},
          {"a product of weights",
           "%a = param : f32[4, 8]\n%b = param : f32[8, 6]\n%c = input : f32[6]\n"
           "%m = matmul(%a, %b)\n%y = add(%m, %c)\noutput y = %y",
           false},
      });
}

TEST(FuseMatmulEpilogue, ComputesSmallOperandsForEachElement) {
  const auto fuse = [](const Graph& g) { return fuse_epilogue(g, 7); };
  const std::string numbers = "%s = input : f32[]\n%t = input : f32[]\n";
  const std::string end = "%y = sub(%m, %u)\noutput y = %y";
  expect_cases(
      fuse, "epilogue=\"t0=",
      {
          {"a number times a number", product(numbers + "%u = mul(%s, %t)\n" + end), true},
          {"a number times a row", product(numbers + "%c = param : f32[6]\n%u = mul(%s, %c)\n" + end), true},
          {"the operand of an operand",
           product(numbers + "%c = param : f32[1, 6]\n%v = add(%s, %t)\n%u = mul(%v, %c)\n" + end), true},
          {"a zero point times the sums of columns",
           "%a = input : i8[4, 8]\n%b = param : i8[8, 6]\n%c = param : i32[1, 6]\n%z = input : u8[]\n"
           "%m = matmul(%a, %b)\n%w = cast(%z) {to=i32}\n%u = mul(%w, %c)\n" +
               end,
           true},
          {"it has the shape of the product",
           product(numbers + "%c = input : f32[4, 6]\n%u = mul(%s, %c)\n" + end), false},
          {"a number that is read twice", product(numbers + "%u = mul(%s, %t)\noutput u = %u\n" + end), true},
          {"a row that is read twice",
           product(numbers + "%c = param : f32[6]\n%u = mul(%s, %c)\noutput u = %u\n" + end), false},
          {"it is made of weights",
           product("%c = param : f32[6]\n%d = param : f32[6]\n%u = mul(%c, %d)\n" + end), false},
          {"it is much work", product(numbers + "%u = pow(%s, %t)\n" + end), false},
          {"it is a product itself",
           product("%c = input : f32[1, 3]\n%d = param : f32[3, 6]\n%u = matmul(%c, %d)\n" + end), false},
          {"too many bindings",
           product(numbers +
                   "%c = input : f32[6]\n%d = input : f32[6]\n%e = input : f32[6]\n%f = input : f32[6]\n"
                   "%u1 = add(%s, %t)\n%u2 = add(%c, %d)\n%u3 = add(%e, %f)\n%u4 = mul(%u1, %u2)\n"
                   "%u = mul(%u3, %u4)\n" +
                   end),
           false},
      });
}

TEST(FuseElementwise, ComputesSingleNumbersForEachElement) {
  const auto fuse = [](const Graph& g) { return fuse_elementwise(g, 7); };
  const std::string inputs = "%x = input : f32[4, 6]\n%s = input : f32[]\n%t = input : f32[1]\n";
  const std::string end = "%y = sub(%x, %u)\noutput y = %y";
  expect_cases(fuse, "fused_elementwise",
               {
                   {"two numbers", inputs + "%u = mul(%s, %t)\n" + end, true},
                   {"it is read twice", inputs + "%u = mul(%s, %t)\noutput u = %u\n" + end, false},
                   {"it is much work", inputs + "%u = pow(%s, %t)\n" + end, false},
                   {"it is a row", inputs + "%c = input : f32[6]\n%u = mul(%s, %c)\n" + end, false},
               });
}

TEST(FuseMatmulEpilogue, StopsAtTheNumberOfInputs) {
  const std::string body = product(
      "%c = input : f32[6]\n%d = add(%m, %c)\n%e = input : f32[4, 6]\n%y = mul(%d, %e)\n"
      "output y = %y");
  EXPECT_TRUE(to_text(fuse_epilogue(graph_of(body), 4)).contains("mul(t0,$2)"));
  EXPECT_TRUE(to_text(fuse_epilogue(graph_of(body), 3)).contains("%y = mul(%d, %e)"));
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
  const auto fused = [](const std::string& body) { return to_text(fuse_epilogue(graph_of(body), 7)); };
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
  EXPECT_TRUE(to_text(fuse_epilogue(graph_of(body), 5)).contains("mul(t0,$2)"));
  EXPECT_TRUE(to_text(fuse_epilogue(graph_of(body), 4)).contains("%y = mul(%d, %r)"));
}

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

// The same with weights of these orders.
std::string two_transposed(const std::string& p, const std::string& q) {
  return "%x = input : f32[2, 4, 6, 7]\n%s = param : f32[4, 4, 4, 4]\n%t = param : f32[4, 4, 4, 4]\n%w = "
         "transpose(%s) {perm=" +
         p + "}\n%u = transpose(%t) {perm=" + q +
         "}\n%p = conv(%x, %w)\n%q = conv(%x, %u)\noutput p = %p\noutput q = %q";
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
          // Each weight lies in memory in its own way.
          {"transposed alike", two_transposed("[1, 0, 2, 3]", "[1, 0, 2, 3]"), true},
          {"transposed differently", two_transposed("[1, 0, 2, 3]", "[1, 0, 3, 2]"), true},
          {"one transposed", two_transposed("[2, 1, 0, 3]", "[0, 1, 2, 3]"), true},
          {"the other transposed", two_transposed("[0, 1, 2, 3]", "[0, 3, 2, 1]"), true},
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
  EXPECT_FALSE(to_text(join_products(graph_of(body))).contains(".joined"));
  EXPECT_FALSE(to_text(pack_weights(graph_of(body))).contains(".packed"));
  const std::string all = to_text(materialize_views(optimize(graph_of(body), {})));
  for (const char* word : {"contiguous", "concat", ".packed", ".joined"})
    EXPECT_FALSE(all.contains(word)) << all;
  // Of a convolution they are decoded, since it does not read blocks.
  const std::string conv = to_text(materialize_views(optimize(
      graph_of("%x = input : f32[1, 2, 64]\n%w = param : q8_0[4, 2, 32]\n%u = param : q8_0[4, 2, 32]\n"
               "%y = conv(%x, %w)\n%z = conv(%x, %u)\noutput y = %y\noutput z = %z"),
      {})));
  EXPECT_FALSE(conv.contains(".joined")) << conv;
}

Graph pack_as_they_lie(const Graph& graph) { return pack_weights(graph); }
Graph pack_in_panels(const Graph& graph) {
  return pack_weights(graph, {.columns = 8, .least_elements = 100});
}

TEST(PackWeights, PacksFiltersOnceSideBySide) {
  const std::string body =
      "%x = input : f32[1, 4, 5, 6]\n%w = param : f32[3, 4, 3, 2]\n%y = conv(%x, %w)\n%n = neg(%x)\n"
      "%z = conv(%n, %w)\noutput y = %y\noutput z = %z";
  const Graph packed = pack_weights(graph_of(body));
  expect_same_values(packed, graph_of(body));
  EXPECT_EQ(to_text(packed), to_text(graph_of(R"(
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
  EXPECT_EQ(to_text(pack_weights(packed)), to_text(packed));
}

TEST(PackWeights, OfConvolutions) {
  expect_cases(
      pack_as_they_lie, ".packed",
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
      pack_as_they_lie, ".packed",
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

TEST(PackWeights, PutsMatricesInPanels) {
  const std::string x = "%x = input : f32[3, 6]\n";
  expect_cases(
      pack_in_panels, "panels=8",
      {
          {"along n", x + "%w = param : f32[6, 24]\n%y = matmul(%x, %w)\noutput y = %y", true},
          {"along k", x + "%w = param : f32[24, 6]\n%t = transpose(%w)\n%y = matmul(%x, %t)\noutput y = %y",
           true},
          {"batches, an epilogue and splits",
           "%x = input : f32[2, 3, 6]\n%w = param : f32[6, 24]\n%b = param : f32[24]\n"
           "%y = matmul(%x, %w, %b) {epilogue=\"add($0,$1)\", splits=[8,16]}\noutput y = %y\n"
           "output z = %y:1",
           true},
          {"a vector", "%x = input : f32[6]\n%w = param : f32[6, 24]\n%y = matmul(%x, %w)\noutput y = %y",
           true},
          {"two readers, both products",
           x + "%w = param : f32[6, 24]\n%y = matmul(%x, %w)\n%n = neg(%x)\n%z = matmul(%n, %w)\n"
               "output y = %y\noutput z = %z",
           true},
          {"a small one", x + "%w = param : f32[6, 16]\n%y = matmul(%x, %w)\noutput y = %y", false},
          {"columns that are left over", x + "%w = param : f32[6, 20]\n%y = matmul(%x, %w)\noutput y = %y",
           false},
          {"no columns", x + "%w = param : f32[6, 0]\n%y = matmul(%x, %w)\noutput y = %y", false},
          {"splits that cut a panel",
           x + "%w = param : f32[6, 24]\n%y = matmul(%x, %w) {splits=[12,12]}\noutput y = %y\n"
               "output z = %y:1",
           false},
          {"something else reads the weight",
           x + "%w = param : f32[24, 6]\n%i = input : i32[2]\n%e = gather(%w, %i)\n%t = transpose(%w)\n"
               "%y = matmul(%x, %t)\noutput y = %y\noutput e = %e",
           false},
          {"the weight is on both sides",
           "%w = param : f32[8, 8]\n%y = matmul(%w, %w)\n%x = input : f32[8]\n%z = add(%y, %x)\noutput z = "
           "%z",
           false},
          {"an output", x + "%w = param : f32[6, 24]\n%y = matmul(%x, %w)\noutput y = %y\noutput w = %w",
           false},
          {"an input", x + "%w = input : f32[6, 24]\n%y = matmul(%x, %w)\noutput y = %y", false},
          {"batches of weights",
           "%x = input : f32[2, 3, 6]\n%w = param : f32[2, 6, 24]\n%y = matmul(%x, %w)\noutput y = %y",
           false},
      });
}

}  // namespace
}  // namespace rlx::testing
