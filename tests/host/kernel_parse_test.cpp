// What `//@` lines mean, how parameters are laid out, and what errors say.
#include <gtest/gtest.h>

#include <thread>

#include "kernels/kernel.h"
#include "tests/support/message.h"

namespace rlx::testing {
namespace {

constexpr const char* kFlat = R"(//# scale.wgsl 1
//@ in x float x4
//@ out y any
//@ use flat
enable f16, subgroups;
const TILE: u32 = 8u;  //@ spec
const FAST: bool = false;  //@ spec
const GROUP: u32 = 64u;
struct Params {
  first: u32,
  end: u32,  // one after the last
  pair: vec2f,
  three: vec3<i32>,
  scale: f32,
  dims: array<u32, 5>,
  table: array<vec4f, 2>,
  last: i32,
}
// x_step(i) is not called here.
fn element(i: u32) -> y_t { var y_at = x_get(x_flat(i)); return y_from_bits(y_at); }
fn owns(i: u32) -> bool { return x_has(i); }
)";

TEST(KernelParse, TakesASourceApart) {
  const KernelPtr k = parse_kernel(kFlat);
  EXPECT_EQ(k->name, "scale");
  ASSERT_EQ(k->operands.size(), 2u);
  EXPECT_TRUE(k->operands[0].x4 && !k->operands[0].out);
  EXPECT_TRUE(k->operands[0].calls.flat && k->operands[0].calls.get && k->operands[0].calls.has);
  EXPECT_FALSE(k->operands[0].calls.step || k->operands[0].calls.base);
  EXPECT_TRUE(k->operands[1].calls.from_bits);
  EXPECT_FALSE(k->operands[1].calls.at) << "a variable is not a call";
  EXPECT_EQ(k->enables, (std::vector<std::string>{"f16", "subgroups"}));
  EXPECT_FALSE(k->source.contains("enable "));
  ASSERT_EQ(k->specs.size(), 2u);
  EXPECT_EQ(k->source.substr(k->specs[0].begin, k->specs[0].end - k->specs[0].begin), "8u");
  ASSERT_EQ(k->constants.size(), 1u);
  EXPECT_EQ(k->constants[0].name, "GROUP");
  EXPECT_TRUE(k->flat && k->owns);
}

// The offsets are those of WGSL's uniform address space.
TEST(KernelParse, PlacesParameters) {
  const KernelPtr k = parse_kernel(kFlat);
  std::vector<size_t> offsets;
  for (const ParamDecl& p : k->params) offsets.push_back(p.offset);
  EXPECT_EQ(offsets, (std::vector<size_t>{0, 4, 8, 16, 28, 32, 64, 96}));
  EXPECT_EQ(k->params_bytes, 100u);
  EXPECT_TRUE(k->source.contains("dims: array<vec4<u32>, 2>"));
  EXPECT_TRUE(k->source.contains("fn params_dims(i: u32) -> u32"));
}

TEST(KernelParse, TheSameTextIsTheSameObject) {
  const KernelPtr a = parse_kernel(kFlat);
  EXPECT_EQ(a, parse_kernel(kFlat));
  EXPECT_NE(a, parse_kernel(std::string(kFlat) + "\n"));
  const KernelPtr team = parse_kernel(
      "//# t.wgsl 1\n//@ out y any\n//@ use team_serial\nconst TEAM: u32 = 1u;  //@ spec\nstruct Params { "
      "first: u32, end: "
      "u32, }\nalias team_t = f32;\nfn row_task(row: u32, lane: u32, width: u32) {}\n");
  const KernelPtr other = with_fragment(*team, "team_serial", "team_subgroup");
  EXPECT_NE(team, other);
  EXPECT_EQ(other, with_fragment(*team, "team_serial", "team_subgroup"));
  EXPECT_EQ(other->enables, std::vector<std::string>{"subgroups"});
}

TEST(KernelParse, ThreadsShareAndForgetKernels) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 300; ++i)
        EXPECT_EQ(parse_kernel("//# k.wgsl 1\n//@ in x any\nconst N: u32 = " + std::to_string(i % 7) + "u;\n")
                      ->name,
                  "k");
    });
  }
  for (std::thread& t : threads) t.join();
}

TEST(KernelParse, ErrorsNameTheFileAndTheLine) {
  const auto error = [](const std::string& text) {
    return message([&] { parse_kernel("//# my/op.wgsl 1\n" + text); });
  };
  EXPECT_EQ(error("\n//@ in x real\n"),
            "my/op.wgsl:2: operand x has the unknown kind real; it can be float, int or any");
  EXPECT_EQ(error("//@ in x\n"), "my/op.wgsl:1: an operand has a name and a kind: //@ in x float");
  EXPECT_EQ(error("//@ in x any\n//@ out x any\n"), "my/op.wgsl:2: there are two operands named x");
  EXPECT_EQ(error("//@ in x any atomic\n"),
            "my/op.wgsl:1: operand x cannot be 'atomic'; it can be x4 and, if it is written, atomic");
  EXPECT_EQ(error("//@ uses flat\n"),
            "my/op.wgsl:1: '//@ uses flat' is not one of the lines //@ in, //@ out and //@ use");
  EXPECT_EQ(error("//@\n"), "my/op.wgsl:1: '//@' is not one of the lines //@ in, //@ out and //@ use");
  EXPECT_EQ(error("struct Params {\n  n: f64,\n}\n"),
            "my/op.wgsl:3: the parameter n has the type f64; parameters are u32, i32, f32, vectors of them, "
            "and arrays of "
            "scalars or of vectors of four");
  EXPECT_TRUE(error("struct Params { n: array<vec2f, 3>, }\n").contains("array<vec2f, 3>"));
  EXPECT_TRUE(error("struct Params { n: array<u32, 0>, }\n").contains("array<u32, 0>"));
  EXPECT_TRUE(error("struct Params { n, }\n").contains("has no type: n"));
  EXPECT_TRUE(error("struct Params { n: u32,\n").contains("struct Params has no end"));
  EXPECT_EQ(error("const A: f32 = 1.0;  //@ spec\n"),
            "my/op.wgsl:1: the spec constant A has the type f32; use u32 or bool");
  EXPECT_TRUE(error("//@ use nothing\n")
                  .contains("op.wgsl: there is no fragment named 'nothing' to use (there is: attention, "));
  EXPECT_TRUE(error("//@ out y any\n//@ use flat\n").contains("begin with `first: u32, end: u32`"));
  EXPECT_TRUE(error("//@ out y any\n//@ use flat\nstruct Params { first: u32, end: u32, }\n")
                  .contains("element(i: u32)"));
  EXPECT_TRUE(error("//@ out y any\n//@ use each\n").contains("begin with `first: u32, end: u32`"));
  EXPECT_TRUE(error("//@ out y any\n//@ use each\nstruct Params { first: u32, end: u32, }\n")
                  .contains("task(i: u32)"));
  EXPECT_TRUE(error("//@ out y any\n//@ use flat each\n").contains("only one of flat, each and a team"));
}

}  // namespace
}  // namespace rlx::testing
