// Ops that took casts around them round where the nodes did: compared with the nodes, run one by one, and
// with numbers that are computed here, in double precision, with one rounding for each node.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <random>

#include "base/half.h"
#include "rlx/compile.h"
#include "rlx/graph.h"
#include "rlx/tensor.h"
#include "tests/support/compare.h"
#include "tests/support/devices.h"

namespace rlx::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double half(double x) { return float_from_f16(f16_from_double(x)); }

// How far x is from where its rounding to f16 changes, in units of the last place of f32, of which a sum may
// be wrong by some: only numbers that are not near have a rounding that can be told.
bool is_near_tie(double x) {
  if (!std::isfinite(x)) return false;
  const double unit = 16 * std::numeric_limits<float>::epsilon() * std::fabs(x);
  return half(x - unit) != half(x + unit);
}

constexpr int64_t kRows = 9, kLength = 260;

// Rows of usual numbers, of large and of small ones, one that overflows, and some with what spreads.
std::vector<double> rows(uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, 1);
  const double sizes[kRows] = {1, 3, 300, 30000, 1e-3, 1e-6, 1, 1, 0};
  std::vector<double> out(kRows * kLength);
  for (size_t i = 0; i < out.size(); ++i) out[i] = half(sizes[i / kLength] * normal(random));
  out[6 * kLength + 17] = kInf;
  out[7 * kLength + 5] = kNan;
  return out;
}

std::vector<double> factors() {
  std::mt19937 random(5);
  std::normal_distribution<double> normal(1, 0.2);
  std::vector<double> out(kLength);
  for (double& v : out) v = half(normal(random));
  out[3] = 60000;  // the product overflows where the norm is above 1.09
  out[4] = half(6e-8);
  out[5] = -kInf;
  return out;
}

Tensor halves(std::vector<int64_t> dims, const std::vector<double>& values) {
  return Tensor::from_doubles(DType::f16, std::move(dims), values);
}

struct Both {
  NamedTensors fused, nodes;
};
Both run_both(const std::string& body, const NamedTensors& inputs, std::string_view sign) {
  const Graph g = parse_graph("graph g {\n" + body + "}");
  Executable exe = compile(g, full_device());
  EXPECT_TRUE(to_text(*exe.graph()).contains(sign)) << to_text(*exe.graph());
  return {exe.run(inputs), compile(g, full_device(), {.optimize = false}).run(inputs)};
}

// `between` is what is rounded to f16 on the way, `wanted` the result of it.
void expect_rounded(const Tensor& got, const std::vector<double>& between,
                    const std::vector<double>& wanted) {
  int64_t told = 0;
  for (int64_t i = 0; i < got.elements(); ++i) {
    const double want = wanted[static_cast<size_t>(i)];
    if (is_near_tie(between[static_cast<size_t>(i)])) continue;
    ++told;
    EXPECT_TRUE(std::isnan(want) ? std::isnan(got.real(i)) : got.real(i) == want)
        << i << ": " << got.real(i) << " instead of " << want;
  }
  EXPECT_GT(told, got.elements() * 9 / 10);
}

// The root-mean-square norm of each row, not rounded.
std::vector<double> rms_norms(const std::vector<double>& x, double eps) {
  std::vector<double> out(x.size());
  for (size_t row = 0; row < x.size(); row += kLength) {
    double squares = 0;
    for (size_t j = row; j < row + kLength; ++j) squares += x[j] * x[j];
    for (size_t j = row; j < row + kLength; ++j) out[j] = x[j] / std::sqrt(squares / kLength + eps);
  }
  return out;
}

const std::string kRmsNorm = R"(
  %w = cast(%s) {to=f32}
  %sq = pow(%w, 2)
  %v = mean(%sq) {axes=[-1], keepdims=true}
  %e = add(%v, 0.000001)
  %d = sqrt(%e)
  %r = div(1.0, %d)
  %q = mul(%w, %r)
  %h = cast(%q) {to=f16}
)";

TEST(Casts, ANormInF32OfF16RoundsBeforeGammaAndAfter) {
  const std::vector<double> x = rows(1), gamma = factors();
  const auto [fused, nodes] = run_both(
      "%s = input : f16[9, 260]\n%g = input : f16[260]" + kRmsNorm + "%y = mul(%g, %h)\noutput y = %y\n",
      {{"s", halves({kRows, kLength}, x)}, {"g", halves({kLength}, gamma)}}, "rounding=\"scaled\"");
  const std::vector<double> norm = rms_norms(x, 0.000001);
  std::vector<double> want(norm.size());
  for (size_t i = 0; i < want.size(); ++i) want[i] = half(half(norm[i]) * gamma[i % kLength]);
  expect_rounded(fused.at("y"), norm, want);
  expect_rounded(nodes.at("y"), norm, want);
}

// gamma in f32 is multiplied before the one rounding.
TEST(Casts, ANormWithGammaInF32RoundsOnce) {
  const std::vector<double> x = rows(2), gamma = factors();
  const auto [fused, nodes] = run_both(
      "%s = input : f16[9, 260]\n%g = input : f32[260]" + kRmsNorm +
          "%p = mul(%q, %g)\n%y = cast(%p) {to=f16}\noutput y = %y\n",
      {{"s", halves({kRows, kLength}, x)}, {"g", Tensor::from_doubles(DType::f32, {kLength}, gamma)}},
      "= rms_norm(%s, %g) {eps=9.999999974752427e-07}");
  std::vector<double> norm = rms_norms(x, 0.000001);
  for (size_t i = 0; i < norm.size(); ++i) norm[i] *= gamma[i % kLength];
  std::vector<double> want;
  for (const double v : norm) want.push_back(half(v));
  expect_rounded(fused.at("y"), norm, want);
  expect_rounded(nodes.at("y"), norm, want);
}

// The sum is rounded to f16, or infinite, before the norm reads it.
TEST(Casts, ANormOfASumInF16) {
  const std::vector<double> x = rows(3), residual = rows(4), gamma = factors();
  const auto [fused, nodes] =
      run_both("%x = input : f16[9, 260]\n%b = input : f16[9, 260]\n%g = input : f16[260]\n%s = add(%x, %b)" +
                   kRmsNorm + "%y = mul(%g, %h)\noutput y = %y\noutput s = %s\n",
               {{"x", halves({kRows, kLength}, x)},
                {"b", halves({kRows, kLength}, residual)},
                {"g", halves({kLength}, gamma)}},
               "= residual_rms_norm(");
  std::vector<double> sum;
  for (size_t i = 0; i < x.size(); ++i) sum.push_back(half(x[i] + residual[i]));
  EXPECT_GT(std::ranges::count(sum, kInf) + std::ranges::count(sum, -kInf), 1);
  const std::vector<double> norm = rms_norms(sum, 0.000001);
  std::vector<double> want(norm.size());
  for (size_t i = 0; i < want.size(); ++i) want[i] = half(half(norm[i]) * gamma[i % kLength]);
  for (const NamedTensors* got : {&fused, &nodes}) {
    expect_rounded(got->at("y"), norm, want);
    EXPECT_TRUE(within(got->at("s").doubles(), sum, 0));
  }
}

// A residual stream in f32 whose norms are f16, as T5 has it where only the last product of a layer is f32.
TEST(Casts, ANormOfF32WithAResultInF16) {
  const std::vector<double> x = rows(6), gamma = factors();
  std::string body =
      "%s = input : f32[9, 260]\n%g = input : f16[260]" + kRmsNorm + "%y = mul(%g, %h)\noutput y = %y\n";
  const size_t cast = body.find("%w = cast(%s) {to=f32}");
  body.replace(cast, 22, "%w = neg(%s)");
  std::vector<double> norm = rms_norms(x, 0.000001);
  std::vector<double> want(norm.size());
  for (size_t i = 0; i < want.size(); ++i) want[i] = half(half(-norm[i]) * gamma[i % kLength]);
  const auto [fused, nodes] = run_both(
      body, {{"s", Tensor::from_doubles(DType::f32, {kRows, kLength}, x)}, {"g", halves({kLength}, gamma)}},
      "to=f16, rounding=\"scaled\"");
  expect_rounded(fused.at("y"), norm, want);
  expect_rounded(nodes.at("y"), norm, want);
}

// Such a stream, and a residual of f16: the sum is rounded to f32 and to nothing else.
TEST(Casts, ANormOfASumOfF32AndF16) {
  const std::vector<double> residual = rows(14);
  std::vector<double> x = rows(15);
  for (double& v : x) v *= 1.0009765625;
  const auto [fused, nodes] = run_both(
      "%x = input : f32[9, 260]\n%r = input : f16[9, 260]\n%z = neg(%x)\n%w = cast(%r) {to=f32}\n%s = "
      "add(%w, %z)\n"
      "%n = rms_norm(%s) {eps=0.000001}\n%y = cast(%n) {to=f16}\noutput y = %y\noutput s = %s\n",
      {{"x", Tensor::from_doubles(DType::f32, {kRows, kLength}, x)},
       {"r", halves({kRows, kLength}, residual)}},
      "= residual_rms_norm(%z, %r)");
  std::vector<double> sum;
  for (size_t i = 0; i < x.size(); ++i)
    sum.push_back(static_cast<double>(static_cast<float>(residual[i]) - static_cast<float>(x[i])));
  const std::vector<double> norm = rms_norms(sum, 0.000001);
  std::vector<double> want;
  for (const double v : norm) want.push_back(half(v));
  for (const NamedTensors* got : {&fused, &nodes}) {
    expect_rounded(got->at("y"), norm, want);
    EXPECT_TRUE(within(got->at("s").doubles(), sum, 0));
  }
}

TEST(Casts, ALayerNormBetweenCasts) {
  std::vector<double> x = rows(7);
  const auto [fused, nodes] = run_both(
      "%x = input : f16[9, 260]\n%w = cast(%x) {to=f32}\n%n = layer_norm(%w)\n%h = cast(%n) {to=f16}\n"
      "%g = input : f16[260]\n%p = mul(%h, %g)\n%y = add(%p, 0.1)\noutput y = %y\n",
      {{"x", halves({kRows, kLength}, x)}, {"g", halves({kLength}, factors())}},
      "= layer_norm(%x, %g) {rounding=\"scaled\"}");
  std::vector<double> norm(x.size()), want(x.size());
  for (size_t row = 0; row < x.size(); row += kLength) {
    const double mean = std::accumulate(&x[row], &x[row] + kLength, 0.0) / kLength;
    for (size_t j = row; j < row + kLength; ++j) norm[j] = x[j] - mean;
    double squares = 0;
    for (size_t j = row; j < row + kLength; ++j) squares += norm[j] * norm[j];
    for (size_t j = row; j < row + kLength; ++j) {
      norm[j] /= std::sqrt(squares / kLength + 1e-5);
      want[j] = half(half(half(norm[j]) * factors()[j - row]) + half(0.1));
    }
  }
  expect_rounded(fused.at("y"), norm, want);
  expect_rounded(nodes.at("y"), norm, want);
}

// One rounding for each step of a norm; `sure` becomes false where the order of a sum, or the error of a
// function, can change one.
double rounded(double x, bool& sure) {
  sure = sure && !is_near_tie(x);
  return half(x);
}

enum class Steps { layer_in_f32, layer, rms };

// gamma times the norm of each row, with the roundings of the nodes; nothing where one of them is not sure.
std::vector<std::optional<double>> normed(const std::vector<double>& x, const std::vector<double>& gamma,
                                          Steps steps) {
  std::vector<std::optional<double>> out;
  for (size_t row = 0; row < x.size(); row += kLength) {
    bool sure = true;
    std::vector<double> c(&x[row], &x[row] + kLength);
    if (steps != Steps::rms) {
      const double mean = rounded(std::accumulate(c.begin(), c.end(), 0.0) / kLength, sure);
      for (double& v : c) v = half(v - mean);
    }
    const bool f32 = steps == Steps::layer_in_f32;
    double squares = 0;
    for (const double v : c) squares += f32 ? v * v : half(v * v);
    double root = 0;
    if (f32) {
      root = std::sqrt(squares / kLength + half(0.001));
    } else {
      root = rounded(std::sqrt(rounded(rounded(squares / kLength, sure) + half(0.001), sure)), sure);
    }
    const double factor = steps == Steps::rms ? rounded(1 / root, sure) : 0;
    for (size_t j = 0; j < kLength; ++j) {
      bool told = sure;
      const double n = rounded(steps == Steps::rms ? c[j] * factor : c[j] / root, told);
      out.push_back(told ? std::optional(half(half(n * gamma[j]) + half(0.5))) : std::nullopt);
    }
  }
  return out;
}

void expect_where_sure(const Tensor& got, const std::vector<std::optional<double>>& wanted) {
  int64_t told = 0;
  for (int64_t i = 0; i < got.elements(); ++i) {
    const std::optional<double>& want = wanted[static_cast<size_t>(i)];
    if (!want) continue;
    ++told;
    EXPECT_TRUE(std::isnan(*want) ? std::isnan(got.real(i)) : got.real(i) == *want)
        << i << ": " << got.real(i) << " instead of " << *want;
  }
  EXPECT_GT(told, got.elements() * 3 / 4);
}

// PyTorch exports the layer norm of a model in f16 like this before opset 17: its mean is rounded, and so is
// what is left; the rest is f32. Converters write all of it in f16: squares of more than 256 are infinite.
TEST(Casts, NormsWrittenOutInF16RoundTheirSteps) {
  const std::string leaves = "%x = input : f16[9, 260]\n%g = input : f16[260]\n";
  const std::string centered = "%mean = mean(%x) {axes=[-1], keepdims=true}\n%c = sub(%x, %mean)\n";
  const auto deviation = [](const std::string& c) {
    return "%sq = pow(" + c +
           ", 2)\n%v = mean(%sq) {axes=[-1], keepdims=true}\n%e = add(%v, %eps)\n%d = sqrt(%e)\n";
  };
  const std::string end = "%p = mul(%n, %g)\n%y = add(%p, 0.5)\noutput y = %y\n";
  const std::string f16_eps = "%eps = constant {value=tensor f16[] (0.001)}\n";
  const std::string f32_eps = "%h = constant {value=tensor f16[] (0.001)}\n%eps = cast(%h) {to=f32}\n";
  struct Case {
    Steps steps;
    std::string body, sign;
  };
  const std::vector<double> gamma = factors();
  for (const Case& c :
       {Case{Steps::layer_in_f32,
             leaves + f32_eps + centered + "%w = cast(%c) {to=f32}\n" + deviation("%w") +
                 "%q = div(%w, %d)\n%n = cast(%q) {to=f16}\n" + end,
             "rounding=\"centered\""},
        Case{Steps::layer, leaves + f16_eps + centered + deviation("%c") + "%n = div(%c, %d)\n" + end,
             "= layer_norm("},
        Case{Steps::rms, leaves + f16_eps + deviation("%x") + "%r = div(1.0, %d)\n%n = mul(%x, %r)\n" + end,
             "= rms_norm("}}) {
    SCOPED_TRACE(c.sign);
    // Enough rows that in some the rounding of the variance is seen behind that of its root.
    for (uint32_t seed = 13; seed < 21; ++seed) {
      const std::vector<double> x = rows(seed);
      const auto [fused, nodes] =
          run_both(c.body, {{"x", halves({kRows, kLength}, x)}, {"g", halves({kLength}, gamma)}}, c.sign);
      const auto want = normed(x, gamma, c.steps);
      expect_where_sure(fused.at("y"), want);
      expect_where_sure(nodes.at("y"), want);
    }
  }
}

// Four products are rounded to f16, or infinite, before they are added.
TEST(Casts, ARotationOfF16RoundsItsProducts) {
  std::mt19937 random(8);
  std::uniform_real_distribution<double> angle(-4, 4);
  std::vector<double> x = rows(9);
  x.resize(6 * 40 * 8);
  std::vector<double> angles(40 * 4);
  for (double& a : angles) a = angle(random);
  x[5] = 60000;
  x[1] = -60000;  // with a cosine and a sine of 0.7 the sum overflows
  angles[1] = 0.785;
  x[100] = -kInf;
  angles[70] = kNan;
  const auto [fused, nodes] =
      run_both(R"(
    %x = input : f16[2, 3, 40, 8]
    %a = input : f32[1, 40, 4]
    %t = concat(%a, %a) {axis=-1}
    %c32 = cos(%t)
    %s32 = sin(%t)
    %c16 = cast(%c32) {to=f16}
    %s16 = cast(%s32) {to=f16}
    %c = reshape(%c16) {shape=[1, 1, 40, 8]}
    %s = reshape(%s16) {shape=[1, 1, 40, 8]}
    %first = slice(%x) {axis=3, start=0, length=4}
    %second = slice(%x) {axis=3, start=4, length=4}
    %minus = neg(%second)
    %turned = concat(%minus, %first) {axis=3}
    %kept = mul(%x, %c)
    %moved = mul(%turned, %s)
    %y = add(%kept, %moved)
    output y = %y
    output c = %c16
    output s = %s16
  )",
               {{"x", halves({2, 3, 40, 8}, x)}, {"a", Tensor::from_doubles(DType::f32, {1, 40, 4}, angles)}},
               "round_products=true");
  std::vector<double> want(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t table = i % 320, within_row = i % 8;
    const double other = within_row < 4 ? -x[i + 4] : x[i - 4];
    const auto at = static_cast<int64_t>(table);
    want[i] = half(half(x[i] * nodes.at("c").real(at)) + half(other * nodes.at("s").real(at)));
  }
  EXPECT_TRUE(within(fused.at("y").doubles(), want, 0));
  EXPECT_TRUE(within(nodes.at("y").doubles(), want, 0));
  EXPECT_GT(std::ranges::count_if(want, [](double v) { return std::isinf(v); }), 1);
}

// Scores are rounded to f16 before softmax, weights after it; one that overflows is infinite, and its row
// NaN.
TEST(Casts, SoftmaxInF32BetweenProductsOfF16) {
  std::mt19937 random(10);
  std::normal_distribution<double> normal(0, 1);
  const auto some = [&](size_t n) {
    std::vector<double> out(n);
    for (double& v : out) v = half(normal(random));
    return out;
  };
  std::vector<double> q = some(2 * 5 * 16), k = some(2 * 7 * 16), v = some(2 * 7 * 16), mask(5 * 7, 0);
  for (size_t i = 0; i < 7; ++i) mask[i] = i < 3 ? 0 : -65504;  // what becomes infinite, and less than others
  for (size_t i = 7; i < 14; ++i) mask[i] = i < 10 ? 0 : -kInf;
  for (size_t d = 0; d < 16; ++d) q[3 * 16 + d] = 30000, k[2 * 16 + d] = 1;
  const auto [fused, nodes] = run_both(R"(
    %q = input : f16[1, 2, 5, 16]
    %k = input : f16[1, 2, 7, 16]
    %v = input : f16[1, 2, 7, 16]
    %m = input : f16[5, 7]
    %kt = transpose(%k) {perm=[0, 1, 3, 2]}
    %p = matmul(%q, %kt)
    %z = mul(%p, 0.25)
    %s = add(%z, %m)
    %w = cast(%s) {to=f32}
    %e = softmax(%w) {axis=3}
    %h = cast(%e) {to=f16}
    %y = matmul(%h, %v)
    output y = %y
  )",
                                       {{"q", halves({1, 2, 5, 16}, q)},
                                        {"k", halves({1, 2, 7, 16}, k)},
                                        {"v", halves({1, 2, 7, 16}, v)},
                                        {"m", halves({5, 7}, mask)}},
                                       "round_scores=true");
  std::vector<double> want(2 * 5 * 16);
  for (size_t row = 0; row < 10; ++row) {
    const size_t head = row / 5;
    double scores[7], largest = -kInf, sum = 0;
    for (size_t j = 0; j < 7; ++j) {
      double product = 0;
      for (size_t d = 0; d < 16; ++d) product += q[row * 16 + d] * k[(head * 7 + j) * 16 + d];
      scores[j] = half(half(half(product) * 0.25) + mask[row % 5 * 7 + j]);
      largest = std::max(largest, scores[j]);
    }
    for (double& s : scores) sum += s = std::exp(s - largest);
    for (size_t d = 0; d < 16; ++d) {
      double y = 0;
      for (size_t j = 0; j < 7; ++j) y += half(scores[j] / sum) * v[(head * 7 + j) * 16 + d];
      want[row * 16 + d] = half(y);
    }
  }
  EXPECT_TRUE(std::isnan(want[3 * 16]));
  // A score, a weight and the result may each be rounded the other way.
  EXPECT_TRUE(within(fused.at("y").doubles(), want, 0x1p-8));
  EXPECT_TRUE(within(nodes.at("y").doubles(), want, 0x1p-8));
}

// T5 clamps to less where anything is infinite, all over the tensor, and normalises that.
TEST(Casts, AClampThatDependsOnInfinities) {
  const std::string clamp = R"(
    %x = input : f16[9, 260]
    %f = is_inf(%x)
    %c = cast(%f) {to=i64}
    %n = sum(%c)
    %any = greater(%n, 0)
    %small = constant {value=tensor f32[] (64504)}
    %large = constant {value=tensor f32[] (65504)}
    %most = where(%any, %small, %large)
    %least = neg(%most)
    %low = cast(%least) {to=f16}
    %high = cast(%most) {to=f16}
    %raised = maximum(%x, %low)
    %s = minimum(%raised, %high)
    output s = %s
  )";
  const std::vector<double> gamma = factors();
  std::vector<double> x = rows(12);
  for (double& v : x) v = std::clamp(v, -65504.0, 65504.0);
  x[3] = 65504;
  x[kLength + 1] = -65472;
  for (const double spread : {1.0, kInf, -kInf, kNan}) {
    SCOPED_TRACE(spread);
    x[6 * kLength + 17] = spread;
    x[7 * kLength + 5] = kNan;
    const NamedTensors inputs = {{"x", halves({kRows, kLength}, x)}, {"g", halves({kLength}, gamma)}};
    const Both alone =
        run_both("%g = input : f16[260]\n" + clamp, inputs, "= mapped_reduce(%x) {kind=\"max\"");
    const Both normed =
        run_both("%g = input : f16[260]\n" + clamp + kRmsNorm + "%y = mul(%g, %h)\noutput y = %y\n", inputs,
                 "= residual_rms_norm(%x, none, none, %g");
    const double most = std::isinf(spread) ? 64512 : 65504;  // 64504 is no f16
    std::vector<double> want;
    for (const double v : x) want.push_back(std::isnan(v) ? v : std::clamp(v, -most, most));
    const std::vector<double> norm = rms_norms(want, 0.000001);
    std::vector<double> scaled(norm.size());
    for (size_t i = 0; i < norm.size(); ++i) scaled[i] = half(half(norm[i]) * gamma[i % kLength]);
    for (const NamedTensors* got : {&alone.fused, &alone.nodes, &normed.fused, &normed.nodes})
      EXPECT_TRUE(within(got->at("s").doubles(), want, 0));
    expect_rounded(normed.fused.at("y"), norm, scaled);
    expect_rounded(normed.nodes.at("y"), norm, scaled);
  }
}

// Whisper clamps what a layer adds up: an infinity, of the sum or of what was there before, becomes 64504, a
// NaN stays.
TEST(Casts, AClampBehindAProductAndAResidual) {
  std::mt19937 random(16);
  std::uniform_int_distribution<int> small(-8, 8);
  std::vector<double> a(kRows * 4), b(4 * kLength), bias(kLength);
  for (std::vector<double>* values : {&a, &b, &bias}) {
    for (double& v : *values) v = small(random);  // so that products are exact
  }
  std::vector<double> residual = rows(17);
  residual[3] = 65504;
  residual[4] = -65504;
  residual[5] = -kInf;
  bias[3] = 64;
  bias[4] = -64;
  const auto [fused, nodes] = run_both(R"(
    %a = input : f16[9, 4]
    %b = input : f16[4, 260]
    %bias = input : f16[260]
    %r = input : f16[9, 260]
    %m = matmul(%a, %b)
    %n = add(%m, %bias)
    %s = add(%r, %n)
    %low = maximum(%s, -64504)
    %c = minimum(%low, 64504)
    %y = layer_norm(%c)
    output c = %c
    output y = %y
  )",
                                       {{"a", halves({kRows, 4}, a)},
                                        {"b", halves({4, kLength}, b)},
                                        {"bias", halves({kLength}, bias)},
                                        {"r", halves({kRows, kLength}, residual)}},
                                       "epilogue=");
  std::vector<double> want;
  for (size_t i = 0; i < residual.size(); ++i) {
    double product = 0;
    for (size_t k = 0; k < 4; ++k) product += a[i / kLength * 4 + k] * b[k * kLength + i % kLength];
    const double sum = half(residual[i] + half(product + bias[i % kLength]));
    want.push_back(std::isnan(sum) ? sum : std::clamp(sum, half(-64504), half(64504)));
  }
  EXPECT_EQ(want[5], half(-64504));
  for (const NamedTensors* got : {&fused, &nodes}) EXPECT_TRUE(within(got->at("c").doubles(), want, 0));
  EXPECT_TRUE(within(fused.at("y").doubles(), nodes.at("y").doubles(), 6e-8, 0x1p-10));
}

TEST(Casts, OpsThatRoundOnce) {
  const std::vector<double> x = rows(11);
  for (const std::string op : {"softmax(%w)", "log_softmax(%w)", "mean(%w) {axes=[1]}", "sum(%w) {axes=[0]}",
                               "max(%w) {axes=[1]}", "group_norm(%w) {groups=4}"}) {
    SCOPED_TRACE(op);
    const auto [fused, nodes] = run_both("%x = input : f16[9, 260]\n%w = cast(%x) {to=f32}\n%s = " + op +
                                             "\n%y = cast(%s) {to=f16}\noutput y = %y\n",
                                         {{"x", halves({kRows, kLength}, x)}}, "(%x)");
    // One unit of f16: the order of a sum decides how a number near a tie is rounded.
    EXPECT_TRUE(within(fused.at("y").doubles(), nodes.at("y").doubles(), 6e-8, 0x1p-10));
  }
}

}  // namespace
}  // namespace rlx::testing
