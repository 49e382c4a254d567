// Element-wise ops and norms that become one op.
#include <gtest/gtest.h>

#include "passes/passes.h"
#include "rlx/graph.h"
#include "tests/support/fusion_cases.h"

namespace rlx::testing {
namespace {

std::string normed(const std::string& rest) {
  return "%x = input : f32[4, 8]\n%r = input : f32[4, 8]\n%g = param : f32[8]\n%s = add(%x, %r)\n" + rest;
}

TEST(FuseNorms, TakesNormsThatAreWrittenOut) {
  const std::string leaves = "%x = input : f32[4, 8]\n%g = param : f32[8]\n%b = param : f32[8]\n";
  const std::string centered = "%mean = mean(%x) {axes=[-1], keepdims=true}\n%c = sub(%x, %mean)\n";
  const auto deviation = [](const std::string& c) {
    return "%sq = pow(" + c +
           ", 2)\n%v = mean(%sq) {axes=[1], keepdims=true}\n%e = add(%v, 1e-5)\n%d = sqrt(%e)\n";
  };
  const std::string layer = leaves + centered + deviation("%c");
  const std::string rms = leaves + deviation("%x");
  const std::string out = "output y = %y";
  expect_cases(
      fuse_norms, "layer_norm",
      {
          {"alone", layer + "%y = div(%c, %d)\n" + out, true},
          {"with gamma", layer + "%n = div(%c, %d)\n%y = mul(%n, %g)\n" + out, true},
          {"with gamma and beta", layer + "%n = div(%c, %d)\n%m = mul(%g, %n)\n%y = add(%b, %m)\n" + out,
           true},
          {"with beta alone", layer + "%n = div(%c, %d)\n%y = add(%n, %b)\n" + out, true},
          {"beta, then gamma", layer + "%n = div(%c, %d)\n%m = add(%n, %b)\n%y = mul(%m, %g)\n" + out, true},
          {"a factor instead of a quotient",
           leaves + centered +
               "%sq = mul(%c, %c)\n%v = mean(%sq) {axes=[-1], keepdims=true}\n%e = add(0.1, %v)\n"
               "%d = rsqrt(%e)\n%y = mul(%d, %c)\n" +
               out,
           true},
          {"others read the parts", layer + "%y = div(%c, %d)\n" + out + "\noutput d = %d\noutput c = %c",
           true},
          {"another mean",
           leaves +
               "%z = input : f32[4, 8]\n%mean = mean(%z) {axes=[-1], keepdims=true}\n%c = sub(%x, %mean)\n" +
               "%sq = pow(%c, 2)\n%v = mean(%sq) {axes=[0], keepdims=true}\n%e = add(%v, 1e-5)\n%d = "
               "sqrt(%e)\n%y = div(%c, %d)\n" +
               out,
           false},
          {"the deviation of something else", layer + "%y = div(%x, %d)\n" + out, false},
          {"a cube",
           leaves + centered +
               "%sq = pow(%c, 3)\n%v = mean(%sq) {axes=[1], keepdims=true}\n%e = add(%v, 1e-5)\n%d = "
               "sqrt(%e)\n%y = div(%c, %d)\n" +
               out,
           false},
          {"a sum of squares",
           leaves + centered +
               "%sq = pow(%c, 2)\n%v = sum(%sq) {axes=[1], keepdims=true}\n%e = add(%v, 1e-5)\n%d = "
               "sqrt(%e)\n%y = div(%c, %d)\n" +
               out,
           false},
          {"over columns",
           leaves +
               "%mean = mean(%x) {axes=[0], keepdims=true}\n%c = sub(%x, %mean)\n%sq = pow(%c, 2)\n"
               "%v = mean(%sq) {axes=[0], keepdims=true}\n%e = add(%v, 1e-5)\n%d = sqrt(%e)\n%y = div(%c, "
               "%d)\n" +
               out,
           false},
          {"over two axes",
           "%x = input : f32[3, 4, 8]\n%g = param : f32[4, 8]\n%mean = mean(%x) {axes=[-2, -1], "
           "keepdims=true}\n"
           "%c = sub(%x, %mean)\n%sq = pow(%c, 2)\n%v = mean(%sq) {axes=[2, 1], keepdims=true}\n"
           "%e = add(%v, 1e-5)\n%d = sqrt(%e)\n%n = div(%c, %d)\n%y = mul(%n, %g)\noutput y = %y",
           true},
          {"means over other axes",
           "%x = input : f32[3, 4, 8]\n%mean = mean(%x) {axes=[-1], keepdims=true}\n"
           "%c = sub(%x, %mean)\n%sq = pow(%c, 2)\n%v = mean(%sq) {axes=[1, 2], keepdims=true}\n"
           "%e = add(%v, 1e-5)\n%d = sqrt(%e)\n%y = div(%c, %d)\noutput y = %y",
           false},
          {"axes that are not the last",
           "%x = input : f32[3, 4, 8]\n%mean = mean(%x) {axes=[0, 2], keepdims=true}\n"
           "%c = sub(%x, %mean)\n%sq = pow(%c, 2)\n%v = mean(%sq) {axes=[0, 2], keepdims=true}\n"
           "%e = add(%v, 1e-5)\n%d = sqrt(%e)\n%y = div(%c, %d)\noutput y = %y",
           false},
          {"f16", "%x = input : f16[4, 8]\n" + centered + deviation("%c") + "%y = div(%c, %d)\n" + out, true},
      });
  expect_cases(
      fuse_norms, "rms_norm",
      {
          {"a quotient", rms + "%y = div(%x, %d)\n" + out, true},
          {"one over the root", rms + "%r = div(1.0, %d)\n%n = mul(%x, %r)\n%y = mul(%g, %n)\n" + out, true},
          {"two over the root", rms + "%r = div(2.0, %d)\n%y = mul(%x, %r)\n" + out, false},
          {"a constant that makes it larger",
           leaves +
               "%k = constant {value=tensor f32[2, 1, 1] fill 0.1}\n%sq = pow(%x, 2)\n"
               "%v = mean(%sq) {axes=[-1], keepdims=true}\n%e = add(%v, %k)\n%d = sqrt(%e)\n%y = div(%x, "
               "%d)\n" +
               out,
           false},
          {"a negative epsilon",
           leaves +
               "%sq = pow(%x, 2)\n%v = mean(%sq) {axes=[-1], keepdims=true}\n%e = add(%v, -0.1)\n"
               "%d = sqrt(%e)\n%y = div(%x, %d)\n" +
               out,
           false},
      });
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
          {"a prelu",
           product("%k = param : f32[4, 1]\n%s = less(%m, 0)\n%t = mul(%m, %k)\n"
                   "%y = where(%s, %t, %m)\noutput y = %y"),
           true},
          {"a weight as large as the product",
           product("%k = param : f32[4, 6]\n%t = mul(%m, %k)\n%y = add(%m, %t)\noutput y = %y"), false},
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

TEST(TransposeParts, TakesShufflesOfWhatIsPutTogether) {
  const std::string two = "%x = input : f32[1, 4, 3]\n%y = input : f32[1, 4, 3]\n";
  const std::string shuffled =
      "%r = reshape(%c) {shape=[1, 2, 4, 3]}\n%t = transpose(%r) {perm=[0, 2, 1, 3]}\n"
      "%z = reshape(%t) {shape=[1, 8, 3]}\noutput z = %z";
  const std::string joined = two + "%c = concat(%x, %y) {axis=1}\n";
  const std::string stacked =
      "%x = input : f32[1, 1, 4, 3]\n%y = input : f32[1, 1, 4, 3]\n%c = concat(%x, %y) {axis=1}\n";
  expect_cases(
      transpose_parts, ".turned = transpose(",
      {
          {"a shuffle of channels", joined + shuffled, true},
          {"an axis from the end", two + "%c = concat(%x, %y) {axis=-2}\n" + shuffled, true},
          {"parts with an axis of their own",
           stacked + "%t = transpose(%c) {perm=[0, 2, 1, 3]}\n%z = reshape(%t) {shape=[8, 3]}\noutput z = %z",
           true},
          {"three parts of other lengths",
           "%x = input : f32[2, 3]\n%y = input : f32[1, 3]\n%w = input : f32[5, 3]\n"
           "%c = concat(%x, %y, %w) {axis=0}\n%t = transpose(%c)\n%z = reshape(%t) {shape=[24]}\noutput z = "
           "%z",
           true},
          {"parts that the reshape cuts",
           joined + "%r = reshape(%c) {shape=[1, 4, 2, 3]}\n%t = transpose(%r) {perm=[0, 2, 1, 3]}\n"
                    "%z = reshape(%t) {shape=[1, 8, 3]}\noutput z = %z",
           false},
          {"parts of two lengths",
           "%x = input : f32[1, 6, 3]\n%y = input : f32[1, 2, 3]\n%c = concat(%x, %y) {axis=1}\n" + shuffled,
           false},
          {"another reader of the whole", joined + shuffled + "\n%m = max(%c) {axes=[1]}\noutput m = %m",
           false},
          {"another reader of the order", joined + shuffled + "\n%m = max(%t) {axes=[1]}\noutput m = %m",
           false},
          {"the whole is an output", joined + shuffled + "\noutput c = %c", false},
          {"what strides can say",
           stacked + "%t = transpose(%c) {perm=[1, 0, 2, 3]}\n%z = reshape(%t) {shape=[8, 3]}\noutput z = %z",
           false},
          {"symbols",
           "%x = input : f32[1, 4, n]\n%y = input : f32[1, 4, n]\n%c = concat(%x, %y) {axis=1}\n"
           "%t = transpose(%c) {perm=[2, 0, 1]}\n%z = reshape(%t) {shape=[n*8]}\noutput z = %z",
           false},
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

TEST(FuseReduce, TakesRegionsThatOnlyAReductionReads) {
  const auto fuse = [](const Graph& g) { return fuse_reduce(fuse_elementwise(g, 3), 3); };
  const std::string leaves = "%x = input : f32[4, 8]\n%z = input : f32[8]\n%p = param : f32[4, 8]\n";
  expect_cases(
      fuse, "mapped_reduce",
      {
          {"a mean of squares", leaves + "%q = mul(%x, %x)\n%y = mean(%q) {axes=[-1]}\noutput y = %y", true},
          {"a chain over columns",
           leaves + "%a = sub(%x, %z)\n%b = abs(%a)\n%y = max(%b) {axes=[0], keepdims=true}\noutput y = %y",
           true},
          {"a product of all", leaves + "%a = add(%x, 2)\n%y = prod(%a)\noutput y = %y", true},
          {"what broadcasts",
           "%x = input : f32[4, 1]\n%z = input : f32[8]\n%a = mul(%x, %z)\n%y = sum(%a) {axes=[1]}\noutput y "
           "= %y",
           true},
          {"f16", "%x = input : f16[4, 8]\n%a = exp(%x)\n%y = sum(%a) {axes=[1]}\noutput y = %y", true},
          {"a cast of integers",
           "%x = input : i32[4, 8]\n%a = cast(%x) {to=f32}\n%y = mean(%a) {axes=[1]}\noutput y = %y", true},
          {"integers", "%x = input : i32[4, 8]\n%a = mul(%x, %x)\n%y = sum(%a) {axes=[1]}\noutput y = %y",
           false},
          {"two reductions of it",
           leaves + "%q = mul(%x, %x)\n%y = sum(%q) {axes=[1]}\n%m = max(%q) {axes=[1]}\noutput y = "
                    "%y\noutput m = %m",
           false},
          {"the region is an output",
           leaves + "%q = mul(%x, %x)\n%y = sum(%q) {axes=[1]}\noutput y = %y\noutput q = %q", false},
          {"an index of the largest", leaves + "%q = mul(%x, %x)\n%y = argmax(%q)\noutput y = %y", false},
          {"a view in between",
           leaves + "%q = mul(%x, %x)\n%f = reshape(%q) {shape=[32]}\n%y = sum(%f)\noutput y = %y", false},
          {"what the load phase computes",
           leaves +
               "%q = mul(%p, %p)\n%s = sum(%q) {axes=[1], keepdims=true}\n%y = add(%s, %x)\noutput y = %y",
           true},
          {"a region of the load phase that each run reads",
           leaves + "%q = mul(%p, %p)\n%y = sum(%x) {axes=[1]}\noutput y = %y\noutput q = %q", false},
      });
}

}  // namespace
}  // namespace rlx::testing
