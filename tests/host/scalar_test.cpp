// The host forms of the scalar functions against facts known from elsewhere, and the rows against their own
// fields.
#include "ops/elementwise/scalar.h"

#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>
#include <limits>
#include <set>
#include <string>
#include <vector>

namespace rlx {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kIntMin = std::numeric_limits<int32_t>::min();

const ScalarFn& row(std::string_view name) {
  const ScalarFn* fn = find_scalar(name);
  if (!fn) throw std::runtime_error("no scalar function " + std::string(name));
  return *fn;
}

double real(std::string_view name, std::initializer_list<double> args) {
  return row(name).real(std::data(args));
}
int64_t integer(std::string_view name, std::initializer_list<int64_t> args) {
  return row(name).integer(std::data(args));
}
bool compare(std::string_view name, std::initializer_list<double> args) {
  return row(name).compare_real(std::data(args));
}

// ---- every row ----

TEST(ScalarTable, NamesAreUniqueAndFound) {
  std::set<std::string_view> names;
  for (const ScalarFn& fn : scalar_functions()) {
    EXPECT_TRUE(names.insert(fn.name).second) << fn.name << " is there twice";
    EXPECT_EQ(find_scalar(fn.name), &fn);
    EXPECT_FALSE(fn.formula.empty()) << fn.name;
  }
  EXPECT_EQ(find_scalar("no_such_function"), nullptr);
}

void expect_arguments(const ScalarFn& fn, std::string_view wgsl) {
  if (wgsl.empty()) return;
  std::vector<bool> used(static_cast<size_t>(fn.arity), false);
  for (size_t at = wgsl.find('$'); at != std::string_view::npos; at = wgsl.find('$', at + 1)) {
    const int index = wgsl.at(at + 1) - '0';
    ASSERT_TRUE(index >= 0 && index < fn.arity) << fn.name << ": " << wgsl;
    used[static_cast<size_t>(index)] = true;
  }
  for (int i = 0; i < fn.arity; ++i)
    EXPECT_TRUE(used[static_cast<size_t>(i)]) << fn.name << ": no $" << i << " in " << wgsl;
}

TEST(ScalarTable, FormsUseAllArguments) {
  for (const ScalarFn& fn : scalar_functions()) {
    EXPECT_TRUE(fn.arity >= 1 && fn.arity <= 3) << fn.name;
    for (std::string_view wgsl : {fn.f32, fn.i32, fn.u32, fn.boolean, fn.c64}) expect_arguments(fn, wgsl);
  }
}

TEST(ScalarTable, DeviceAndHostAgreeOnWhatIsDefined) {
  for (const ScalarFn& fn : scalar_functions()) {
    const bool boolean = fn.result == ScalarFn::Result::boolean;
    EXPECT_EQ(!fn.f32.empty(), boolean ? fn.compare_real != nullptr : fn.real != nullptr) << fn.name;
    EXPECT_EQ(!fn.i32.empty() || !fn.u32.empty() || !fn.boolean.empty(), fn.integer != nullptr) << fn.name;
    EXPECT_EQ(fn.i32.empty(), fn.u32.empty()) << fn.name;
    EXPECT_EQ(!fn.c64.empty(), fn.complex != nullptr) << fn.name;
    EXPECT_LT(fn.low, fn.high) << fn.name;
    EXPECT_LT(fn.int_low, fn.int_high) << fn.name;
    EXPECT_GE(fn.ulps, 0) << fn.name;
  }
}

TEST(ScalarTable, DefinedFor) {
  EXPECT_TRUE(defined_for(row("exp"), DType::bf16));
  EXPECT_FALSE(defined_for(row("exp"), DType::i32));
  EXPECT_TRUE(defined_for(row("bitwise_and"), DType::u8));
  EXPECT_FALSE(defined_for(row("bitwise_and"), DType::f32));
  for (DType t : kAllDTypes) EXPECT_TRUE(defined_for(row("where"), t)) << to_string(t);
  for (DType t : kAllDTypes) EXPECT_TRUE(defined_for(row("equal"), t)) << to_string(t);
  EXPECT_FALSE(defined_for(row("less"), DType::c64));
}

TEST(ScalarTable, UnaryFunctionsKeepNan) {
  for (const ScalarFn& fn : scalar_functions()) {
    if (fn.arity != 1 || !fn.real) continue;
    EXPECT_TRUE(std::isnan(fn.real(&kNan))) << fn.name;
  }
}

// ---- arithmetic ----

TEST(Scalar, NanWinsInMaxAndMin) {
  for (std::string_view name : {"maximum", "minimum"}) {
    EXPECT_TRUE(std::isnan(real(name, {kNan, 1}))) << name;
    EXPECT_TRUE(std::isnan(real(name, {1, kNan}))) << name;
  }
  EXPECT_TRUE(std::isnan(real("clamp", {kNan, 0, 1})));
  EXPECT_EQ(real("maximum", {2, 3}), 3);
  EXPECT_EQ(real("minimum", {2, 3}), 2);
  EXPECT_EQ(real("relu", {-kInf}), 0);
}

TEST(Scalar, ClampWithCrossedLimitsGivesTheUpperOne) {
  EXPECT_EQ(real("clamp", {0, 3, 1}), 1);
  EXPECT_EQ(integer("clamp", {0, 3, 1}), 1);
}

TEST(Scalar, IntegerDivision) {
  EXPECT_EQ(integer("div", {7, 2}), 3);
  EXPECT_EQ(integer("div", {-7, 2}), -3);
  EXPECT_EQ(integer("div", {7, 0}), 7);
  EXPECT_EQ(static_cast<int32_t>(integer("div", {kIntMin, -1})), kIntMin);
  const int64_t lowest = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(integer("div", {lowest, -1}), lowest);
  EXPECT_EQ(integer("fmod", {lowest, -1}), 0);
}

TEST(Scalar, ModTakesTheSignOfTheDivisorAndFmodOfTheDividend) {
  struct Case {
    int64_t a, b, mod, fmod;
  };
  for (const Case& c :
       {Case{7, 3, 1, 1}, Case{-7, 3, 2, -1}, Case{7, -3, -2, 1}, Case{-7, -3, -1, -1}, Case{6, -3, 0, 0}}) {
    EXPECT_EQ(integer("mod", {c.a, c.b}), c.mod) << c.a << " mod " << c.b;
    EXPECT_EQ(integer("fmod", {c.a, c.b}), c.fmod) << c.a << " fmod " << c.b;
    const auto a = static_cast<double>(c.a), b = static_cast<double>(c.b);
    EXPECT_EQ(real("mod", {a, b}), static_cast<double>(c.mod)) << a << " mod " << b;
    EXPECT_EQ(real("fmod", {a, b}), static_cast<double>(c.fmod)) << a << " fmod " << b;
  }
  EXPECT_EQ(integer("mod", {5, 0}), 0);
  EXPECT_EQ(integer("fmod", {5, 0}), 0);
}

TEST(Scalar, ModOfSpecialValues) {
  EXPECT_TRUE(std::isnan(real("mod", {1, 0})));
  EXPECT_TRUE(std::isnan(real("fmod", {kInf, 2})));
  EXPECT_EQ(real("fmod", {-5, kInf}), -5);
  EXPECT_EQ(real("mod", {-5, kInf}), kInf);
  EXPECT_TRUE(std::signbit(real("mod", {6, -3})));
}

TEST(Scalar, PowAsInC) {
  EXPECT_EQ(real("pow", {-2, 3}), -8);
  EXPECT_EQ(real("pow", {-2, -2}), 0.25);
  EXPECT_TRUE(std::isnan(real("pow", {-2, 0.5})));
  EXPECT_EQ(real("pow", {0, 0}), 1);
  EXPECT_EQ(real("pow", {kNan, 0}), 1);
  EXPECT_EQ(real("pow", {1, kNan}), 1);
  EXPECT_EQ(real("pow", {-1, kInf}), 1);
  EXPECT_EQ(real("pow", {0.5, -kInf}), kInf);
  EXPECT_EQ(real("pow", {-0.0, -3}), -kInf);
  EXPECT_EQ(real("pow", {-kInf, 3}), -kInf);
}

TEST(Scalar, IntegerPow) {
  EXPECT_EQ(integer("pow", {3, 4}), 81);
  EXPECT_EQ(integer("pow", {-3, 3}), -27);
  EXPECT_EQ(integer("pow", {0, 0}), 1);
  EXPECT_EQ(integer("pow", {2, -1}), 0);
  EXPECT_EQ(integer("pow", {0, -1}), 0);
  EXPECT_EQ(integer("pow", {1, -5}), 1);
  EXPECT_EQ(integer("pow", {-1, -5}), -1);
  EXPECT_EQ(integer("pow", {-1, -4}), 1);
  EXPECT_EQ(static_cast<int32_t>(integer("pow", {10, 10})), 1410065408);  // 10^10 modulo 2^32
}

TEST(Scalar, IntegerOverflowWraps) {
  const int64_t most = std::numeric_limits<int64_t>::max(), least = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(integer("add", {most, 1}), least);
  EXPECT_EQ(integer("sub", {least, 1}), most);
  EXPECT_EQ(integer("mul", {most, 2}), -2);
  EXPECT_EQ(integer("neg", {least}), least);
  EXPECT_EQ(integer("abs", {least}), least);
  EXPECT_EQ(static_cast<int32_t>(integer("abs", {kIntMin})), kIntMin);
}

TEST(Scalar, Shifts) {
  EXPECT_EQ(integer("left_shift", {1, 31}), int64_t{1} << 31);
  EXPECT_EQ(static_cast<int32_t>(integer("left_shift", {-1, 32})), 0);
  EXPECT_EQ(integer("left_shift", {1, 64}), 0);
  EXPECT_EQ(integer("left_shift", {1, -1}), 0);
  EXPECT_EQ(integer("right_shift", {-8, 1}), -4);
  EXPECT_EQ(integer("right_shift", {-8, 32}), -1);
  EXPECT_EQ(integer("right_shift", {-8, 100}), -1);
  EXPECT_EQ(integer("right_shift", {8, 100}), 0);
  EXPECT_EQ(integer("right_shift", {-8, -1}), -1);
  EXPECT_EQ(integer("right_shift", {0xffffffff, 31}), 1);  // u32
}

TEST(Scalar, Bits) {
  EXPECT_EQ(integer("bitwise_and", {12, 10}), 8);
  EXPECT_EQ(integer("bitwise_or", {12, 10}), 14);
  EXPECT_EQ(integer("bitwise_xor", {12, 10}), 6);
  EXPECT_EQ(integer("bitwise_not", {0}), -1);
}

// ---- comparisons ----

TEST(Scalar, ComparisonsWithNan) {
  for (std::string_view name : {"equal", "less", "less_equal", "greater", "greater_equal"}) {
    EXPECT_FALSE(compare(name, {kNan, 1})) << name;
    EXPECT_FALSE(compare(name, {1, kNan})) << name;
    EXPECT_FALSE(compare(name, {kNan, kNan})) << name;
  }
  EXPECT_TRUE(compare("not_equal", {kNan, kNan}));
  EXPECT_TRUE(compare("not_equal", {1, kNan}));
  EXPECT_TRUE(compare("equal", {0.0, -0.0}));
  EXPECT_TRUE(compare("is_nan", {kNan}));
  EXPECT_FALSE(compare("is_nan", {kInf}));
  EXPECT_TRUE(compare("is_inf", {-kInf}));
}

TEST(Scalar, ComparisonsOfEqualAndUnequal) {
  EXPECT_TRUE(compare("less_equal", {2, 2}));
  EXPECT_TRUE(compare("greater_equal", {2, 2}));
  EXPECT_FALSE(compare("less", {2, 2}));
  EXPECT_TRUE(compare("greater", {3, 2}));
  EXPECT_EQ(integer("less", {-1, 1}), 1);
  EXPECT_EQ(integer("greater", {-1, 1}), 0);
  const std::complex<double> pair[] = {{1, 2}, {1, 3}};
  EXPECT_EQ(row("equal").complex(pair), 0.0);
  EXPECT_EQ(row("not_equal").complex(pair), 1.0);
}

TEST(Scalar, Logic) {
  for (int64_t a : {0, 1}) {
    for (int64_t b : {0, 1}) {
      EXPECT_EQ(integer("logical_and", {a, b}), a & b);
      EXPECT_EQ(integer("logical_or", {a, b}), a | b);
      EXPECT_EQ(integer("logical_xor", {a, b}), a ^ b);
    }
    EXPECT_EQ(integer("logical_not", {a}), 1 - a);
  }
}

TEST(Scalar, WhereTakesTheOtherSideUntouched) {
  EXPECT_EQ(real("where", {1, 5, kNan}), 5);
  EXPECT_EQ(real("where", {0, kNan, 6}), 6);
  EXPECT_EQ(integer("where", {1, 5, 6}), 5);
}

// ---- rounding and sign ----

TEST(Scalar, RoundGoesToEven) {
  EXPECT_EQ(real("round", {0.5}), 0);
  EXPECT_EQ(real("round", {1.5}), 2);
  EXPECT_EQ(real("round", {2.5}), 2);
  EXPECT_EQ(real("round", {-0.5}), 0);
  EXPECT_EQ(real("round", {-1.5}), -2);
  EXPECT_EQ(real("floor", {-1.5}), -2);
  EXPECT_EQ(real("ceil", {-1.5}), -1);
  EXPECT_EQ(real("trunc", {-1.5}), -1);
}

TEST(Scalar, Sign) {
  EXPECT_EQ(real("sign", {-3}), -1);
  EXPECT_EQ(real("sign", {0}), 0);
  EXPECT_EQ(integer("sign", {-3}), -1);
  EXPECT_EQ(integer("sign", {0}), 0);
}

// ---- activations; the values are from mpmath with 30 digits ----

TEST(Scalar, ActivationsAtKnownPoints) {
  struct Case {
    std::string_view name;
    std::vector<double> args;
    double want;
  };
  const Case cases[] = {
      {"gelu", {-9}, -1.015729565358456583e-18},
      {"gelu", {-1}, -0.15865525393145705141},
      {"gelu", {0.5}, 0.34573123063700655182},
      {"gelu_approx", {-4}, -0.000070245948192372689818},
      {"gelu_approx", {0.5}, 0.34571400982514392204},
      {"silu", {-30}, -2.8072868906517896862e-12},
      {"sigmoid", {-30}, 9.3576229688392989538e-14},
      {"softplus", {-30}, 9.3576229688397367794e-14},
      {"mish", {-30}, -2.8072868906519210338e-12},
      {"silu", {2}, 1.7615941559557648881},
      {"sigmoid", {2}, 0.88079707797788244406},
      {"softplus", {2}, 2.1269280110429724964},
      {"mish", {2}, 1.9439589595339945203},
      {"erf", {0.25}, 0.27632639016823693299},
      {"elu", {-1, 0.5}, -0.3160602794142788392},
      {"celu", {-1, 0.5}, -0.43233235838169365405},
      {"selu", {-1}, -1.1113307378125627618},
      {"selu", {2}, 2.1014019747109609868},
      {"softsign", {-3}, -0.75},
      {"sin", {1e22}, -0.85220084976718880177},
      {"asinh", {-2}, -1.4436354751788103425},
      {"log1p", {1e-9}, 9.9999999950000000033e-10},
      {"rsqrt", {2}, 0.7071067811865475244},
      {"atan2", {1, -1}, 2.3561944901923449288},
  };
  for (const Case& c : cases) {
    EXPECT_NEAR(row(c.name).real(c.args.data()), c.want, 1e-14 * std::abs(c.want))
        << c.name << " " << c.args[0];
  }
}

TEST(Scalar, ActivationsAtInfinity) {
  for (std::string_view name : {"gelu", "gelu_approx", "silu", "mish", "softplus", "hard_swish", "selu"}) {
    EXPECT_EQ(real(name, {kInf}), kInf) << name;
  }
  for (std::string_view name : {"sigmoid", "softplus", "relu"}) EXPECT_EQ(real(name, {-kInf}), 0) << name;
  // PyTorch's values: 0 times infinity.
  for (std::string_view name : {"gelu", "gelu_approx", "silu", "mish", "hard_swish"}) {
    EXPECT_TRUE(std::isnan(real(name, {-kInf}))) << name;
    EXPECT_EQ(real(name, {-1e30}), 0) << name;
  }
  EXPECT_EQ(real("tanh", {-kInf}), -1);
  EXPECT_EQ(real("erf", {kInf}), 1);
  EXPECT_EQ(real("elu", {-kInf, 0.5}), -0.5);
  EXPECT_EQ(real("celu", {-kInf, 0.5}), -0.5);
  EXPECT_EQ(real("celu", {-2, kInf}), -2);
}

TEST(Scalar, LinearPieces) {
  EXPECT_EQ(real("leaky_relu", {-4, 0.25}), -1);
  EXPECT_EQ(real("leaky_relu", {4, 0.25}), 4);
  EXPECT_EQ(real("thresholded_relu", {1, 1}), 0);
  EXPECT_EQ(real("thresholded_relu", {1.5, 1}), 1.5);
  EXPECT_EQ(real("hard_sigmoid", {1, 0.25, 0.5}), 0.75);
  EXPECT_EQ(real("hard_sigmoid", {9, 0.25, 0.5}), 1);
  EXPECT_EQ(real("hard_swish", {-3}), 0);
  EXPECT_EQ(real("hard_swish", {3}), 3);
}

// ---- complex ----

TEST(Scalar, Complex) {
  const std::complex<double> a[] = {{1, 2}, {3, -1}};
  EXPECT_EQ(row("mul").complex(a), std::complex<double>(5, 5));
  EXPECT_LT(std::abs(row("div").complex(a) - std::complex<double>(0.1, 0.7)), 1e-15);
  EXPECT_EQ(row("conj").complex(a), std::complex<double>(1, -2));
  const std::complex<double> minus_four[] = {{-4, 0}};
  EXPECT_LT(std::abs(row("sqrt").complex(minus_four) - std::complex<double>(0, 2)), 1e-15);
  EXPECT_LT(std::abs(row("log").complex(minus_four) - std::complex<double>(std::log(4), M_PI)), 1e-15);
}

}  // namespace
}  // namespace rlx
