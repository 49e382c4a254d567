// What the program says: names that are nearly right, values, errors of ops that are made of others.
#include <gtest/gtest.h>

#include "tests/gpu/cli_harness.h"
#include "tests/support/onnx_model.h"

namespace rlx::testing {
namespace {

class CliWords : public CliTest {
 protected:
  // The row of a table that begins with this word.
  static std::string row(const std::string& text, const std::string& first) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(first + " ")) return line;
    }
    return "no row " + first;
  }
};

TEST_F(CliWords, UnknownCommandsGetASuggestion) {
  expect_complaint(rlx("profil model.rlx"), 2, "there is no command 'profil' (similar: profile; ");
  expect_complaint(rlx("foo"), 2, "there is no command 'foo' (`rlx --help` lists all)");
  expect_complaint(rlx("ru --help"), 2, "similar: run");
}

TEST_F(CliWords, SmallOutputsAreShownWhole) {
  const std::string file = write("small.rlx", R"(graph small {
  %x = input : f32[2, 2]
  %big = input : f32[9]
  %z = view_as_complex(%x)
  %m = less(%x, %x)
  %a = argmax(%x)
  output x = %x
  output big = %big
  output z = %z
  output m = %m
  output a = %a
})");
  write("x.npy", Tensor::of<float>({2, 2}, {1, 2.5F, -3, 0.125F}));
  const CliResult r = rlx("run " + file + " --input x=" + path("x.npy"));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(row(r.out, "x").ends_with("[[1, 2.5], [-3, 0.125]]")) << r.out;
  EXPECT_TRUE(row(r.out, "z").ends_with("[1+2.5i, -3+0.125i]")) << r.out;
  EXPECT_TRUE(row(r.out, "m").ends_with("[[false, false], [false, false]]")) << r.out;
  EXPECT_TRUE(row(r.out, "a").ends_with("[1, 1]")) << r.out;
  EXPECT_TRUE(row(r.out, "big").contains("min ")) << r.out;
}

TEST_F(CliWords, ErrorsOfCompositionsNameTheNodeThatWasWritten) {
  const auto file = [&](const std::string& call) {
    return write("wrong.rlx",
                 formatted("graph g {{\n  %x = input : f32[2, 3]\n  %b = input : f32[4, 5]\n  %y = {}\n"
                           "  output y = %y\n}}\n",
                           call));
  };
  const CliResult einsum = rlx("plan " + file("einsum(%x, %b) {equation=\"ij,jk->ik\"}"));
  expect_complaint(einsum, 1, "line 4: node 'y': einsum: dot_general: axis 1 of [2, 3]");
  expect_complaint(rlx("plan " + file("lp_normalize(%x) {axis=5}")), 1,
                   "node 'y': lp_normalize: sum: axis 5 is outside rank 2");
  expect_complaint(rlx("plan " + file("roll(%x) {shifts=[1], axes=[4]}")), 1,
                   "node 'y': roll: there is no axis 4");
}

TEST_F(CliWords, OpsSayTheShapesOfTheirOperands) {
  EXPECT_TRUE(rlx("ops lstm").out.contains("w [D, 4 units, k]"));
  EXPECT_TRUE(rlx("ops gru").out.contains("w [D, 3 units, k]"));
  EXPECT_TRUE(rlx("ops rnn").out.contains("x [steps, batch, k]"));
}

TEST_F(CliWords, SeedsOfOnnxNodesCanBeGiven) {
  OnnxModel model;
  model.graph.node("RandomUniform", {}, {"y"}, {{"shape", std::vector<int64_t>{3}}}).output("y");
  const std::vector<std::byte> bytes = model.bytes();
  const std::string file =
      write("random.onnx", std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  const auto values = [&](const std::string& flags) {
    const CliResult r = rlx("run " + file + " " + flags);
    EXPECT_EQ(r.code, 0) << r.err;
    return row(r.out, "y");
  };
  EXPECT_EQ(values(""), values("--seed 0"));
  EXPECT_EQ(values("--seed 7"), values("--seed 7"));
  EXPECT_NE(values("--seed 7"), values("--seed 8"));
  const std::string text = write("x.rlx", "graph g {\n  %x = input : f32[2]\n  output y = %x\n}\n");
  expect_complaint(rlx("run " + text + " --seed 3"), 2, "--seed is for ONNX models");
  expect_complaint(rlx("run " + file + " --seed x"), 2, "--seed is 'x'; it must be a whole number");
}

}  // namespace
}  // namespace rlx::testing
