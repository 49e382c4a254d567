// Host tensors: views of memory, typed access, text.
#include "rlx/tensor.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <sstream>

#include "rlx/format.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "tests/support/message.h"

namespace rlx {
namespace {

TEST(Tensor, TakesVectorsArraysSpansAndBraces) {
  const std::vector<float> values = {1, 2, 3, 4};
  const std::array<int64_t, 2> wide = {5, 6};
  const float plain[] = {1, 2, 3, 4};
  EXPECT_EQ(Tensor::of({2, 2}, values), Tensor::of({2, 2}, {1.f, 2.f, 3.f, 4.f}));
  EXPECT_EQ(Tensor::of({2, 2}, values), Tensor::of({2, 2}, plain));
  EXPECT_EQ(Tensor::of({2, 2}, values), Tensor::of<float>({2, 2}, {1, 2, 3, 4}));
  EXPECT_EQ(Tensor::of({4}, std::span(values)).span<float>()[3], 4);
  EXPECT_EQ(Tensor::of({2}, wide).dtype(), DType::i64);
  EXPECT_EQ(Tensor::scalar(2.5f).item<float>(), 2.5f);
  EXPECT_EQ(Tensor::of({2}, {true, false}).dtype(), DType::bool_);
  EXPECT_EQ(Tensor().item<float>(), 0);
}

TEST(Tensor, SixteenBitFloatsAreTypes) {
  const Tensor half = Tensor::of({3}, {f16(1.5f), f16(65504.f), f16(1e9f)});
  EXPECT_EQ(half.dtype(), DType::f16);
  EXPECT_EQ(static_cast<float>(half.span<f16>()[0]), 1.5f);
  EXPECT_TRUE(std::isinf(half.real(2)));
  const Tensor brain = Tensor::of({1}, {bf16(3.140625f)});
  EXPECT_EQ(brain.dtype(), DType::bf16);
  EXPECT_EQ(static_cast<float>(brain.item<bf16>()), 3.140625f);
  EXPECT_EQ(bf16::from_bits(0x3f80), 1.0f);
  EXPECT_EQ(f16::from_bits(0x3c00), 1.0f);
}

TEST(Tensor, ViewsForeignMemoryWithoutACopy) {
  auto owner = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3});
  const std::weak_ptr<std::vector<float>> watched = owner;
  const float* const memory = owner->data();
  Tensor view(DType::f32, {3}, std::as_bytes(std::span(*owner)), owner);
  owner.reset();
  Tensor copy = view;
  view = Tensor();
  ASSERT_FALSE(watched.expired()) << "a copy keeps the owner";
  EXPECT_EQ(copy.span<float>().data(), memory);
  copy = Tensor();
  EXPECT_TRUE(watched.expired());
}

TEST(Tensor, UniformOnesAreWrittenOutWhenAllAreAskedFor) {
  const Tensor t = Tensor::full(DType::i32, {2, 3}, 7);
  EXPECT_TRUE(t.is_uniform());
  EXPECT_EQ(t.integer(5), 7);
  EXPECT_EQ(t.to_vector<int32_t>(), std::vector<int32_t>(6, 7));
  EXPECT_EQ(t.bytes().data(), t.bytes().data()) << "once";
  EXPECT_EQ(t, Tensor::of({2, 3}, {7, 7, 7, 7, 7, 7}));
  EXPECT_EQ(Tensor::zeros(DType::f32, {0, 4}).bytes().size(), 0u);
}

TEST(Tensor, WrongUseIsASentence) {
  const Tensor t = Tensor::of({2, 2}, {1.f, 2.f, 3.f, 4.f});
  EXPECT_SAYS(t.span<int32_t>(), "the tensor has type f32, not i32");
  EXPECT_SAYS(t.item<float>(), "f32[2, 2] and has 4 elements");
  EXPECT_SAYS(t.real(4), "element 4 was requested from a tensor f32[2, 2] with 4 elements");
  EXPECT_SAYS(t.real(-1), "element -1");
  EXPECT_SAYS(t.head(5, 1), "axis 5 does not exist in a tensor f32[2, 2]");
  EXPECT_SAYS(t.integer(0), "not an integer");
  EXPECT_SAYS(Tensor::of({3}, {1.f}), "needs 12 bytes, not 4");
  EXPECT_SAYS(Tensor::of({-1}, {1.f}), "cannot have the dimension -1");
  alignas(8) const std::byte bytes[9] = {};
  EXPECT_SAYS(Tensor(DType::f32, {2}, std::span(bytes).subspan(1), nullptr).span<float>(),
              "not aligned to 4");
}

TEST(Tensor, AMovedFromOneIsTheScalarZero) {
  Tensor a = Tensor::of<float>({3}, {1, 2, 3});
  const Tensor b = std::move(a);
  EXPECT_EQ(a, Tensor());  // NOLINT(bugprone-use-after-move): that is the question
  EXPECT_EQ(a.span<float>().size(), 1u);
  EXPECT_EQ(a.item<float>(), 0);
  EXPECT_EQ(b.to_vector<float>(), (std::vector<float>{1, 2, 3}));
  a = Tensor::full(DType::i32, {2}, 7);
  Tensor c;
  c = std::move(a);
  EXPECT_EQ(a, Tensor());  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(c.integers(), (std::vector<int64_t>{7, 7}));
}

TEST(Tensor, HeadTakesTheFirstAlongAnAxis) {
  const Tensor t = Tensor::of({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(t.head(1, 2), Tensor::of({2, 2}, {1, 2, 4, 5}));
  EXPECT_EQ(t.head(-2, 1), Tensor::of({1, 3}, {1, 2, 3}));
  EXPECT_EQ(t.head(0, 9), t);
  EXPECT_EQ(t.head(1, 0).shape(), (std::vector<int64_t>{2, 0}));
}

TEST(Tensor, PrintsNanWithoutASign) {
  const float nan = std::copysign(std::numeric_limits<float>::quiet_NaN(), -1.0F);
  EXPECT_EQ(to_string(Tensor::of<float>({3}, {nan, -1, -nan})), "f32[3] [nan, -1, nan]");
  const float parts[] = {nan, nan};
  const auto bytes = std::as_bytes(std::span(parts));
  EXPECT_EQ(to_string(Tensor(DType::c64, {1}, std::vector<std::byte>(bytes.begin(), bytes.end()))),
            "c64[1] [nan+nani]");
}

TEST(Tensor, PrintsThroughFormatAndStreams) {
  EXPECT_EQ(std::format("{}", Tensor::of({2, 2}, {1.5f, -2.f, 3.f, 1e20f})),
            "f32[2, 2] [[1.5, -2], [3, 1e+20]]");
  std::ostringstream out;
  out << Tensor::of({2}, {true, false}) << " " << Shape{"batch", 3} << " " << Dim("n") * 2;
  EXPECT_EQ(out.str(), "bool[2] [true, false] [batch, 3] 2*n");
  EXPECT_EQ(std::format("{:>8}|{}", DType::bf16, TensorType{DType::i8, {4}}), "    bf16|i8[4]");
  std::vector<int64_t> many(100);
  std::iota(many.begin(), many.end(), 0);
  EXPECT_EQ(to_string(Tensor::of({100}, many)), "i64[100] [0, 1, 2, ..., 97, 98, 99]");
  EXPECT_EQ(to_string(Tensor::of({0, 2}, std::vector<float>{})), "f32[0, 2] []");
  EXPECT_EQ(to_string(Tensor::of({1}, {std::complex<float>(1, -2)})), "c64[1] [1-2i]");
}

TEST(Shape, TakesAnyIntegerAndVectors) {
  EXPECT_EQ((Shape{1ll << 17, 3u, size_t{5}, "n"}.text()), "[131072, 3, 5, n]");
  const std::vector<int64_t> dims = {2, 3};
  EXPECT_EQ(Shape(dims).text(), "[2, 3]");
  Graph g;
  EXPECT_EQ(g.input("x", DType::f32, dims).shape().text(), "[2, 3]");
}

TEST(Tensor, ElementsAreMadeWhenTheyAreNeeded) {
  int64_t made = 0;
  const Tensor t = Tensor::made_by(DType::i32, {1 << 20}, [&](size_t first_byte, std::span<std::byte> into) {
    for (size_t i = 0; i < into.size() / 4; ++i) {
      const auto value = static_cast<int32_t>(first_byte / 4 + i);
      std::memcpy(into.data() + 4 * i, &value, 4);
    }
    made += std::ssize(into) / 4;
  });
  std::array<std::byte, 8> part;
  t.read(400, part);
  EXPECT_EQ(made, 2);
  EXPECT_EQ((Tensor(DType::i32, {2}, part, nullptr).integers()), (std::vector<int64_t>{100, 101}));
  EXPECT_FALSE(t.is_stored());
  EXPECT_EQ(t.integer(77), 77);
  EXPECT_EQ(t.span<int32_t>().back(), (1 << 20) - 1);
  EXPECT_EQ(made, 2 + (1 << 20));  // all of them, once
  EXPECT_SAYS(t.read((4 << 20) - 4, part), "8 bytes from byte 4194300 on were requested");

  const Tensor fill = Tensor::full(DType::i64, {int64_t{1} << 50}, 7);
  fill.read(size_t{8} << 49, part);
  EXPECT_EQ((Tensor(DType::i64, {1}, part, nullptr).item<int64_t>()), 7);
}

TEST(Tensor, MemoryOfAnyAlignmentCanBeCopied) {
  const std::array<float, 3> values = {1, 2, 3};
  std::array<std::byte, 13> shifted;
  std::memcpy(shifted.data() + 1, values.data(), 12);
  const Tensor t(DType::f32, {3}, std::span(shifted).subspan(1), nullptr);
  EXPECT_EQ(t.to_vector<float>(), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(t.real(2), 3);
  EXPECT_EQ((Tensor(DType::f32, {}, std::span(shifted).subspan(1, 4), nullptr).item<float>()), 1);
}

TEST(Shape, SymbolsComeFromStringsAndLiterals) {
  const std::string name = "past";
  EXPECT_EQ((Shape{name, "past"_dim + 1}.text()), "[past, past+1]");
}

TEST(Value, NumbersStandForTensorsOfTheTypeNextToThem) {
  Graph g;
  const Value x = g.input("x", DType::f16, {3});
  EXPECT_EQ(maximum(x, 0).type().text(), "f16[3]");
  EXPECT_EQ(where(greater(x, 0.5), x, -1e4).type().text(), "f16[3]");
  EXPECT_EQ(clamp(x, 0, 6).dtype(), DType::f16);
  EXPECT_SAYS(pow(2, 3.0 * x + x) + maximum(1, 2), "one of the arguments must be a tensor");
  EXPECT_SAYS(where(greater(x, 0), x, 1e9), "1e+09");
}

TEST(Value, FollowsAGraphThatIsMoved) {
  Graph g;
  const Value x = g.input("x", DType::f32, {4});
  Graph moved = std::move(g);
  moved.output("y", x);
  EXPECT_EQ(&x.graph(), &moved);
  Graph assigned;
  const Value lost = assigned.input("z", DType::f32, {4});
  assigned = std::move(moved);
  EXPECT_EQ(&x.graph(), &assigned);
  EXPECT_SAYS(lost.graph(), "after its graph was destroyed or replaced");
  Graph copy = assigned;
  EXPECT_SAYS(copy.output("again", x), "belongs to another graph");
  std::vector<Graph> graphs;
  std::vector<Value> inputs;
  for (int i = 0; i < 20; ++i) inputs.push_back(graphs.emplace_back().input("x", DType::f32, {i}));
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(&inputs[i].graph(), &graphs[i]);
  graphs.clear();
  EXPECT_SAYS(inputs[0].type(), "after its graph was destroyed");
}

}  // namespace
}  // namespace rlx
