// einsum, det and inverse on the device.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "rlx/compile.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "tests/support/devices.h"

namespace rlx::testing {
namespace {

struct Case {
  const char* equation;
  std::vector<std::vector<int64_t>> dims;
  const char* plain;  // the same with a letter for each axis, and of what is summed
  std::vector<int64_t> result;
};

Tensor numbers(const std::vector<int64_t>& dims, int64_t seed) {
  int64_t n = 1;
  for (const int64_t d : dims) n *= d;
  std::vector<float> values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((static_cast<int64_t>(i) * 7 + seed * 5) % 11 - 5);
  return Tensor::of<float>(dims, values);
}

// Loops over all letters of an equation without "...", where axes of length 1 broadcast.
std::vector<double> expected(const std::string& equation, const std::vector<Tensor>& inputs) {
  const size_t arrow = equation.find("->");
  std::vector<std::string> terms = {""};
  for (const char c : equation.substr(0, arrow)) {
    if (c == ',') {
      terms.emplace_back();
    } else {
      terms.back() += c;
    }
  }
  std::map<char, int64_t> sizes;
  for (size_t t = 0; t < terms.size(); ++t) {
    for (size_t i = 0; i < terms[t].size(); ++i)
      sizes[terms[t][i]] = std::max(sizes[terms[t][i]], inputs[t].shape()[i]);
  }
  std::map<char, int64_t> index;
  int64_t total = 1;
  for (const auto& [label, size] : sizes) total *= size;
  const std::string result = equation.substr(arrow + 2);
  int64_t count = 1;
  for (const char c : result) count *= sizes[c];
  std::vector<double> out(static_cast<size_t>(count), 0);
  for (int64_t i = 0; i < total; ++i) {
    int64_t rest = i;
    for (const auto& [label, size] : sizes) {
      index[label] = rest % size;
      rest /= size;
    }
    double value = 1;
    for (size_t t = 0; t < terms.size(); ++t) {
      int64_t at = 0;
      for (size_t a = 0; a < terms[t].size(); ++a) {
        const int64_t size = inputs[t].shape()[a];
        at = at * size + (size == 1 ? 0 : index[terms[t][a]]);
      }
      value *= inputs[t].real(at);
    }
    int64_t to = 0;
    for (const char c : result) to = to * sizes[c] + index[c];
    out[static_cast<size_t>(to)] += value;
  }
  return out;
}

TEST(Einsum, MatchesPlainLoops) {
  const Case cases[] = {
      {"ij,jk->ik", {{3, 4}, {4, 5}}, "ij,jk->ik", {3, 5}},
      {"ij,jk", {{3, 4}, {4, 5}}, "ij,jk->ik", {3, 5}},
      {"ba,cb", {{2, 3}, {4, 2}}, "ba,cb->ac", {3, 4}},
      {"ij->ji", {{3, 4}}, "ij->ji", {4, 3}},
      {"ij->", {{3, 4}}, "ij->", {}},
      {"ii->i", {{4, 4}}, "ii->i", {4}},
      {"iij->j", {{3, 3, 2}}, "iij->j", {2}},
      {"...ii->...i", {{2, 3, 3}}, "aii->ai", {2, 3}},
      {"i,i->", {{5}, {5}}, "i,i->", {}},
      {"i,j->ij", {{3}, {4}}, "i,j->ij", {3, 4}},
      {"i,i->i", {{5}, {5}}, "i,i->i", {5}},
      {"bhqd,bhkd->bhqk", {{2, 3, 4, 5}, {2, 3, 6, 5}}, "bhqd,bhkd->bhqk", {2, 3, 4, 6}},
      {"...ij,...jk->...ik", {{2, 1, 3, 4}, {5, 4, 2}}, "abij,bjk->abik", {2, 5, 3, 2}},
      {"a b , bc,cd -> ad", {{2, 3}, {3, 4}, {4, 5}}, "ab,bc,cd->ad", {2, 5}},
      {"ab,ac->a", {{2, 3}, {2, 4}}, "ab,ac->a", {2}},
      {"ab,b->ab", {{2, 1}, {3}}, "ab,b->ab", {2, 3}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.equation);
    Graph g;
    std::vector<Value> inputs;
    std::vector<Tensor> tensors;
    NamedTensors given;
    for (size_t i = 0; i < c.dims.size(); ++i) {
      const std::string name = "x" + std::to_string(i);
      inputs.push_back(g.input(name, DType::f32, Shape(c.dims[i])));
      tensors.push_back(numbers(c.dims[i], static_cast<int64_t>(i)));
      given[name] = tensors.back();
    }
    g.output("y", einsum(c.equation, inputs));
    const Tensor got = compile(g, full_device()).run(given).at("y");
    EXPECT_EQ(got.shape(), c.result);
    const std::vector<double> want = expected(c.plain, tensors);
    for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got.real(static_cast<int64_t>(i)), want[i]) << i;
  }
}

TEST(Einsum, RefusesEquationsThatDoNotFit) {
  Graph g;
  const Value x = g.input("x", DType::f32, {2, 3});
  EXPECT_THROW(einsum("ij,jk->ik", {x}), Error);
  EXPECT_THROW(einsum("i->i", {x}), Error);
  EXPECT_THROW(einsum("ij->k", {x}), Error);
  EXPECT_THROW(einsum("ij->ii", {x}), Error);
  EXPECT_THROW(einsum("ii->i", {x}), Error);
  EXPECT_THROW(einsum("i1->i", {x}), Error);
  EXPECT_THROW(einsum("", {}), Error);
}

TEST(Det, KnowsSingularAndPermutedMatrices) {
  Graph g;
  const Value x = g.input("x", DType::f32, {3, 3, 3});
  g.output("det", det(x));
  g.output("inverse", inverse(x));
  const NamedTensors y =
      compile(g, full_device())
          .run({{"x", Tensor::of<float>({3, 3, 3}, {0, 2, 0, 0, 0, 3, 4, 0, 0,  // a permutation
                                                    1, 2, 3, 2, 4, 6, 1, 1, 1,  // two rows are parallel
                                                    2, 0, 0, 0, 2, 0, 0, 0, 2})}});
  EXPECT_EQ(y.at("det").real(0), 24);
  EXPECT_EQ(y.at("det").real(1), 0);
  EXPECT_EQ(y.at("det").real(2), 8);
  const std::vector<double> permuted = {0, 0, 0.25, 0.5, 0, 0, 0, 1.0 / 3, 0};
  for (int64_t i = 0; i < 9; ++i)
    EXPECT_NEAR(y.at("inverse").real(i), permuted[static_cast<size_t>(i)], 1e-7);
  EXPECT_FALSE(std::isfinite(y.at("inverse").real(9)));
}

}  // namespace
}  // namespace rlx::testing
