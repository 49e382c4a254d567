// Forms of attention, rotary tables, adapters, experts and layers against PyTorch
// (tests/fixtures/make_transformer.py), and what samples cannot express: several nodes, states, encoded
// weights.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "base/format.h"
#include "ir/reference.h"
#include "rlx/compile.h"
#include "rlx/device.h"
#include "rlx/dtype.h"
#include "rlx/executable.h"
#include "rlx/graph.h"
#include "rlx/models.h"
#include "rlx/ops/attention.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"
#include "rlx/ops/transformer.h"
#include "rlx/safetensors.h"
#include "rlx/shape.h"
#include "rlx/tensor.h"
#include "rlx/value.h"
#include "tests/support/compare.h"
#include "tests/support/devices.h"
#include "tests/support/encoded.h"
#include "tests/support/message.h"
#include "tests/support/paths.h"
#include "tests/support/sample.h"

namespace rlx::testing {
namespace {

SafetensorsFile fixture() {
  return SafetensorsFile::open(in_source("tests/fixtures/transformer.safetensors"));
}

struct Case {
  Graph graph;
  NamedTensors inputs;
  std::vector<Tensor> results;
};

Case read_case(const SafetensorsFile& file, const std::string& name, const std::string& lines) {
  Case c;
  for (int i = 0; file.find(formatted("{}.{}", name, i)); ++i)
    c.results.push_back(file.tensor(formatted("{}.{}", name, i)));
  std::string text = "graph g {\n";
  for (const auto& entry : file.tensors()) {
    if (!entry.name.starts_with(name + ".")) continue;
    const std::string input = entry.name.substr(name.size() + 1);
    if (input == "0" || input == "1") continue;
    const Tensor value = file.tensor(entry.name);
    c.inputs.emplace(input, value);
    text += formatted("  %{} = input : {}\n", input, value.type_text());
  }
  text += lines + "\n";
  for (size_t i = 0; i < c.results.size(); ++i) text += formatted("  output y{0} = %y:{0}\n", i);
  c.graph = parse_graph(text + "}\n");
  return c;
}

// Results of f32 inputs with a few dozen terms each, computed in double there.
constexpr Tolerance kTheirs{.ulps = 128, .terms = 64, .scale = 8};

void expect_theirs(const Device* device) {
  const SafetensorsFile file = fixture();
  int cases = 0;
  for (const auto& [name, lines] : file.metadata()) {
    if (name == "made_by" || lines.starts_with("@")) continue;
    SCOPED_TRACE(name + ": " + lines);
    const Case c = read_case(file, name, lines);
    NamedTensors got;
    if (device) {
      got = compile(c.graph, *device).run(c.inputs);
    } else {
      for (const auto& [output, value] : run_reference(c.graph, c.inputs)) got[output] = value.to_tensor();
    }
    for (size_t i = 0; i < c.results.size(); ++i) {
      EXPECT_TRUE(close(got.at(formatted("y{}", i)), RefTensor::from(c.results[i]), kTheirs)) << i;
    }
    ++cases;
  }
  EXPECT_GT(cases, 20);
}

TEST(Transformer, IsPyTorchs) { expect_theirs(&full_device()); }
TEST(Transformer, HasTheSameReference) { expect_theirs(nullptr); }

// --- Functions that texts do not have ---

TEST(Transformer, BiasesByDistanceAreT5s) {
  const SafetensorsFile file = fixture();
  for (const std::string name : {"t5_encoder", "t5_decoder"}) {
    std::istringstream words(file.metadata().at(name));
    std::string function;
    int64_t queries = 0, keys = 0, bidirectional = 0, most = 0;
    words >> function >> queries >> keys >> bidirectional >> most;
    Graph g;
    const Tensor table = file.tensor(name + ".table");
    const Value t = g.input("table", DType::f32, Shape(table.shape()));
    g.output("y", relative_position_bias(t, queries, keys, bidirectional != 0, most));
    const RefTensor got = run_reference(g, {{"table", table}}).at("y");
    EXPECT_TRUE(close(got.to_tensor(), RefTensor::from(file.tensor(name + ".0")), {.ulps = 0})) << name;
  }
}

TEST(Transformer, RotaryFrequenciesAreThoseOfTheFormulas) {
  const SafetensorsFile file = fixture();
  const std::map<std::string, RotaryScaling> kinds = {
      {"none", RotaryScaling::none}, {"linear", RotaryScaling::linear},
      {"ntk", RotaryScaling::ntk},   {"dynamic_ntk", RotaryScaling::dynamic_ntk},
      {"yarn", RotaryScaling::yarn}, {"llama3", RotaryScaling::llama3}};
  int cases = 0;
  for (const auto& [name, text] : file.metadata()) {
    if (!text.starts_with("@rotary ")) continue;
    std::istringstream words(text);
    std::string function, kind;
    RotaryOptions o{.rotated = 16};
    words >> function >> kind >> o.factor >> o.original_length >> o.length;
    o.scaling = kinds.at(kind);
    const std::vector<double> got = rotary_frequencies(o);
    const Tensor want = file.tensor(name + ".0");
    ASSERT_EQ(std::ssize(got), want.elements());
    for (int64_t i = 0; i < want.elements(); ++i)
      EXPECT_NEAR(got[static_cast<size_t>(i)], want.real(i), 1e-6 * want.real(i)) << name << " " << i;
    ++cases;
  }
  EXPECT_EQ(cases, 6);
  const RotaryTables t = rotary_tables(
      3, {.rotated = 4, .theta = 100, .scaling = RotaryScaling::yarn, .factor = 4, .original_length = 64});
  const double f = rotary_frequencies(
      {.rotated = 4, .theta = 100, .scaling = RotaryScaling::yarn, .factor = 4, .original_length = 64})[1];
  const double magnitude = 0.1 * std::log(4.0) + 1;
  EXPECT_FLOAT_EQ(static_cast<float>(t.cos.real(5)), static_cast<float>(magnitude * std::cos(2 * f)));
  EXPECT_FLOAT_EQ(static_cast<float>(t.sin.real(5)), static_cast<float>(magnitude * std::sin(2 * f)));
}

TEST(Transformer, SlopesAreALiBis) {
  Graph g;
  g.output("eight", alibi_slopes(g, 8));
  g.output("six", alibi_slopes(g, 6));
  const auto got = run_reference(g, {});
  // Those of 8 heads, and for 6: those of 4, then every second of those of 8.
  const std::vector<double> eight = {0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625};
  const std::vector<double> six = {0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125};
  EXPECT_EQ(got.at("eight").real, eight);
  EXPECT_EQ(got.at("six").real, six);
}

// --- Several nodes ---

TEST(Attention, PartsOfTheKeysJoinToTheWhole) {
  Graph g;
  const Value q = g.input("q", DType::f32, {2, 2, 5, 16});
  const Value k = g.input("k", DType::f32, {2, 2, 37, 16});
  const Value lengths = g.input("lengths", DType::i32, {2});
  const auto part = [&](int64_t begin, int64_t length) {
    const Value keys = slice(k, 2, begin, length);
    const Value left = lengths - g.scalar(DType::i32, static_cast<double>(begin));
    return attention_with_log_sum(q, keys, keys, {.lengths = minimum(left, static_cast<double>(length))});
  };
  const auto whole = attention_with_log_sum(q, k, k, {.lengths = lengths});
  const auto joined = join_attention(part(0, 20), part(20, 17));
  g.output("whole0", whole.y);
  g.output("whole1", whole.log_sum);
  g.output("joined0", joined.y);
  g.output("joined1", joined.log_sum);
  std::mt19937 random(1);
  const NamedTensors inputs = {{"q", random_tensor(DType::f32, {2, 2, 5, 16}, -2, 2, random)},
                               {"k", random_tensor(DType::f32, {2, 2, 37, 16}, -2, 2, random)},
                               {"lengths", Tensor::of<int32_t>({2}, {30, 0})}};
  const NamedTensors got = compile(g, full_device()).run(inputs);
  const auto want = run_reference(g, inputs);
  for (const std::string i : {"0", "1"}) {
    EXPECT_TRUE(close(got.at("joined" + i), want.at("whole" + i), {.ulps = 64, .terms = 37, .scale = 4}));
    EXPECT_TRUE(close(got.at("whole" + i), want.at("whole" + i), {.ulps = 64, .terms = 37, .scale = 4}));
  }
}

// A decoder whose new keys go into a cache of fixed size: one plan for all steps, and no copy of the cache.
TEST(Attention, ReadsACacheThatGrows) {
  Graph g;
  const Value cache = g.state("cache", DType::f32, {1, 1, 32, 8});
  const Value x = g.input("x", DType::f32, {1, 1, 1, 8});
  const Value length = g.input("length", DType::i32, {});
  const Dim at("at");
  g.set_capacity("at", 31);
  const Value index = g.input("index", DType::f32, {at});  // binds the symbol
  const Value written = write_state(cache, x, 2, at);
  g.output("y", attention(x, written, written, {.mask = MaskKind::causal, .lengths = length}));
  g.output("index_sum", sum(index));
  Executable exe = compile(g, full_device());
  std::mt19937 random(2);
  std::vector<double> keys;
  for (int32_t step = 0; step < 3; ++step) {
    const Tensor token = random_tensor(DType::f32, {1, 1, 1, 8}, -2, 2, random);
    for (const double v : token.doubles()) keys.push_back(v);
    const NamedTensors got = exe.run({{"x", token},
                                      {"length", Tensor::scalar<int32_t>(step + 1)},
                                      {"index", Tensor::zeros(DType::f32, {step})}});
    Graph plain;
    const Value q = plain.input("q", DType::f32, {1, 1, 1, 8});
    const Value k = plain.input("k", DType::f32, {1, 1, step + 1, 8});
    plain.output("y", attention(q, k, k, {}));
    const auto want = run_reference(
        plain, {{"q", token}, {"k", Tensor::from_doubles(DType::f32, {1, 1, step + 1, 8}, keys)}});
    EXPECT_TRUE(close(got.at("y"), want.at("y"), {.ulps = 32, .terms = 8, .scale = 2})) << step;
  }
}

// The example of docs/attention.md. Without a capacity of the symbol, every step has a plan of its own.
TEST(Attention, OnePlanForAllStepsNeedsACapacity) {
  constexpr int64_t kCapacity = 16, kHead = 8;
  for (const bool has_capacity : {true, false}) {
    Graph g;
    if (has_capacity) g.set_capacity("past", kCapacity - 1);
    const Value x = g.input("x", DType::f32, {1, 2, 1, kHead});
    const Value length = g.input("length", DType::i32, {1});
    const Value cache = g.state("keys", DType::f32, {1, 2, kCapacity, kHead});
    const Value keys = write_state(cache, x, 2, Dim("past"));
    const Value q = reshape(concat({x, x}, 2), {1, 4, 1, kHead});
    g.output("y", attention(q, keys, keys, {.kv_heads = 2, .mask = MaskKind::causal, .lengths = length}));
    Executable exe = compile(g, full_device());
    for (int32_t past = 0; past < 5; ++past) {
      exe.run({{"x", Tensor::full(DType::f32, {1, 2, 1, kHead}, past)},
               {"length", Tensor::full(DType::i32, {1}, past + 1)}},
              {{"past", past}});
    }
    EXPECT_EQ(exe.plan_count(), has_capacity ? 1 : 5);
  }
}

// All forms in one node, on a device with eight bindings too.
TEST(Attention, AllFormsGoTogether) {
  const Graph g = parse_graph(R"(graph g {
    %q = input : f32[2, 4, 5, 16]
    %k = input : i8[9, 2, 6, 16]
    %v = input : i8[9, 2, 6, 12]
    %mask = input : f32[2, 1, 5, 24]
    %lengths = input : i64[2]
    %sinks = input : f16[4]
    %slopes = input : f32[4]
    %pages = input : i32[2, 4]
    %start = input : i32[2]
    %k_scale = input : f32[9, 2, 6]
    %v_scale = input : f32[9, 2, 6]
    %y = attention(%q, %k, %v, %mask, %lengths, %sinks, %slopes, %pages, %start, %k_scale, %v_scale)
      {kv_heads=2, mask="sliding_window", window=9, soft_cap=20, log_sum_exp=true}
    output y = %y
    output sums = %y:1
  })");
  std::mt19937 random(5);
  NamedTensors inputs;
  for (const Node& n : g.nodes()) {
    if (n.op->name() != "input") continue;
    const bool scale = n.name.ends_with("_scale");
    inputs[n.name] = random_tensor(n.outputs[0].dtype, n.outputs[0].shape.values(), scale ? 0 : -2,
                                   scale ? 0.1 : 2, random);
  }
  inputs["lengths"] = Tensor::of<int64_t>({2}, {24, 7});
  inputs["pages"] = Tensor::of<int32_t>({2, 4}, {3, 8, 0, 1, 7, 2, -5, 99});
  inputs["start"] = Tensor::of<int32_t>({2}, {20, -30});
  const auto want = run_reference(g, inputs);
  for (const Device* device : {&full_device(), &small_device()}) {
    const NamedTensors got = compile(g, *device).run(inputs);
    for (const auto& [name, value] : want)
      EXPECT_TRUE(close(got.at(name), value, {.ulps = 128, .terms = 24, .scale = 4})) << name;
  }
}

TEST(Attention, FormsKeepNaNAndInfinity) {
  Graph g;
  const Value q = g.input("q", DType::f32, {2, 4, 3, 8});
  const Value k = g.input("k", DType::f32, {2, 4, 7, 8});
  const auto y = attention_with_log_sum(
      q, k, k, {.lengths = g.input("lengths", DType::i32, {2}), .sinks = g.input("sinks", DType::f32, {4})});
  g.output("y", y.y);
  g.output("sums", y.log_sum);
  const float inf = std::numeric_limits<float>::infinity();
  std::mt19937 random(6);
  NamedTensors inputs = {{"q", random_tensor(DType::f32, {2, 4, 3, 8}, -2, 2, random)},
                         {"sinks", Tensor::of<float>({4}, {NAN, -inf, inf, 0.5f})},
                         {"lengths", Tensor::of<int32_t>({2}, {0, 5})}};
  // What lies after the length is never read.
  std::vector<double> keys = random_tensor(DType::f32, {2, 4, 7, 8}, -2, 2, random).doubles();
  for (size_t head = 0; head < 8; ++head)
    std::fill_n(keys.begin() + static_cast<ptrdiff_t>(head * 56 + 40), 16, NAN);
  inputs["k"] = Tensor::from_doubles(DType::f32, {2, 4, 7, 8}, keys);
  const auto want = run_reference(g, inputs);
  EXPECT_EQ(want.at("y").real[24], 0);  // nothing to see, and no sink
  EXPECT_EQ(want.at("sums").real[3], -inf);
  EXPECT_EQ(want.at("sums").real[9], 0.5);  // the sink alone
  for (const char* variant : {"online", "blocked", "plain"}) {
    const NamedTensors got = compile(g, full_device(), {.kernels = {{"attention", variant}}}).run(inputs);
    for (const auto& [name, value] : want)
      EXPECT_TRUE(close(got.at(name), value, {.ulps = 64, .terms = 7, .scale = 2})) << variant << " " << name;
  }
}

TEST(Attention, SaysWhatIsWrongWithForms) {
  Graph g;
  const Value q = g.input("q", DType::f32, {2, 4, 5, 8});
  const Value k8 = g.input("k8", DType::i8, {2, 4, 5, 8});
  const Value scale = g.input("scale", DType::f32, {2, 4, 5});
  const Value two = g.input("two", DType::i32, {2});
  const Value heads = g.input("heads", DType::f32, {4});
  EXPECT_SAYS(attention(q, k8, q, {}), "i8");
  EXPECT_SAYS(attention(q, q, q, {.k_scale = scale}), "since it has scales");
  EXPECT_SAYS(attention(q, k8, q, {.k_scale = heads}), "[2, 4, 5]");
  EXPECT_SAYS(attention(q, q, q, {.lengths = heads}), "i32, i64 or u32");
  EXPECT_SAYS(attention(q, q, q, {.sinks = g.input("s", DType::f32, {3})}), "[4]");
  EXPECT_SAYS(attention(q, q, q, {.pages = two}), "pages of a batch");
  EXPECT_NO_THROW(attention(q, k8, q, {.lengths = two, .k_scale = scale}));
}

// Blocks of experts are read where they lie; decoded weights are those blocks.
TEST(Transformer, ExpertsReadEncodedWeights) {
  Graph g;
  const Value x = g.input("x", DType::f32, {3, 64});
  const Value experts = g.input("experts", DType::i64, {3, 2});
  const Value shares = g.input("shares", DType::f32, {3, 2});
  const Value up = g.param("up", DType::q8_0, {4, 32, 64});
  const Value down = g.param("down", DType::q8_0, {4, 64, 32});
  g.output("y", moe_ffn(x, shares, experts,
                        {.up = transpose(up, {0, 2, 1}), .down = transpose(down, {0, 2, 1})}, "relu"));
  g.output("decoded", decode_experts(up));
  std::mt19937 random(3);
  const auto encoded = [&](const std::vector<int64_t>& dims) {
    return Tensor::from_doubles(DType::q8_0, dims, random_tensor(DType::f32, dims, -1, 1, random).doubles());
  };
  const NamedTensors params = {{"up", encoded({4, 32, 64})}, {"down", encoded({4, 64, 32})}};
  NamedTensors inputs = {{"x", random_tensor(DType::f32, {3, 64}, -2, 2, random)},
                         {"experts", Tensor::of<int64_t>({3, 2}, {0, 3, 2, -1, 1, 7})},
                         {"shares", random_tensor(DType::f32, {3, 2}, 0, 1, random)}};
  Executable exe = compile(g, full_device());
  exe.set_params(params);
  const NamedTensors got = exe.run(inputs);
  inputs.insert(params.begin(), params.end());
  const auto want = run_reference(g, inputs);
  EXPECT_TRUE(close(got.at("y"), want.at("y"), {.ulps = 32, .terms = 96, .scale = 100}));
  EXPECT_TRUE(close(got.at("decoded"), want.at("decoded"), {.ulps = 1}));
}

// The layers are made of nodes that the passes know.
TEST(Transformer, LayersBecomeFewDispatches) {
  Graph g;
  const auto param = [&](const std::string& name, Shape shape) { return g.param(name, DType::f32, shape); };
  const Value x = g.input("x", DType::f32, {1, 16, 32});
  const TransformerLayerWeights w{.qkv = param("qkv", {32, 96}),
                                  .qkv_bias = param("qkv_bias", {96}),
                                  .out = param("out", {32, 32}),
                                  .out_bias = param("out_bias", {32}),
                                  .gamma1 = param("gamma1", {32}),
                                  .beta1 = param("beta1", {32}),
                                  .w1 = param("w1", {32, 64}),
                                  .bias1 = param("bias1", {64}),
                                  .w2 = param("w2", {64, 32}),
                                  .bias2 = param("bias2", {32}),
                                  .gamma2 = param("gamma2", {32}),
                                  .beta2 = param("beta2", {32})};
  g.output("y", transformer_layer(x, w, {.heads = 4}));
  Executable exe = compile(g, full_device());
  for (const auto& [name, weight] : models::random_weights(g, 1)) exe.set_param(name, weight);
  exe.run({{"x", Tensor::full(DType::f32, {1, 16, 32}, 0.5)}});
  // qkv, attention, out, residual norm, w1 with its activation, w2, residual norm.
  EXPECT_EQ(exe.dispatch_count(), 7);
}

// Small nodes side by side are one dispatch, with the numbers of each alone.
TEST(JoinElementwise, GivesWhatTheNodesGive) {
  Graph g;
  const Value x = g.input("x", DType::f32, {33, 17});
  const Value row = g.input("row", DType::f32, {17});
  g.output("sum", x + row);
  g.output("scaled", exp(x * 0.5 - 1.0));
  g.output("whole", cast(g.input("whole_in", DType::i32, {33, 17}), DType::f32) / row);
  g.output("kept", where(greater(x, 0), x, row));
  std::mt19937 random(4);
  const NamedTensors inputs = {{"x", random_tensor(DType::f32, {33, 17}, -2, 2, random)},
                               {"row", random_tensor(DType::f32, {17}, -2, 2, random)},
                               {"whole_in", random_tensor(DType::i32, {33, 17}, -50, 50, random)}};
  Executable joint = compile(g, full_device());
  const NamedTensors got = joint.run(inputs);
  EXPECT_EQ(joint.dispatch_count(), 1);
  const NamedTensors alone = compile(g, full_device(), {.optimize = false}).run(inputs);
  for (const auto& [name, value] : alone) EXPECT_EQ(got.at(name), value) << name;
}

}  // namespace
}  // namespace rlx::testing
