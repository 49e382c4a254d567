// Encoded tensors without a device: decoding as libggml does, types, texts, and wrong uses.
#include "encodings/encoding.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "ir/op.h"
#include "ir/reference.h"
#include "kernels/binder.h"
#include "kernels/copy.wgsl.h"
#include "kernels/lowering.h"
#include "passes/passes.h"
#include "rlx/caps.h"
#include "rlx/dtype.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"
#include "rlx/safetensors.h"
#include "rlx/tensor.h"
#include "rlx/value.h"
#include "tests/support/encoded.h"
#include "tests/support/message.h"

namespace rlx::testing {
namespace {

class Encodings : public ::testing::TestWithParam<DType> {
 protected:
  const Encoding& encoding() const { return encoding_of(GetParam()); }
  DType dtype() const { return GetParam(); }
  int64_t block() const { return encoding().block_elements; }
};

std::vector<DType> all_types() {
  std::vector<DType> out;
  for (const Encoding& e : encoding_table().all()) out.push_back(e.dtype);
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, Encodings, ::testing::ValuesIn(all_types()),
                         [](const auto& test) { return std::string(to_string(test.param)); });

TEST_P(Encodings, DecodeBitForBitWhatLibggmlDecodes) {
  const Tensor values = encoded_fixture().tensor(formatted("{}.values", to_string(dtype())));
  const Tensor encoded = ggml_tensor(dtype(), {values.elements()});
  for (int64_t i = 0; i < values.elements(); ++i) {
    const auto got = static_cast<float>(encoded.real(i));
    const float want = values.span<float>()[static_cast<size_t>(i)];
    ASSERT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(want)) << i << ": " << got << " " << want;
  }
  EXPECT_EQ(encoded.doubles(), values.doubles());
}

TEST_P(Encodings, TheErrorOfTheEncoderIsLikeThatOfLibggml) {
  const Tensor source = encoded_fixture().tensor("source");
  const Tensor theirs = encoded_fixture().tensor(formatted("{}.values", to_string(dtype())));
  if (!encoding().encode) {
    EXPECT_SAYS(Tensor::from_doubles(dtype(), source.shape(), source.doubles()),
                formatted("there is no encoder for {}", to_string(dtype())));
    return;
  }
  const Tensor ours = Tensor::from_doubles(dtype(), source.shape(), source.doubles());
  const auto error = [&](const Tensor& decoded) {
    double sum = 0;
    for (int64_t i = 0; i < source.elements(); ++i)
      sum += (decoded.real(i) - source.real(i)) * (decoded.real(i) - source.real(i));
    return std::sqrt(sum / static_cast<double>(source.elements()));
  };
  EXPECT_LE(error(ours), 1.05 * error(theirs));
  RecordProperty("ours", formatted("{:.4g}", error(ours)));
  RecordProperty("theirs", formatted("{:.4g}", error(theirs)));
}

TEST_P(Encodings, ZerosStayZeros) {
  if (!encoding().encode) GTEST_SKIP() << "there is no encoder";
  for (const double v : Tensor::zeros(dtype(), {2, block()}).doubles()) EXPECT_EQ(v, 0);
}

TEST_P(Encodings, TensorsKeepTheBytes) {
  const Tensor t = ggml_tensor(dtype(), {4, 2 * block()});
  EXPECT_EQ(t.byte_size(), static_cast<size_t>(8 * encoding().block_bytes));
  EXPECT_EQ(t.bytes().size(), t.byte_size());
  EXPECT_EQ(t.type_text(), formatted("{}[4, {}]", to_string(dtype()), 2 * block()));
  EXPECT_EQ(t.head(0, 1), ggml_tensor(dtype(), {1, 2 * block()}));
  EXPECT_EQ(t.head(1, block()).real(block()), t.real(2 * block()));
  EXPECT_TRUE(to_string(t).contains(formatted("[{:.6g}, {:.6g}, ", t.real(0), t.real(1)))) << to_string(t);
  if (!encoding().encode) return;
  const Tensor uniform = Tensor::full(dtype(), {2, block()}, 1);
  EXPECT_EQ(uniform.bytes().size(), uniform.byte_size());
  EXPECT_NEAR(uniform.real(block() + 3), 1, 0.01);
}

TEST_P(Encodings, MisuseOfTensorsIsAnError) {
  const std::string name(to_string(dtype()));
  const Tensor t = ggml_tensor(dtype(), {block()});
  EXPECT_SAYS(t.span<float>(), formatted("the tensor has the encoded type {}", name));
  EXPECT_SAYS(t.span<uint8_t>(), "whose elements are not stored one by one");
  EXPECT_SAYS(Tensor(dtype(), {2, block()}, std::vector<std::byte>(3)),
              formatted("needs {} bytes, not 3", 2 * encoding().block_bytes));
  EXPECT_SAYS(Tensor(dtype(), {2, block() + 1}, std::vector<std::byte>(3)),
              formatted("the last axis of {}[2, {}] must be a multiple of {}, the elements of a block", name,
                        block() + 1, block()));
  EXPECT_SAYS(Tensor::full(dtype(), {}, 1), formatted("{}[] has no axis", name));
  EXPECT_SAYS(t.head(0, 3), "must be a multiple of");
  EXPECT_SAYS(to_safetensors({{"t", t}}), "which safetensors files do not have");
}

TEST_P(Encodings, OnlyLeavesThatAreNotWrittenHaveThem) {
  const std::string name(to_string(dtype()));
  Graph g;
  EXPECT_SAYS(g.state("s", dtype(), {block()}),
              formatted("state: the result cannot have the encoded type {}[{}]", name, block()));
  EXPECT_SAYS(g.input("a", dtype(), {block() / 2}), "must be a multiple of");
  EXPECT_SAYS(g.input("b", dtype(), {4, "n"}), formatted("the last axis of {}[4, n] is symbolic", name));
  EXPECT_SAYS(g.scalar(dtype(), 1), "has no axis");
  const Value x = g.input("x", DType::f32, {block()});
  EXPECT_SAYS(cast(x, dtype()), "cast: the result cannot have the encoded type");
  const Value w = g.param("w", dtype(), {"n", block()});
  EXPECT_EQ(w.dtype(), dtype());
  EXPECT_EQ(transpose(w).type().text(), formatted("f32[{}, n]", block()));
  EXPECT_EQ((w * 2.0 + x).dtype(), DType::f32);
}

TEST_P(Encodings, TheTextFormHasThem) {
  const std::string text = formatted(R"(graph g {{
  %w = param : {0}[4, {1}]
  %c = constant {{value=tensor {0}[{1}] hex {2}}} : {0}[{1}]
  %s = add(%w, %c) : f32[4, {1}]
  output y = %s
  output c = %c
}}
)",
                                     to_string(dtype()), block(), [&] {
                                       std::string hex;
                                       const Tensor t = ggml_tensor(dtype(), {block()});
                                       for (const std::byte b : t.bytes())
                                         hex += formatted("{:02x}", std::to_integer<int>(b));
                                       return hex;
                                     }());
  const Graph g = parse_graph(text);
  EXPECT_EQ(to_text(g), text);
  EXPECT_TRUE(op_cast<Constant>(*g.node(1).op)->value == ggml_tensor(dtype(), {block()}));
  verify(g);
  EXPECT_SAYS(parse_graph(formatted("graph g {{ %x = input : {}[3] output y = %x }}", to_string(dtype()))),
              "must be a multiple of");
  EXPECT_SAYS(parse_graph("graph g { %x = input : q9[3] output y = %x }"), to_string(dtype()));
}

TEST_P(Encodings, TheReferenceDecodes) {
  Graph g;
  const Value w = g.param("w", dtype(), {2, block()});
  g.output("t", transpose(w));
  g.output("w", w);
  const Tensor value = ggml_tensor(dtype(), {2, block()});
  const auto out = run_reference(g, {{"w", value}});
  EXPECT_EQ(out.at("w").dtype, DType::f32);
  EXPECT_EQ(out.at("w").real, value.doubles());
  EXPECT_EQ(out.at("t").real[1], value.real(block()));
}

TEST_P(Encodings, ConstantsAreFoldedButNotTheirViews) {
  Graph g;
  const Value c = g.constant(ggml_tensor(dtype(), {2, block()}), "c");
  g.output("sum", sum(c, {0, 1}));
  g.output("view", slice(c, 0, 1, 1));
  const Graph folded = fold_constants(g, 65536);
  EXPECT_TRUE(folded.producer(folded.outputs()[0].value).op->is(LeafKind::constant));
  EXPECT_EQ(folded.producer(folded.outputs()[1].value).op->name(), "slice");
}

TEST_P(Encodings, ConsumersThatCannotReadThemGetADecodedCopy) {
  Graph g;
  const Value w = g.param("w", dtype(), {4, block()});
  const Value i = g.input("i", DType::i32, {2});
  const Value rows = gather(slice(w, 0, 1, 2), i);
  g.output("rows", rows);
  g.output("exp", exp(transpose(w)));
  g.output("w", w);
  const Graph m = materialize_views(g);
  EXPECT_EQ(m.producer(m.producer(m.outputs()[0].value).inputs[0]).op->name(), "slice");
  EXPECT_EQ(m.producer(m.producer(m.outputs()[1].value).inputs[0]).op->name(), "contiguous");
  EXPECT_EQ(m.producer(m.outputs()[2].value).op->name(), "contiguous");
  verify(m);
}

// Also the second of a pair, whose bytes begin where those of the first do, and the last block of the
// storage.
TEST_P(Encodings, ASliceIsBoundInWholeBlocks) {
  const int64_t blocks = 1001;
  const int64_t storage = storage_bytes(dtype(), blocks * block());
  for (const int64_t at : {int64_t{700}, int64_t{701}, blocks - 1}) {
    Dispatch d;
    d.kernel = kernels::copy::kernel();
    d.groups = 1;
    d.params.resize(8);
    Operand x{.storage = 0, .dtype = dtype(), .view = View::contiguous({blocks, block()}).slice(0, at, 1)};
    x.view = x.view.slice(1, 5, 7);
    Operand y{.storage = 1, .dtype = DType::f32, .view = View::contiguous({1, 7})};
    d.operands = {x, y};
    const int64_t begin = at / encoding().device_blocks() * encoding().device_blocks();
    const int64_t bytes = encoding().device_bytes(at + 1 - begin);
    EXPECT_EQ(reach_bytes(x), bytes);
    Caps caps;
    caps.max_binding_bytes = 16384;  // less than the storage
    const int64_t place = 4096;
    const BoundDispatch bound = bind_dispatch(d, {{0, place, storage}, {1, 0, 256}}, caps)[0];
    const int64_t first = place + begin * encoding().block_bytes;
    const BoundRange& range = bound.ranges[0];
    EXPECT_EQ(range.offset % 256, 0);
    EXPECT_LE(range.offset, first);
    EXPECT_GE(range.offset + range.bytes, first + bytes);
    EXPECT_LE(range.offset + range.bytes, place + storage);
    EXPECT_LE(range.bytes, 256 + 16 + bytes);
    // After the two words of the head: the offset in elements, and where the storage begins, in words.
    EXPECT_EQ(bound.views[2], static_cast<uint32_t>(at * block() + 5));
    EXPECT_EQ(static_cast<int32_t>(bound.views[3]) * 4, place - range.offset);
  }
}

TEST_P(Encodings, BlocksReturnFromTheFormOfTheDevice) {
  for (const int64_t blocks : {1, 2, 3, 24, 25}) {
    const Tensor t = ggml_tensor(dtype(), {blocks * block()});
    const int64_t bytes = device_bytes_of(dtype(), t.elements());
    EXPECT_EQ(bytes % 4, 0);
    EXPECT_LE(bytes, std::ssize(t.bytes()) + 3);
    std::vector<std::byte> device(static_cast<size_t>(bytes));
    blocks_to_device(encoding(), t.bytes().data(), blocks, device.data());
    std::vector<std::byte> back(t.byte_size());
    blocks_from_device(encoding(), device.data(), blocks, back.data());
    EXPECT_TRUE(std::ranges::equal(back, t.bytes())) << blocks;
  }
}

TEST(Encodings, PairsHaveTheirHalfsFirst) {
  const auto bytes = [](const std::vector<int>& numbers) {
    std::vector<std::byte> out;
    for (const int n : numbers) out.push_back(static_cast<std::byte>(n));
    return out;
  };
  const std::vector<std::byte> blocks =
      bytes({1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16, 21, 22, 23, 24, 25, 26});
  const auto packed = [&](int64_t half) {
    const Encoding e{.block_bytes = 6, .apart = half};
    std::vector<std::byte> out(static_cast<size_t>(e.device_bytes(3)), std::byte{99});
    blocks_to_device(e, blocks.data(), 3, out.data());
    std::vector<std::byte> back(blocks.size());
    blocks_from_device(e, out.data(), 3, back.data());
    EXPECT_EQ(back, blocks);
    return out;
  };
  EXPECT_EQ(packed(0), bytes({1, 2, 11, 12, 3, 4, 5, 6, 13, 14, 15, 16, 21, 22, 0, 0, 23, 24, 25, 26}));
  EXPECT_EQ(packed(2), bytes({3, 4, 13, 14, 1, 2, 5, 6, 11, 12, 15, 16, 23, 24, 0, 0, 21, 22, 25, 26}));
  EXPECT_EQ(packed(4), bytes({5, 6, 15, 16, 1, 2, 3, 4, 11, 12, 13, 14, 25, 26, 0, 0, 21, 22, 23, 24}));
}

TEST(Encodings, FoursHaveTheirBytesFirst) {
  const Encoding e{.block_bytes = 5, .apart = 1};
  std::vector<std::byte> blocks;
  for (int block = 0; block < 5; ++block) {
    for (int i = 1; i <= 5; ++i) blocks.push_back(static_cast<std::byte>(10 * block + i));
  }
  std::vector<std::byte> device(static_cast<size_t>(e.device_bytes(5)), std::byte{99});
  ASSERT_EQ(device.size(), 28U);
  blocks_to_device(e, blocks.data(), 5, device.data());
  std::vector<int> got;
  for (const std::byte b : device) got.push_back(std::to_integer<int>(b));
  EXPECT_EQ(got, (std::vector<int>{2,  12, 22, 32, 1,  3,  4,  5, 11, 13, 14, 15, 21, 23,
                                   24, 25, 31, 33, 34, 35, 42, 0, 0,  0,  41, 43, 44, 45}));
  std::vector<std::byte> back(blocks.size());
  blocks_from_device(e, device.data(), 5, back.data());
  EXPECT_EQ(back, blocks);
}

// As in libggml, a scale that is no number makes all elements that it belongs to no numbers.
TEST_P(Encodings, OnlyFiniteNumbersAreEncoded) {
  if (!encoding().encode) GTEST_SKIP() << "there is no encoder";
  std::vector<double> values(512, 0.5);
  const auto encode = [&] { Tensor::from_doubles(dtype(), {512}, values); };
  values[300] = NAN;
  EXPECT_SAYS(encode(), "element 300 is nan; a block of ");
  values[300] = -INFINITY;
  EXPECT_SAYS(encode(), "element 300 is -inf; a block of ");
  values[300] = 1e30;
  // Scales of 32 bits, up to 2^127, and one that saturates.
  if (dtype() == DType::q8_k || dtype() == DType::mxfp4 || dtype() == DType::nvfp4) return encode();
  EXPECT_SAYS(encode(), "lie between 0.5 and 1e+30, more than the scale of a block of ");
}

TEST_P(Encodings, ScalesThatAreNaNSpread) {
  if (dtype() == DType::mxfp4 || dtype() == DType::nvfp4) GTEST_SKIP() << "has no scale that is NaN";
  std::vector<std::byte> nan(static_cast<size_t>(encoding().block_bytes), std::byte{0xff});
  const Tensor t(dtype(), {block()}, std::move(nan));
  for (int64_t i = 0; i < block(); ++i) EXPECT_TRUE(std::isnan(t.real(i))) << i;
}

TEST(Encodings, AreBytesForNumbersOfElements) {
  EXPECT_EQ(host_bytes_of(DType::q8_0, 64), 68U);
  EXPECT_EQ(host_bytes_of(DType::q8_0, 96), 102U);
  EXPECT_EQ(device_bytes_of(DType::q8_0, 64), 68);
  EXPECT_EQ(device_bytes_of(DType::q8_0, 96), 104);
  EXPECT_EQ(host_bytes_of(DType::q4_k, 512), 288U);
  EXPECT_EQ(host_bytes_of(DType::i64, 3), 24U);
  EXPECT_EQ(block_elements(DType::q4_k), 256);
  EXPECT_EQ(block_elements(DType::bf16), 1);
  EXPECT_EQ(value_dtype(DType::q8_0), DType::f32);
  EXPECT_EQ(value_dtype(DType::i8), DType::i8);
  EXPECT_SAYS(host_bytes(DType::q8_0), "asked for blocks");
  EXPECT_SAYS(host_bytes_of(DType::q8_0, 33), "whole blocks");
}

}  // namespace
}  // namespace rlx::testing
