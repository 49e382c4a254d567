// What the ONNX rules make of attention, rotary embeddings and the fused layers of com.microsoft.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/format.h"
#include "ir/op.h"
#include "ir/reference.h"
#include "passes/passes.h"
#include "rlx/graph.h"
#include "rlx/onnx.h"
#include "rlx/ops/attention.h"
#include "tests/support/message.h"
#include "tests/support/one_node.h"
#include "tests/support/paths.h"

namespace rlx::testing {
namespace {

// --- attention ---

OneNode attention(const OnnxGraph::Attributes& more, int queries, int keys) {
  OnnxGraph::Attributes attributes = {{"q_num_heads", 1}, {"kv_num_heads", 1}};
  attributes.insert(attributes.end(), more.begin(), more.end());
  return OneNode("Attention", attributes, 24)
      .value(Tensor::zeros(DType::f32, {1, queries, 2}))
      .value(Tensor::zeros(DType::f32, {1, keys, 2}))
      .value(counting({1, keys, 2}));
}

TEST(OnnxAttention, IsOneNode) {
  const OneNode flat = OneNode("Attention", {{"q_num_heads", 4}, {"kv_num_heads", 2}, {"is_causal", 1}}, 23)
                           .input({"b", "s", 32})
                           .input({"b", "s", 16})
                           .input({"b", "s", 16})
                           .absent()
                           .input({"b", 2, "p", 8})
                           .input({"b", 2, "p", 8})
                           .outputs({true, true, true});
  const onnx::Model model = flat.load();
  EXPECT_EQ(output_shape(model, 0).text(), "[b, s, 32]");
  EXPECT_EQ(output_shape(model, 1).text(), "[b, 2, p+s, 8]");
  EXPECT_TRUE(to_text(model.graph).contains(R"(mask="causal")")) << to_text(model.graph);
  EXPECT_EQ(optimized(model), (std::vector<std::string>{"concat", "concat", "attention"}));
}

// Equal scores give the average of the values that are seen.
TEST(OnnxAttention, CausalCountsFromTheFirstKey) {
  expect_near(attention({{"is_causal", 1}}, 2, 3).y().real, {0, 1, 1, 2});
}

TEST(OnnxAttention, AQueryThatSeesNothingIsNan) {
  const RefTensor y = attention({}, 2, 2).value(Tensor::of<bool>({2, 2}, {false, false, true, true})).y();
  EXPECT_TRUE(std::isnan(y.real[0]));
  expect_near({y.real[2], y.real[3]}, {1, 2});
}

TEST(OnnxAttention, AMaskMayEndBeforeTheLastKey) {
  expect_near(attention({}, 1, 3).value(floats({1, 2}, {0, 0})).y().real, {1, 2});
  const Tensor lengths = longs({1}, {1});
  expect_near(attention({}, 1, 3).absent().absent().absent().value(lengths).y().real, {0, 1});
}

// The cap comes after the mask, so that a masked key has a weight of exp(-cap).
TEST(OnnxAttention, CapsAfterTheMask) {
  const OneNode capped =
      attention({{"softcap", 1.0}}, 1, 2).value(Tensor::of<bool>({1, 2}, {true, false})).outputs({true});
  const double weight = std::exp(-1.0) / (1 + std::exp(-1.0));
  expect_near(capped.y().real, {2 * weight, 1 + 2 * weight});
  // Without a mask it is the same as ours.
  EXPECT_EQ(optimized(attention({{"softcap", 1.0}}, 1, 2).load()), std::vector<std::string>{"attention"});
}

TEST(OnnxAttention, ShowsItsScores) {
  const Tensor mask = floats({1, 2}, {0, std::log(3.0f)});
  const auto scores = [&](int mode) {
    return attention({{"qk_matmul_output_mode", mode}}, 1, 2)
        .value(mask)
        .outputs({true, false, false, true})
        .run()
        .at("y3")
        .real;
  };
  expect_near(scores(0), {0, 0});
  expect_near(scores(1), {0, std::log(3.0)});
  expect_near(scores(3), {0.25, 0.75});
  EXPECT_SAYS(scores(4), "its qk_matmul_output_mode is 4");
  EXPECT_SAYS(OneNode("Attention", {}, 23).input({1, 2, 2}).input({1, 2, 2}).input({1, 2, 2}).load(),
              "its attribute 'q_num_heads' is not given");
}

// --- rotary_embedding ---

TEST(OnnxRotaryEmbedding, RotatesPairsByTheirPosition) {
  // A quarter turn at position 1.
  const Tensor cos = floats({2, 1}, {1, 0});
  const Tensor sin = floats({2, 1}, {0, 1});
  const OneNode given = OneNode("RotaryEmbedding", {{"num_heads", 1}}, 23)
                            .value(floats({1, 2, 2}, {1, 2, 3, 4}))
                            .value(cos)
                            .value(sin)
                            .value(longs({1, 2}, {1, 0}));
  EXPECT_EQ(given.y().real, (Reals{-2, 1, 3, 4}));
  EXPECT_EQ(optimized(given.load()), std::vector<std::string>{"rope"});
  // Tables with a row for each element of the batch.
  const OneNode rows = OneNode("RotaryEmbedding", {{"num_heads", 1}}, 23)
                           .value(floats({2, 1, 2}, {1, 2, 3, 4}))
                           .value(floats({2, 1, 1}, {1, 0}))
                           .value(floats({2, 1, 1}, {0, 1}));
  EXPECT_EQ(rows.y().real, (Reals{1, 2, -4, 3}));
  EXPECT_SAYS(OneNode("RotaryEmbedding", {}, 23).input({1, 2, 2}).constant(cos).constant(sin).load(),
              "num_heads");
}

TEST(OnnxRotaryEmbedding, MicrosoftsTakesAFirstPosition) {
  const auto with = [](OnnxGraph::Attributes attributes) {
    return OneNode::microsoft("RotaryEmbedding", std::move(attributes))
        .value(floats({1, 1, 2}, {1, 2}))
        .value(longs({1}, {1}))
        .value(floats({2, 1}, {1, 0}))
        .value(floats({2, 1}, {0, 1}));
  };
  EXPECT_EQ(with({}).y().real, (Reals{-2, 1}));
  EXPECT_SAYS(with({{"is_packed_batching", 1}}).load(), "is_packed_batching is not supported");
}

// --- microsoft_gelu ---

TEST(OnnxMicrosoftGelu, IsFusedWithAProduct) {
  OnnxModel model;
  model.import(kMicrosoft, 1);
  model.graph.input("x", {"n", 8})
      .initializer("w", waves({8, 16}, 0))
      .initializer("bias", waves({16}, 1))
      .node("MatMul", {"x", "w"}, {"product"})
      .node("BiasGelu", {"product", "bias"}, {"y"}, {}, kMicrosoft)
      .output("y");
  EXPECT_EQ(optimized(onnx::parse(model.bytes())).size(), 1u);
  EXPECT_SAYS(OneNode::microsoft("BiasGelu").input({2}).load(), "it has 1 inputs; BiasGelu takes 2 to 2");
}

TEST(OnnxMicrosoftGelu, QuickGeluHasAnAlpha) {
  const OneNode gelu = OneNode::microsoft("QuickGelu", {{"alpha", 2.0}}).value(floats({1}, {0.5f}));
  expect_near(gelu.y().real, {0.5 / (1 + std::exp(-1.0))});
}

// --- skip_norms ---

TEST(OnnxSkipNorms, AreOneNode) {
  const auto skip = [](const std::string& op) {
    return OneNode::microsoft(op)
        .input({"b", "s", 8})
        .input({"b", "s", 8})
        .constant(waves({8}, 0))
        .outputs({true, false, false, true});
  };
  EXPECT_EQ(optimized(skip("SkipLayerNormalization").load()).size(), 1u);
  EXPECT_EQ(optimized(skip("SkipSimplifiedLayerNormalization").load()).size(), 1u);
}

TEST(OnnxSkipNorms, ShowTheirStatistics) {
  const auto of = [](const std::string& op) {
    return OneNode::microsoft(op, {{"epsilon", 0.0}})
        .value(floats({1, 1, 2}, {1, 3}))
        .value(floats({1, 2}, {1, 3}))
        .constant(floats({2}, {1, 1}));
  };
  const auto y = of("SkipLayerNormalization").outputs({true, true, true, true}).run();
  EXPECT_EQ(y.at("y0").real, (Reals{-1, 1}));
  EXPECT_EQ(y.at("y1").real, (Reals{4}));
  EXPECT_EQ(y.at("y2").real, (Reals{0.5}));
  EXPECT_EQ(y.at("y3").real, (Reals{2, 6}));
  EXPECT_SAYS(of("SkipSimplifiedLayerNormalization").outputs({true, true}).load(),
              "its output 1 is not supported");
}

// --- embed_norm ---

TEST(OnnxEmbedNorm, CountsTheWordsThatAreNotMasked) {
  const auto embed = [](const Dims& ids) {
    return OneNode::microsoft("EmbedLayerNormalization")
        .input(ids, ElementType::int32)
        .absent()
        .constant(waves({5, 4}, 0))
        .constant(waves({3, 4}, 1))
        .absent()
        .constant(waves({4}, 2))
        .constant(waves({4}, 3))
        .value(ints({2, 3}, {1, 1, 0, 0, 0, 1}))
        .outputs({true, true});
  };
  const auto y = embed({2, 3}).run({}, {{"x0", ints({2, 3}, {0, 1, 2, 3, 4, 0})}});
  EXPECT_EQ(y.at("y1").ints, (Ints{2, 1}));
  EXPECT_SAYS(embed({3}).load(), "its input_ids [3] are not [batch, sequence]");
}

// --- microsoft_attention ---

OneNode packed_attention(OnnxGraph::Attributes attributes = {}) {
  attributes.emplace_back("num_heads", 2);
  return OneNode::microsoft("Attention", std::move(attributes))
      .input({2, "s", 6})
      .constant(waves({6, 24}, 0))
      .constant(waves({24}, 1));
}

TEST(OnnxMicrosoftAttention, IsOneProductAndOneAttention) {
  const std::vector<std::string> ops = optimized(packed_attention().load());
  ASSERT_EQ(ops.size(), 2u);
  EXPECT_EQ(ops[1], "attention");
}

TEST(OnnxMicrosoftAttention, RefusesWhatItCannotDo) {
  EXPECT_SAYS(packed_attention({{"do_rotary", 1}}).load(), "the attribute do_rotary is not supported");
  EXPECT_SAYS(packed_attention().input({2, 1, 9, 9}, ElementType::int32).load(),
              "the mask [2, 1, 9, 9] (input 3) is not supported for a batch of 2");
  EXPECT_SAYS(packed_attention().input({8}, ElementType::int32).load(), "the mask [8] (input 3)");
}

TEST(OnnxMultiHeadAttention, TakesTwoSymbolsForOneSize) {
  const OneNode heads = OneNode::microsoft("MultiHeadAttention", {{"num_heads", 2}})
                            .input({"b", "s", 8})
                            .input({"b", "s", 8})
                            .input({"b", "s", 8})
                            .absent()
                            .input({"b", "total"}, ElementType::int32)
                            .absent()
                            .input({"b", 2, "p", 4})
                            .input({"b", 2, "p", 4});
  const onnx::Model model = heads.load();
  EXPECT_EQ(output_shape(model).text(), "[b, s, 8]");
  EXPECT_NO_THROW(bind_symbols(model.graph, {{"b", 1}, {"s", 2}, {"p", 3}, {"total", 5}}));
  EXPECT_THROW(bind_symbols(model.graph, {{"b", 1}, {"s", 2}, {"p", 3}, {"total", 4}}), Error);
}

TEST(OnnxMultiHeadAttention, RefusesWhatItCannotDo) {
  const auto heads = [](OnnxGraph::Attributes attributes) {
    attributes.emplace_back("num_heads", 2);
    return OneNode::microsoft("MultiHeadAttention", std::move(attributes))
        .input({1, 3, 8})
        .input({1, 5, 8})
        .input({1, 5, 8});
  };
  EXPECT_SAYS(heads({{"unidirectional", 1}}).load(),
              "unidirectional is not supported for 3 queries and 5 new keys");
  OneNode shared = heads({});
  for (int i = 3; i < 8; ++i) shared.absent();
  EXPECT_SAYS(shared.input({1}, ElementType::int32).load(),
              "the input past_sequence_length is not supported");
}

// --- group_query_attention ---

OneNode group_query(const OnnxGraph::Dim& batch, const OnnxGraph::Attributes& more = {}) {
  OnnxGraph::Attributes attributes = {{"num_heads", 4}, {"kv_num_heads", 2}};
  attributes.insert(attributes.end(), more.begin(), more.end());
  return OneNode::microsoft("GroupQueryAttention", attributes)
      .input({batch, "s", 16})
      .input({batch, "s", 8})
      .input({batch, "s", 8})
      .input({batch, 2, "p", 4})
      .input({batch, 2, "p", 4})
      .input({batch}, ElementType::int32)
      .input({1}, ElementType::int32)
      .outputs({true, true, true});
}

TEST(OnnxGroupQueryAttention, OfOneSequenceNeedsNoMask) {
  const onnx::Model model = group_query(1, {{"local_window_size", 7}}).load();
  EXPECT_EQ(optimized(model), (std::vector<std::string>{"concat", "concat", "attention"}));
  EXPECT_TRUE(to_text(model.graph).contains(R"(mask="sliding_window", window=7)")) << to_text(model.graph);
  EXPECT_EQ(output_shape(model, 2).text(), "[1, 2, p+s, 4]");
  EXPECT_SAYS(group_query(1, {{"qk_output", 1}}).load(), "the attribute qk_output is not supported");
}

TEST(OnnxGroupQueryAttention, IsSmoothOnlyIfItSaysOne) {
  const auto nodes = [](int smooth) {
    return group_query(1, {{"smooth_softmax", smooth}}).load().graph.size();
  };
  EXPECT_EQ(nodes(-1), nodes(0));
  EXPECT_NE(nodes(1), nodes(0));
}

// The first `count` tokens of one sequence of a batch.
Tensor part(const Tensor& x, int64_t batch, int64_t count) {
  const int64_t width = x.shape()[2];
  Reals values;
  for (int64_t i = 0; i < count * width; ++i) values.push_back(x.real(batch * x.shape()[1] * width + i));
  return Tensor::from_doubles(DType::f32, {1, count, width}, values);
}

// What ONNX Runtime gives for the padding of a shorter prompt is not defined, so it is not among the
// fixtures.
TEST(OnnxGroupQueryAttention, PaddingOfAPromptChangesNothing) {
  const Tensor none = Tensor::zeros(DType::f32, {2, 2, 0, 4});
  const Tensor q = waves({2, 3, 16}, 0);
  const Tensor k = waves({2, 3, 8}, 1);
  const Tensor v = waves({2, 3, 8}, 2);
  const auto both = group_query("b").run({{"b", 2}, {"s", 3}, {"p", 0}}, {{"x0", q},
                                                                          {"x1", k},
                                                                          {"x2", v},
                                                                          {"x3", none},
                                                                          {"x4", none},
                                                                          {"x5", ints({2}, {2, 1})},
                                                                          {"x6", ints({1}, {3})}});
  const Tensor nothing = Tensor::zeros(DType::f32, {1, 2, 0, 4});
  const auto alone = group_query(1).run({{"s", 2}, {"p", 0}}, {{"x0", part(q, 1, 2)},
                                                               {"x1", part(k, 1, 2)},
                                                               {"x2", part(v, 1, 2)},
                                                               {"x3", nothing},
                                                               {"x4", nothing},
                                                               {"x5", ints({1}, {1})},
                                                               {"x6", ints({1}, {2})}});
  const Reals& all = both.at("y0").real;
  expect_near(Reals(all.begin() + 3 * 16, all.begin() + 5 * 16), alone.at("y0").real);
}

// --- Whole layers ---

onnx::Model fixture(const std::string& name) {
  return onnx::load(in_source(formatted("tests/fixtures/onnx/microsoft/{}/model.onnx", name)));
}

TEST(OnnxLayers, AnEncoderIsFewNodes) {
  EXPECT_EQ(joined(optimized(fixture("layer_encoder"))),
            "gather, add, gather, residual_layer_norm, "     // of embeddings
            "fused_elementwise, sum, "                       // lengths
            "matmul, range, fused_elementwise, attention, "  // with the mask that they make
            "matmul, residual_layer_norm, matmul, matmul, residual_layer_norm");
}

// Where new keys and values go is computed from seqlens_k; all the rest is fused.
TEST(OnnxLayers, ADecoderIsFused) {
  const std::vector<std::string> ops = optimized(fixture("layer_decoder"));
  const auto count = [&](const std::string& name) { return std::ranges::count(ops, name); };
  EXPECT_EQ(count("rope"), 1) << joined(ops);
  EXPECT_EQ(count("attention"), 1) << joined(ops);
  EXPECT_EQ(count("softmax"), 0) << joined(ops);
  EXPECT_EQ(count("matmul"), 6) << joined(ops);
  EXPECT_EQ(count("residual_rms_norm"), 2) << joined(ops);
}

// --- Files that no exporter writes ---

struct Form {
  std::string op, domain;
  OnnxGraph::Attributes attributes;
  std::vector<Dims> inputs;
  std::vector<size_t> integers;  // which of them are not floats

  // No input `without`.
  OneNode node(size_t without = std::string::npos) const {
    OneNode out = domain.empty() ? OneNode(op, attributes, 24) : OneNode::microsoft(op, attributes);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (i == without) {
        out.absent();
      } else {
        const bool integer = std::ranges::contains(integers, i);
        out.input(inputs[i], integer ? ElementType::int32 : ElementType::float32);
      }
    }
    return out;
  }
};

const std::vector<Form>& forms() {
  static const std::vector<Form> all = {
      {"Attention",
       "",
       {{"q_num_heads", 4}, {"kv_num_heads", 2}, {"softcap", 1.0}, {"is_causal", 1}},
       {{2, 3, 16}, {2, 3, 8}, {2, 3, 8}, {3, 8}, {2, 2, 5, 4}, {2, 2, 5, 4}},
       {}},
      {"Attention", "", {{"is_causal", 1}}, {{2, 4, 3, 8}, {2, 2, 3, 8}, {2, 2, 3, 8}, {3, 3}}, {}},
      {"RotaryEmbedding", "", {{"num_heads", 2}}, {{2, 3, 8}, {9, 2}, {9, 2}, {2, 3}}, {3}},
      {"RotaryEmbedding", kMicrosoft, {{"num_heads", 2}}, {{2, 3, 8}, {2, 3}, {9, 2}, {9, 2}}, {1}},
      {"Attention",
       kMicrosoft,
       {{"num_heads", 2}, {"unidirectional", 1}},
       {{2, 3, 6}, {6, 24}, {24}, {2, 8}, {2, 2, 2, 5, 4}, {2, 2, 3, 8}},
       {3}},
      {"MultiHeadAttention",
       kMicrosoft,
       {{"num_heads", 2}, {"unidirectional", 1}},
       {{2, 3, 8}, {2, 3, 8}, {2, 3, 8}, {24}, {2, 8}, {1, 2, 3, 8}, {2, 2, 5, 4}, {2, 2, 5, 4}},
       {4}},
      {"GroupQueryAttention",
       kMicrosoft,
       {{"num_heads", 4}, {"kv_num_heads", 2}, {"do_rotary", 1}},
       {{2, 3, 16},
        {2, 3, 8},
        {2, 3, 8},
        {2, 2, 5, 4},
        {2, 2, 5, 4},
        {2},
        {1},
        {9, 2},
        {9, 2},
        {2, 3},
        {1, 1, 3, 8},
        {4}},
       {5, 6, 9}},
      {"EmbedLayerNormalization",
       kMicrosoft,
       {},
       {{2, 3}, {2, 3}, {7, 4}, {5, 4}, {2, 4}, {4}, {4}, {2, 3}, {2, 3}},
       {0, 1, 7, 8}},
      {"SkipLayerNormalization", kMicrosoft, {}, {{2, 3, 4}, {3, 4}, {4}, {4}, {4}}, {}},
      {"SkipSimplifiedLayerNormalization", kMicrosoft, {}, {{2, 3, 4}, {3, 4}, {4}, {4}}, {}},
      {"FusedMatMul", kMicrosoft, {{"transBatchA", 1}, {"transA", 1}}, {{4, 2, 3}, {2, 4, 5}}, {}},
  };
  return all;
}

// The form with one thing in it that is different.
std::vector<Form> mutants(const Form& form) {
  std::vector<Form> out;
  for (size_t i = 0; i < form.inputs.size(); ++i) {
    const auto mutant = [&](const auto& change) {
      out.push_back(form);
      change(out.back().inputs[i]);
    };
    mutant([](Dims& d) { d.clear(); });
    mutant([](Dims& d) { d.insert(d.begin(), 1); });
    mutant([](Dims& d) { d.emplace_back(1); });
    for (size_t axis = 0; axis < form.inputs[i].size(); ++axis) {
      for (const OnnxGraph::Dim& size : Dims{0, 1, 5, 1 << 30, "n"}) mutant([&](Dims& d) { d[axis] = size; });
      mutant([&](Dims& d) { d.erase(d.begin() + static_cast<std::ptrdiff_t>(axis)); });
    }
    out.push_back(form);
    out.back().integers.push_back(i);
  }
  for (size_t i = 0; i < form.attributes.size(); ++i) {
    if (!std::holds_alternative<int>(form.attributes[i].second)) continue;
    for (const int number : {-1, 0, 3, std::numeric_limits<int>::max()}) {
      out.push_back(form);
      out.back().attributes[i].second = number;
    }
  }
  return out;
}

// What is not as it should be becomes a graph that can be verified, or an error about the node.
TEST(OnnxHostile, FormsOfAttention) {
  const auto outcome = [](const OneNode& node) -> std::string {
    try {
      verify(node.load().graph);
      return "";
    } catch (const Error& e) {
      return e.what();
    }
  };
  for (const Form& form : forms()) {
    EXPECT_EQ(outcome(form.node()), "");
    int errors = 0;
    const auto judge = [&](const OneNode& node) {
      const std::string said = outcome(node);
      errors += said.empty() ? 0 : 1;
      EXPECT_TRUE(said.empty() || said.contains(form.op)) << said;
      EXPECT_FALSE(said.contains("internal error")) << said;
    };
    for (const Form& mutant : mutants(form)) judge(mutant.node());
    for (size_t i = 0; i < form.inputs.size(); ++i) judge(form.node(i));
    EXPECT_GT(errors, 10) << form.op;
  }
}

}  // namespace
}  // namespace rlx::testing
