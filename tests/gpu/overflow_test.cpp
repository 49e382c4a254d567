// i64 has 32 bits on the device: a result that needs more is an error of the run that names the node, and
// never a number that has wrapped.
#include <gtest/gtest.h>

#include "rlx/compile.h"
#include "rlx/executable.h"
#include "rlx/graph.h"
#include "rlx/ops/control_flow.h"
#include "rlx/ops/elementwise.h"
#include "rlx/tensor.h"
#include "tests/support/devices.h"
#include "tests/support/message.h"

namespace rlx::testing {
namespace {

constexpr int64_t kMax = INT32_MAX;
constexpr int64_t kMin = INT32_MIN;

Tensor i64s(const std::vector<int64_t>& values) { return Tensor::of<int64_t>({std::ssize(values)}, values); }

Executable compile(const std::string& text, bool optimize = true) {
  return rlx::compile(parse_graph("graph g {\n" + text + "\n}"), full_device(), {.optimize = optimize});
}

struct Case {
  std::string y;  // of %a and %b, i64[n]: an expression, or the statements that end in it
  std::vector<int64_t> a, b;
  std::vector<int64_t> want;  // empty: it overflows
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.y; }

class Overflow : public ::testing::TestWithParam<Case> {};

TEST_P(Overflow, IsNoticed) {
  const Case& c = GetParam();
  const auto ones = [](const std::vector<int64_t>& v) { return i64s(std::vector<int64_t>(v.size(), 1)); };
  for (const bool optimize : {true, false}) {
    Executable exe = compile(std::format("%a = input : i64[{}]\n%b = input : i64[{}]\n{}{}\noutput y = %y",
                                         c.a.size(), c.b.size(), c.y.starts_with('%') ? "" : "%y = ", c.y),
                             optimize);
    const NamedTensors inputs = {{"a", i64s(c.a)}, {"b", i64s(c.b)}};
    if (!c.want.empty()) {
      EXPECT_EQ(exe.run(inputs).at("y").integers(), c.want);
      continue;
    }
    EXPECT_SAYS(exe.run(inputs), "does not fit in 32 bits");
    EXPECT_NO_THROW(exe.run({{"a", ones(c.a)}, {"b", ones(c.b)}}));  // begins anew
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ops, Overflow,
    ::testing::Values(
        Case{"add(%a, %b)", {kMax, 3, kMin}, {0, 4, 5}, {kMax, 7, kMin + 5}},
        Case{"add(%a, %b)", {1, kMax, 1}, {1, 1, 1}, {}}, Case{"add(%a, %b)", {1, kMin}, {1, -1}, {}},
        Case{"sub(%a, %b)", {kMin, -1}, {0, kMax}, {kMin, kMin}}, Case{"sub(%a, %b)", {0, 0}, {kMin, 1}, {}},
        Case{"mul(%a, %b)", {65536, -65536, kMin, -1}, {-32768, 32768, 1, kMax}, {kMin, kMin, kMin, -kMax}},
        Case{"mul(%a, %b)", {65536, 2}, {32768, 2}, {}}, Case{"mul(%a, %b)", {kMin, 2}, {-1, 2}, {}},
        Case{"mul(%a, %b)", {kMax, 2}, {kMax, 2}, {}}, Case{"neg(%a)", {kMin + 1, 5}, {0}, {kMax, -5}},
        Case{"neg(%a)", {1, kMin}, {0}, {}}, Case{"abs(%a)", {kMin + 1, -5, 7}, {0}, {kMax, 5, 7}},
        Case{"abs(%a)", {kMin}, {0}, {}}, Case{"square(%a)", {46340, -46340}, {0}, {2147395600, 2147395600}},
        Case{"square(%a)", {46341}, {0}, {}}, Case{"div(%a, %b)", {kMin, 7, 7}, {1, -1, 0}, {kMin, -7, 7}},
        Case{"div(%a, %b)", {kMin}, {-1}, {}},
        Case{"pow(%a, %b)",
             {-2, 3, 1, 0, 2, -1},
             {31, 19, 1000, 0, -1, kMax},
             {kMin, 1162261467, 1, 1, 0, -1}},
        Case{"pow(%a, %b)", {2}, {31}, {}}, Case{"pow(%a, %b)", {46341}, {2}, {}},
        Case{"left_shift(%a, %b)", {1, -1, 5, 0, 1}, {30, 31, 64, 40, -1}, {1 << 30, kMin, 0, 0, 0}},
        Case{"left_shift(%a, %b)", {1}, {31}, {}}, Case{"left_shift(%a, %b)", {1}, {40}, {}},
        // What is computed on the way counts too.
        Case{"%t = add(%a, %b)\n%y = sub(%t, %b)", {kMax}, {1}, {}},
        Case{"%t = add(%a, %b)\n%y = greater(%t, 0)", {kMax}, {1}, {}},
        Case{"%t = cast(%a) {to=f32}\n%y = cast(%t) {to=i64}", {1 << 30, kMin, -3}, {0}, {1 << 30, kMin, -3}},
        Case{"%t = cast(%a) {to=f32}\n%y = cast(%t) {to=i64}",
             {kMax},
             {0},
             {}},  // which the float rounds up to 2^31
        Case{"%t = cast(%a) {to=f32}\n%u = mul(%t, 2)\n%y = cast(%u) {to=i64}", {kMax}, {0}, {}},
        // An infinity has no number in 64 bits either.
        Case{"%t = cast(%a) {to=f32}\n%u = div(%t, 0)\n%v = cast(%u) {to=i64}\n%y = sub(%v, %b)",
             {5, -5, 0},
             {0, -4, 7},
             {kMax, kMin + 4, -7}},
        Case{"%t = cast(%a) {to=u32}\n%y = cast(%t) {to=i64}", {5}, {0}, {5}},
        Case{"%t = cast(%a) {to=u32}\n%y = cast(%t) {to=i64}", {-2}, {0}, {}},
        Case{"sum(%a)", {kMax - 3, 1, 2}, {0}, {kMax}}, Case{"sum(%a)", {kMax, 1}, {0}, {}},
        Case{"sum(%a)", std::vector<int64_t>(70000, 40000), {0}, {}},
        Case{"sum(%a)", std::vector<int64_t>(70000, 30000), {0}, {2100000000}},
        Case{"prod(%a)", {1 << 15, -(1 << 16)}, {0}, {kMin}}, Case{"prod(%a)", {1 << 15, 1 << 16}, {0}, {}},
        Case{"max(%a)", {kMin, kMax, 3}, {0}, {kMax}},
        Case{"cumsum(%a)", {kMax - 3, 1, 2}, {0}, {kMax - 3, kMax - 2, kMax}},
        Case{"cumsum(%a)", {kMax - 3, 1, 3}, {0}, {}}, Case{"cumprod(%a)", {1 << 15, 1 << 16}, {0}, {}},
        Case{"scatter_elements(%a, %b, %a) {reduction=\"add\"}", {kMax, 0}, {1, 1}, {kMax, kMax}},
        Case{"scatter_elements(%a, %b, %a) {reduction=\"add\"}", {kMax, 1}, {1, 1}, {}},
        Case{"scatter_elements(%a, %b, %a) {reduction=\"mul\"}", {1 << 16, 1 << 15}, {1, 1}, {}},
        Case{"scatter_elements(%a, %b, %a) {reduction=\"mul\"}", {3, 5}, {1, 1}, {3, 75}}));

TEST(OverflowOf, OtherTypesWraps) {
  Executable exe = compile("%a = input : i32[1]\n%y = add(%a, 1)\noutput y = %y");
  EXPECT_EQ(exe.run({{"a", Tensor::of<int32_t>({1}, {INT32_MAX})}}).at("y").integer(0), kMin);
}

TEST(OverflowOf, ParamsIsNoticedInEveryRunUntilTheyChange) {
  Executable exe = compile(R"(
    %p = param : i64[2]
    %q = param : i64[2]
    %x = input : i64[2]
    %s = mul(%p, %p)
    %t = add(%q, %q)
    %y = maximum(%s, %x)
    %z = maximum(%t, %x)
    output y = %y
    output z = %z)");
  exe.set_param("p", i64s({1 << 20, 1}));
  exe.set_param("q", i64s({1, 2}));
  const auto run = [&] { exe.run({{"x", i64s({1, 2})}}); };
  EXPECT_SAYS(run(), "'s'");
  EXPECT_SAYS(run(), "'s'");
  exe.set_param("q", i64s({3, 4}));
  EXPECT_SAYS(run(), "'s'");
  exe.set_param("p", i64s({3, 4}));
  EXPECT_NO_THROW(run());
}

TEST(OverflowOf, RunsInFlightAreToldApart) {
  Executable exe = compile("%a = input : i64[1]\n%y = mul(%a, %a)\noutput y = %y");
  std::vector<rlx::Run> runs;
  for (const int64_t v : {3, 1 << 20, 5}) runs.push_back(exe.run_async({{"a", i64s({v})}}));
  EXPECT_EQ(runs[0].get().at("y").integer(0), 9);
  EXPECT_SAYS(runs[1].get(), "'y'");
  EXPECT_EQ(runs[2].get().at("y").integer(0), 25);
}

TEST(OverflowOf, NodesInBodiesIsNoticed) {
  Executable exe = compile(R"(
    %n = input : i64[]
    %x = input : i64[]
    %y = loop(%n, none, %x) {carried=1, body=graph step {
      %i = input : i32[]
      %x = input : i64[]
      %go = constant {value=tensor bool[] fill 1}
      %z = mul(%x, 2)
      output go = %go
      output z = %z
    }}
    output y = %y)");
  const auto run = [&](int64_t trips) {
    return exe.run({{"n", Tensor::scalar(trips)}, {"x", Tensor::scalar(int64_t{1})}}).at("y").integer(0);
  };
  EXPECT_EQ(run(30), 1 << 30);
  EXPECT_SAYS(run(31), "'y/z'");
  EXPECT_EQ(run(4), 16);
}

TEST(OverflowOf, FoldedConstantsIsNoticed) {
  Executable exe = compile(R"(
    %a = constant {value=tensor i64[] fill 1048576}
    %x = input : i64[2]
    %s = mul(%a, %a)
    %y = maximum(%x, %s)
    output y = %y)");
  EXPECT_SAYS(exe.run({{"x", i64s({1, 2})}}), "32 bits");
}

// Inputs of a size that needs no work at first: the words for overflow come with a later size.
TEST(OverflowOf, ALaterSizeIsNoticed) {
  Executable exe = compile("symbol n <= 8\n%a = input : i64[n]\n%y = mul(%a, %a)\noutput y = %y");
  EXPECT_EQ(exe.run({{"a", i64s({})}}).at("y").elements(), 0);
  EXPECT_EQ(exe.run({{"a", i64s({3})}}).at("y").integer(0), 9);
  EXPECT_SAYS(exe.run({{"a", i64s({1, 1 << 20})}}), "'y'");
}

}  // namespace
}  // namespace rlx::testing
