// Casts between f32 and 16-bit floats, around ops that compute in f32 anyway.
#include <gtest/gtest.h>

#include "passes/passes.h"
#include "tests/support/fusion_cases.h"

namespace rlx::testing {
namespace {

// A root-mean-square norm as Llama has it: in f32 of f16, which gamma multiplies.
struct HalfNorm {
  std::string x = "f16[4, 8]";
  std::string gamma = "%g = param : f16[8]";
  std::string widened = "%w = cast(%x) {to=f32}";
  std::string squares = "%sq = pow(%w, 2)\n%v = mean(%sq) {axes=[-1], keepdims=true}";
  std::string quotient = "%e = add(%v, 0.5)\n%d = sqrt(%e)\n%q = div(%w, %d)";
  std::string narrowed = "%h = cast(%q) {to=f16}";
  std::string end = "%y = mul(%g, %h)\noutput y = %y";

  std::string text() const {
    return "%x = input : " + x + "\n" + gamma + "\n" + widened + "\n" + squares + "\n" + quotient + "\n" +
           narrowed + "\n" + end;
  }
};

TEST(FuseNorms, TakesCastsAroundThem) {
  expect_cases(
      fuse_norms, "= rms_norm(%x, %g) {eps=0.5, rounding=\"scaled\"} : f16[4, 8]",
      {
          {"gamma after the cast", HalfNorm{}.text(), true},
          {"gamma in f32, before it",
           HalfNorm{.gamma = "%g = param : f32[8]",
                    .narrowed = "%p = mul(%q, %g)",
                    .end = "%y = cast(%p) {to=f16}\noutput y = %y"}
               .text(),
           false},
          {"others read the quotient",
           HalfNorm{.end = "%y = mul(%g, %h)\noutput y = %y\noutput q = %q"}.text(), false},
          {"others read what gamma multiplies",
           HalfNorm{.end = "%y = mul(%g, %h)\noutput y = %y\noutput h = %h"}.text(), false},
          {"rounded before the squares",
           HalfNorm{.widened = "%w = cast(%x) {to=f32}\n%z = mul(%x, 0.5)\n%u = cast(%z) {to=f32}",
                    .squares = "%sq = pow(%u, 2)\n%v = mean(%sq) {axes=[-1], keepdims=true}"}
               .text(),
           false},
          {"rounded after the mean",
           HalfNorm{.squares = "%sq = pow(%w, 2)\n%v0 = mean(%sq) {axes=[-1], keepdims=true}\n"
                               "%v1 = cast(%v0) {to=f16}\n%v = cast(%v1) {to=f32}"}
               .text(),
           false},
          {"another type after it",
           HalfNorm{.gamma = "%g = param : bf16[8]", .narrowed = "%h = cast(%q) {to=bf16}"}.text(), false},
          {"integers after it",
           HalfNorm{.gamma = "%g = param : i32[8]", .narrowed = "%h = cast(%q) {to=i32}"}.text(), false},
      });
  const std::string other = "= rms_norm(%x, %g) {eps=0.5} : f16[4, 8]";
  expect_cases(fuse_norms, other,
               {{"gamma in f32, before the cast",
                 HalfNorm{.gamma = "%g = param : f32[8]",
                          .narrowed = "%p = mul(%q, %g)",
                          .end = "%y = cast(%p) {to=f16}\noutput y = %y"}
                     .text(),
                 true}});
  expect_cases(fuse_norms, "to=f32",
               {{"others read the quotient",
                 HalfNorm{.end = "%y = mul(%g, %h)\noutput y = %y\noutput q = %q"}.text(), true}});
  expect_cases(
      fuse_norms, "to=bf16, rounding=\"scaled\"",
      {{"another type after it",
        HalfNorm{.gamma = "%g = param : bf16[8]", .narrowed = "%h = cast(%q) {to=bf16}"}.text(), true}});
  expect_cases(fuse_norms, "to=f16, rounding=\"scaled\"",
               {{"a residual stream in f32",
                 HalfNorm{.x = "f32[4, 8]", .widened = "%w = mul(%x, 0.5)"}.text(), true}});
}

TEST(FuseNorms, SeesReshapesOfWhatIsCast) {
  const auto norm = [](const std::string& x) {
    return "%x = input : f16[4, 24]\n%g = param : f16[8]\n" + x +
           "%v = mean(%sq) {axes=[-1], keepdims=true}\n%e = add(%v, 0.5)\n%d = sqrt(%e)\n%q = div(%w, %d)\n"
           "%h = cast(%q) {to=f16}\n%y = mul(%g, %h)\noutput y = %y";
  };
  expect_cases(fuse_norms, "= rms_norm(",
               {
                   {"heads",
                    norm("%c = cast(%x) {to=f32}\n%w = reshape(%c) {shape=[4, 3, 8]}\n%p = pow(%c, 2)\n"
                         "%sq = reshape(%p) {shape=[4, 3, 8]}\n"),
                    true},
                   {"of something else",
                    norm("%c = cast(%x) {to=f32}\n%w = reshape(%c) {shape=[4, 3, 8]}\n%p = pow(%c, 2)\n"
                         "%z = mul(%c, 0.5)\n%p2 = pow(%z, 2)\n%sq = reshape(%p2) {shape=[4, 3, 8]}\n"),
                    false},
               });
}

TEST(FuseNorms, TakesNormsOf16Bits) {
  const auto norm = [](const std::string& type, const std::string& quotient) {
    return "%x = input : " + type +
           "[4, 8]\n%mean = mean(%x) {axes=[-1], keepdims=true}\n%c = sub(%x, %mean)\n" + quotient +
           "output y = %y";
  };
  const auto deviation = [](const std::string& c) {
    return "%sq = pow(" + c +
           ", 2)\n%v = mean(%sq) {axes=[1], keepdims=true}\n%e = add(%v, 0.5)\n%d = sqrt(%e)\n";
  };
  const std::string wide = "%w = cast(%c) {to=f32}\n" + deviation("%w") + "%q = div(%w, %d)\n";
  expect_cases(
      fuse_norms, "rounding=\"each\"",
      {
          {"layer", norm("f16", deviation("%c") + "%y = div(%c, %d)\n"), true},
          {"with gamma",
           norm("bf16", "%g = param : bf16[8]\n" + deviation("%c") + "%n = div(%c, %d)\n%y = mul(%n, %g)\n"),
           true},
          {"root mean square", norm("f16", deviation("%x") + "%r = reciprocal(%d)\n%y = mul(%x, %r)\n"),
           true},
          {"one over the root", norm("f16", deviation("%x") + "%r = div(1, %d)\n%y = mul(%r, %x)\n"), true},
          {"a layer norm that multiplies",
           norm("f16", deviation("%c") + "%r = div(1, %d)\n%y = mul(%c, %r)\n"), false},
          {"a root mean square that divides", norm("f16", deviation("%x") + "%y = div(%x, %d)\n"), false},
          {"a root that is not rounded",
           norm("f16",
                "%sq = square(%x)\n%v = mean(%sq) {axes=[1], keepdims=true}\n%e = add(%v, 0.5)\n%r = "
                "rsqrt(%e)\n"
                "%y = mul(%x, %r)\n"),
           false},
          {"in f32", norm("f32", deviation("%c") + "%y = div(%c, %d)\n"), false},
      });
  expect_cases(
      fuse_norms, "= layer_norm(%x) {eps=0.5, rounding=\"centered\"}",
      {
          {"in f32 after the mean", norm("f16", wide + "%y = cast(%q) {to=f16}\n"), true},
          {"to another type", norm("f16", wide + "%y = cast(%q) {to=bf16}\n"), false},
          {"gamma in f32",
           norm("f16", wide + "%g = param : f32[8]\n%p = mul(%q, %g)\n%y = cast(%p) {to=f16}\n"), false},
          {"the mean of something else",
           "%x = input : f16[4, 8]\n%z = input : f16[4, 8]\n%mean = mean(%z) {axes=[-1], keepdims=true}\n"
           "%c = sub(%x, %mean)\n" +
               wide + "%y = cast(%q) {to=f16}\noutput y = %y",
           false},
          {"the mean of columns",
           "%x = input : f16[8, 8]\n%mean = mean(%x) {axes=[0], keepdims=true}\n%c = sub(%x, %mean)\n" +
               wide + "%y = cast(%q) {to=f16}\noutput y = %y",
           false},
      });
}

TEST(FuseNorms, TakesCastsAroundNormsThatAreOps) {
  const std::string leaves =
      "%x = input : f16[4, 8]\n%g = param : f32[8]\n%b = param : f32[8]\n%h = param : f16[8]\n"
      "%w = cast(%x) {to=f32}\n";
  expect_cases(
      fuse_norms, "= layer_norm(%x, %g, %b)",
      {
          {"between casts", leaves + "%n = layer_norm(%w, %g, %b)\n%y = cast(%n) {to=f16}\noutput y = %y",
           true},
          {"over one axis alone",
           leaves + "%n = layer_norm(%w, %g, %b) {only_axis=true}\n%y = cast(%n) {to=f16}\noutput y = %y",
           false},
      });
  expect_cases(
      fuse_norms, "rounding=\"scaled\"",
      {
          {"a factor of f16 alone",
           leaves + "%n = layer_norm(%w)\n%c = cast(%n) {to=f16}\n%y = mul(%c, %h)\noutput y = %y", true},
          {"what is added in f16 after a factor in f32",
           leaves + "%n = layer_norm(%w, %g)\n%c = cast(%n) {to=f16}\n%y = add(%c, %h)\noutput y = %y",
           false},
          {"both in f16", leaves + "%n = layer_norm(%x)\n%c = mul(%n, %h)\n%y = add(%c, %h)\noutput y = %y",
           true},
          {"a norm of f32, whose factor would be rounded elsewhere",
           leaves + "%n = layer_norm(%w)\n%y = mul(%n, %g)\noutput y = %y", false},
      });
}

TEST(NarrowOps, TakesCastsAroundOpsThatRoundOnce) {
  const std::string x = "%x = input : f16[4, 8]\n%w = cast(%x) {to=f32}\n";
  expect_cases(
      narrow_ops, "cast",
      {
          {"softmax", x + "%s = softmax(%w)\n%y = cast(%s) {to=f16}\noutput y = %y", false},
          {"a mean", x + "%s = mean(%w) {axes=[1]}\n%y = cast(%s) {to=f16}\noutput y = %y", false},
          {"after a reshape",
           x + "%r = reshape(%w) {shape=[2, 16]}\n%s = softmax(%r)\n%y = cast(%s) {to=f16}\noutput y = %y",
           false},
          {"a group norm with f32 weights",
           "%x = input : f16[2, 4, 3]\n%g = param : f32[4]\n%w = cast(%x) {to=f32}\n"
           "%s = group_norm(%w, %g) {groups=2}\n%y = cast(%s) {to=f16}\noutput y = %y",
           false},
          {"a function", x + "%s = pow(%w, 2)\n%y = cast(%s) {to=f16}\noutput y = %y", false},
          {"a choice",
           x + "%c = input : bool[4, 8]\n%s = where(%c, %w, 0.5)\n%y = cast(%s) {to=f16}\noutput y = %y",
           false},
          {"a number that f16 does not have", x + "%s = add(%w, 0.1)\n%y = cast(%s) {to=f16}\noutput y = %y",
           true},
          {"f32 beside it",
           x + "%z = input : f32[4, 8]\n%s = mul(%w, %z)\n%y = cast(%s) {to=f16}\noutput y = %y", true},
          {"bf16 beside it",
           x + "%z = input : bf16[4, 8]\n%v = cast(%z) {to=f32}\n%s = mul(%w, %v)\n%y = cast(%s) {to=f16}\n"
               "output y = %y",
           true},
          {"to another type", x + "%s = softmax(%w)\n%y = cast(%s) {to=bf16}\noutput y = %y", true},
          {"another reader", x + "%s = softmax(%w)\n%y = cast(%s) {to=f16}\noutput y = %y\noutput s = %s",
           true},
          {"computed in f32 before",
           x + "%z = exp(%w)\n%s = softmax(%z)\n%y = cast(%s) {to=f16}\noutput y = %y", true},
          {"f32 from the beginning",
           "%x = input : f32[4, 8]\n%s = softmax(%x)\n%y = cast(%s) {to=f16}\noutput y = %y", true},
      });
}

TEST(FuseResidualNorm, ReadsResidualsBeforeTheirCast) {
  const auto norm = [](const std::string& sum) {
    return "%x = input : f32[4, 8]\n%r = input : f16[4, 8]\n%w = cast(%r) {to=f32}\n%s = " + sum +
           "\n%n = rms_norm(%s)\noutput n = %n\noutput s = %s\n";
  };
  expect_cases(fuse_residual_norm, "= residual_rms_norm(%x, %r)",
               {
                   {"behind", norm("add(%x, %w)"), true},
                   {"in front", norm("add(%w, %x)"), true},
                   {"others read the cast", norm("add(%x, %w)") + "output w = %w", true},
                   {"rounded to f16", norm("add(%x, %x)"), false},
               });
  expect_cases(fuse_residual_norm, "= residual_rms_norm(%w, %r)",
               {{"both are casts", norm("add(%w, %w)"), true}});
}

TEST(FuseMatmulEpilogue, ReadsOperandsBeforeTheirCast) {
  const auto epilogue = [](const Graph& g) { return fuse_epilogue(g, 8); };
  const std::string m =
      "%a = input : f32[4, 8]\n%b = param : f32[8, 6]\n%r = input : f16[4, 6]\n%m = matmul(%a, %b)\n"
      "%w = cast(%r) {to=f32}\n%y = add(%m, %w)\noutput y = %y\n";
  expect_cases(
      epilogue, "matmul(%a, %b, %r)",
      {
          {"a residual of f16", m, true},
          {"others read the cast", m + "output w = %w\n", true},
          {"a cast that rounds",
           "%a = input : f16[4, 8]\n%b = param : f16[8, 6]\n%r = input : f32[4, 6]\n%m = matmul(%a, %b)\n"
           "%w = cast(%r) {to=f16}\n%y = add(%m, %w)\noutput y = %y\n",
           false},
      });
}

TEST(ReduceFlags, TakesCountsThatAreComparedWithZero) {
  const auto any = [](const std::string& count, const std::string& question) {
    return "%x = input : f16[4, 8]\n%f = is_inf(%x)\n" + count + "\n%y = " + question + "\noutput y = %y";
  };
  const std::string all = "%c = cast(%f) {to=i64}\n%n = sum(%c)";
  expect_cases(
      reduce_flags, "= max(",
      {
          {"more than none", any(all, "greater(%n, 0)"), true},
          {"none is less", any(all, "less(0, %n)"), true},
          {"not none", any(all, "not_equal(%n, 0)"), true},
          {"of each row",
           any("%c = cast(%f) {to=i64}\n%n = sum(%c) {axes=[1], keepdims=true}", "greater(%n, 0)"), true},
          {"of nothing",
           "%x = input : f16[0]\n%f = is_inf(%x)\n" + all + "\n%y = greater(%n, 0)\noutput y = %y", true},
          {"the count is an output", any(all, "greater(%n, 0)") + "\noutput n = %n", false},
          {"more than one", any(all, "greater(%n, 1)"), false},
          {"less than none", any(all, "less(%n, 0)"), false},
          {"counted in 8 bits", any("%c = cast(%f) {to=i8}\n%n = sum(%c)", "greater(%n, 0)"), false},
          {"a product", any("%c = cast(%f) {to=i64}\n%n = prod(%c)", "greater(%n, 0)"), false},
          {"numbers", "%x = input : i64[4, 8]\n%n = sum(%x)\n%y = greater(%n, 0)\noutput y = %y", false},
      });
}

// T5 in f16.
struct ClampedNorm {
  std::string flags = "%f = is_inf(%x)";
  std::string any = "%c = cast(%f) {to=f32}\n%n = max(%c)\n%set = greater(%n, 0)";
  std::string numbers = "%a = constant {value=tensor f32[] (1.5)}\n%b = constant {value=tensor f32[] (1.75)}";
  std::string low = "%minus = neg(%most)\n%low = cast(%minus) {to=f16}";
  std::string end = "%y = rms_norm(%s)\noutput y = %y\noutput s = %s\n";

  std::string text() const {
    return "%x = input : f16[4, 8]\n" + flags + "\n" + any + "\n" + numbers +
           "\n%most = where(%set, %a, %b)\n" + low +
           "\n%high = cast(%most) {to=f16}\n%r = maximum(%x, %low)\n%s = minimum(%r, %high)\n" + end;
  }
};

TEST(FuseClampedNorm, TakesClampsToLessWhereAFlagIsSet) {
  expect_cases(
      fuse_clamped_norm, "= residual_rms_norm(%x, none, none, none, none, %y.limit) {keep_sum=true}",
      {
          {"infinities", ClampedNorm{}.text(), true},
          {"other flags of it", ClampedNorm{.flags = "%z = input : f16[4, 8]\n%f = less(%x, %z)"}.text(),
           true},
          {"of another shape", ClampedNorm{.flags = "%z = input : f16[3]\n%f = is_inf(%z)"}.text(), false},
          {"of nothing", ClampedNorm{.flags = "%z = input : f16[0, 8]\n%f = is_inf(%z)"}.text(), false},
          {"whether all are set",
           ClampedNorm{.any = "%c = cast(%f) {to=f32}\n%n = min(%c)\n%set = greater(%n, 0)"}.text(), false},
          {"to more",
           ClampedNorm{
               .numbers =
                   "%a = constant {value=tensor f32[] (1.75)}\n%b = constant {value=tensor f32[] (1.5)}"}
               .text(),
           false},
          {"negative numbers",
           ClampedNorm{
               .numbers =
                   "%a = constant {value=tensor f32[] (-1.75)}\n%b = constant {value=tensor f32[] (1.5)}"}
               .text(),
           false},
          {"another number below", ClampedNorm{.low = "%low = constant {value=tensor f16[] (-1.5)}"}.text(),
           false},
          {"cast before the norm",
           ClampedNorm{
               .end =
                   "%w = cast(%s) {to=f32}\n%y = rms_norm(%s)\n%e = neg(%w)\noutput y = %y\noutput e = %e\n"}
               .text(),
           true},
          {"cast and read before the norm",
           ClampedNorm{
               .end =
                   "%w = cast(%s) {to=f32}\n%e = neg(%w)\n%y = rms_norm(%s)\noutput y = %y\noutput e = %e\n"}
               .text(),
           false},
          {"read before the norm",
           ClampedNorm{.end = "%e = neg(%s)\n%y = rms_norm(%s)\noutput y = %y\noutput e = %e\n"}.text(),
           false},
      });
  expect_cases(
      fuse_clamped_norm, "= residual_layer_norm(%x, none, none, %g, none, %y.limit) {rounding=\"each\"}",
      {{"nothing else reads it, and gamma",
        ClampedNorm{.end =
                        "%g = param : f16[8]\n%y = layer_norm(%s, %g) {rounding=\"each\"}\noutput y = %y\n"}
            .text(),
        true}});
}

TEST(Canonicalize, MergesCastsThatLoseNothing) {
  const std::string x = "%x = input : f16[4, 8]\n";
  const auto pass = [](const Graph& g) { return remove_dead_code(canonicalize(g)); };
  expect_cases(
      pass, "to=f32",
      {
          {"there and back", x + "%w = cast(%x) {to=f32}\n%y = cast(%w) {to=f16}\noutput y = %y", false},
          {"on to another type", x + "%w = cast(%x) {to=f32}\n%y = cast(%w) {to=bf16}\noutput y = %y", false},
          {"on to integers", x + "%w = cast(%x) {to=f32}\n%y = cast(%w) {to=i32}\noutput y = %y", false},
          {"rounded in between",
           "%x = input : f32[4, 8]\n%h = cast(%x) {to=f16}\n%y = cast(%h) {to=f32}\noutput y = %y", true},
      });
}

TEST(Canonicalize, KeepsCastsThatLose) {
  expect_cases(canonicalize, "cast(%b)",
               {{"through f16 and bf16",
                 "%x = input : f32[4, 8]\n%h = cast(%x) {to=f16}\n%b = cast(%h) {to=bf16}\n"
                 "%y = cast(%b) {to=f32}\noutput y = %y",
                 true}});
}

TEST(FuseAttention, TakesSoftmaxBetweenCasts) {
  const auto attention = [](const std::string& softmax) {
    return "%q = input : f16[2, 3, 5, 4]\n%k = input : f16[2, 3, 4, 7]\n%v = input : f16[2, 3, 7, 6]\n"
           "%m = input : f16[2, 1, 5, 7]\n%p = matmul(%q, %k)\n%z = mul(%p, 0.5)\n%s = add(%z, %m)\n" +
           softmax + "%y = matmul(%w, %v)\noutput y = %y";
  };
  const auto both = [](const Graph& g) { return fuse_attention(narrow_ops(canonicalize(g))); };
  expect_cases(
      both, "round_scores=true",
      {
          {"softmax in f32",
           attention("%a = cast(%s) {to=f32}\n%b = softmax(%a) {axis=3}\n%w = cast(%b) {to=f16}\n"), true},
          {"a cast behind it",
           attention("%a = softmax(%s) {axis=3}\n%b = cast(%a) {to=f32}\n%w = cast(%b) {to=f16}\n"), true},
          {"the mask in f32",
           attention("%a = cast(%s) {to=f32}\n%n = input : f32[5, 7]\n%c = add(%a, %n)\n"
                     "%b = softmax(%c) {axis=3}\n%w = cast(%b) {to=f16}\n"),
           false},
          {"weights through bf16",
           attention("%a = cast(%s) {to=f32}\n%b = softmax(%a) {axis=3}\n%c = cast(%b) {to=bf16}\n"
                     "%w = cast(%c) {to=f16}\n"),
           false},
      });
}

}  // namespace
}  // namespace rlx::testing
