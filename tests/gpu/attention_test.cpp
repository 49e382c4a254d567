// Attention beyond single samples: packed inputs read in place, rows that see nothing, symbolic lengths, and
// numbers that are not finite.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/format.h"
#include "ir/reference.h"
#include "kernels/candidate.h"
#include "rlx/compile.h"
#include "rlx/graph.h"
#include "rlx/ops/attention.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"
#include "tests/support/compare.h"
#include "tests/support/devices.h"
#include "tests/support/sample.h"

namespace rlx::testing {
namespace {

// The machine's device, or one with units that take f32.
const Device& device_with(std::string_view variant) {
  return variant == "matrix" ? emulating_device() : full_device();
}

constexpr int64_t kHeads = 3;
constexpr int64_t kHead = 16;

// Queries, keys and values side by side, as one projection makes them.
Graph packed_graph(const Dim& length) {
  Graph g;
  const Value packed = g.input("qkv", DType::f32, {2, length, 3 * kHeads * kHead});
  const Value parts = reshape(packed, {2, length, 3, kHeads, kHead});
  const auto part = [&](int64_t i) {
    return transpose(reshape(slice(parts, 2, i, 1), {2, length, kHeads, kHead}), {0, 2, 1, 3});
  };
  g.output("y", attention(part(0), part(1), part(2), {.heads = kHeads, .mask = MaskKind::causal}));
  return g;
}

TEST(Attention, ReadsPackedInputsInPlace) {
  for (const Device* device : {&full_device(), &small_device()}) {
    const Graph g = packed_graph(Dim(21));
    std::mt19937 random(1);
    const NamedTensors inputs = {
        {"qkv", random_tensor(DType::f32, {2, 21, 3 * kHeads * kHead}, -2, 2, random)}};
    Executable exe = compile(g, *device);
    const NamedTensors got = exe.run(inputs);
    EXPECT_EQ(exe.dispatch_count(), 1);
    EXPECT_TRUE(close(got.at("y"), run_reference(g, inputs).at("y"), {.ulps = 32, .terms = 21, .scale = 2}));
  }
}

TEST(Attention, TakesSymbolicLengths) {
  const Graph g = packed_graph(Dim("length"));
  EXPECT_EQ(g.type(g.outputs()[0].value).shape.text(), "[2, 3, length, 16]");
  Executable exe = compile(g, full_device());
  for (int64_t length : {1, 9, 70}) {
    std::mt19937 random(2);
    const NamedTensors inputs = {
        {"qkv", random_tensor(DType::f32, {2, length, 3 * kHeads * kHead}, -2, 2, random)}};
    const auto want = run_reference(bind_symbols(g, {{"length", length}}), inputs).at("y");
    EXPECT_TRUE(close(exe.run(inputs).at("y"), want, {.ulps = 32, .terms = 70, .scale = 2})) << length;
  }
}

TEST(Attention, GivesZerosToQueriesThatSeeNothing) {
  for (const char* variant : {"online", "blocked", "plain", "matrix"}) {
    Graph g;
    const Value x = g.input("x", DType::f32, {1, 1, 2, 4});
    const Value keep = g.input("keep", DType::bool_, {2, 2});
    const Value bias = g.input("bias", DType::f32, {2, 2});
    g.output("kept", attention(x, x, x, {}, keep));
    g.output("biased", attention(x, x, x, {}, bias));
    std::mt19937 random(3);
    const double none = -std::numeric_limits<double>::infinity();
    const std::vector<int64_t> kept = {0, 0, 1, 0};
    const std::vector<double> added = {none, none, 0, none};
    const NamedTensors inputs = {{"x", random_tensor(DType::f32, {1, 1, 2, 4}, -2, 2, random)},
                                 {"keep", Tensor::from_ints(DType::bool_, {2, 2}, kept)},
                                 {"bias", Tensor::from_doubles(DType::f32, {2, 2}, added)}};
    const NamedTensors got =
        compile(g, device_with(variant), {.kernels = {{"attention", variant}}}).run(inputs);
    for (const char* output : {"kept", "biased"}) {
      for (int64_t i = 0; i < 4; ++i) {
        EXPECT_EQ(got.at(output).real(i), 0) << variant;
        EXPECT_FLOAT_EQ(got.at(output).real(4 + i), inputs.at("x").real(i)) << variant;
      }
    }
  }
}

// Scores with an added mask, and with numbers in place of masked scores. Their number is not a multiple of
// the keys that kernels process at a time: what they pad with must not show.
Graph written_out() {
  return parse_graph(R"(graph g {
    %q = input : f32[1, 2, 5, 8]
    %k = input : f32[1, 2, 7, 8]
    %v = input : f32[1, 2, 7, 8]
    %added = input : f32[5, 7]
    %keep = input : bool[5, 7]
    %large = constant {value=tensor f32[] fill -1e9}
    %none = constant {value=tensor f32[] fill -inf}
    %kt = transpose(%k) {perm=[0, 1, 3, 2]}
    %s0 = matmul(%q, %kt)
    %t0 = mul(%s0, 0.5)
    %a0 = add(%t0, %added)
    %p0 = softmax(%a0)
    %y0 = matmul(%p0, %v)
    %n1 = neg(%q)
    %s1 = matmul(%n1, %kt)
    %a1 = where(%keep, %s1, %large)
    %p1 = softmax(%a1)
    %y1 = matmul(%p1, %v)
    %n2 = relu(%q)
    %s2 = matmul(%n2, %kt)
    %a2 = where(%keep, %s2, %none)
    %p2 = softmax(%a2)
    %y2 = matmul(%p2, %v)
    output y0 = %y0
    output y1 = %y1
    output y2 = %y2
  })");
}

// The same classes of numbers, and the same numbers up to rounding.
void expect_alike(const NamedTensors& got, const NamedTensors& want, const std::string& what) {
  for (const auto& [name, value] : want)
    ASSERT_TRUE(within(got.at(name), value, 1e-5, 1e-5)) << what << ": " << name;
}

TEST(Attention, FusedGivesWhatTheNodesGive) {
  const Graph g = written_out();
  std::mt19937 random(5);
  NamedTensors plain;
  for (const Node& n : g.nodes()) {
    if (n.op->is(LeafKind::input))
      plain[n.name] = random_tensor(n.outputs[0].dtype, n.outputs[0].shape.values(), -2, 2, random);
  }
  const double inf = std::numeric_limits<double>::infinity();
  const auto with = [&](const std::string& name, size_t begin, size_t count, double value) {
    NamedTensors inputs = plain;
    std::vector<double> values = plain.at(name).doubles();
    std::fill_n(values.begin() + static_cast<ptrdiff_t>(begin), count, value);
    inputs[name] = Tensor::from_doubles(plain.at(name).dtype(), plain.at(name).shape(), values);
    return inputs;
  };
  const std::vector<std::pair<std::string, NamedTensors>> cases = {
      {"random", plain},
      {"a row without keys, excluded", with("keep", 7, 7, 0)},
      {"a row without keys, added", with("added", 7, 7, -inf)},
      {"one key of a row", with("added", 8, 6, -inf)},
      {"an infinite value of the last key", with("v", 6 * 8, 8, inf)},
      {"an infinite value of the first key", with("v", 0, 8, -inf)},
      {"NaN among the values", with("v", 3 * 8 + 5, 1, std::nan(""))},
      {"NaN among the keys", with("k", 2 * 8 + 1, 1, std::nan(""))},
      {"an infinite key", with("k", 6 * 8, 1, inf)},
      {"an infinite query", with("q", 8, 1, -inf)},
      {"a mask of +inf", with("added", 3, 1, inf)},
      {"a mask of NaN", with("added", 34, 1, std::nan(""))},
      {"an infinite value of an excluded key",
       [&] {
         NamedTensors inputs = with("v", 6 * 8, 8, inf);
         inputs["keep"] = with("keep", 6, 29, 0).at("keep");
         return inputs;
       }()},
      {"large queries and keys",
       [&] {
         NamedTensors inputs = with("q", 0, 40, 1e19);
         inputs["k"] = with("k", 0, 56, 1e19).at("k");
         return inputs;
       }()},
  };
  Executable nodes = compile(g, full_device(), {.optimize = false});
  for (const char* variant : {"online", "blocked", "plain", "matrix"}) {
    Executable fused = compile(g, device_with(variant), {.kernels = {{"attention", variant}}});
    EXPECT_TRUE(to_text(*fused.graph()).contains("%y2 = attention(")) << to_text(*fused.graph());
    for (const auto& [what, inputs] : cases)
      expect_alike(fused.run(inputs), nodes.run(inputs), std::string(variant) + ", " + what);
  }
}

// A key that is hidden from a query is no part of its sum, whatever its value; the reference does not look at
// it. One that is excluded by a mask has the weight 0, and 0 times infinity is NaN, as where it is written
// out.
TEST(Attention, HiddenKeysMayHoldAnything) {
  const double inf = std::numeric_limits<double>::infinity();
  const auto graph = [](const std::string& attributes) {
    return parse_graph(
        "graph g {\n%q = input : f32[1, 2, 13, 8]\n%k = input : f32[1, 2, 13, 8]\n"
        "%v = input : f32[1, 2, 13, 6]\n%y = attention(%q, %k, %v) {" +
        attributes + "}\noutput y = %y\n}");
  };
  std::mt19937 random(9);
  NamedTensors inputs;
  for (const char* name : {"q", "k"}) inputs[name] = random_tensor(DType::f32, {1, 2, 13, 8}, -2, 2, random);
  std::vector<double> v(2 * 13 * 6, 0.5);
  v[3 * 6] = inf;
  v[5 * 6 + 1] = -inf;
  v[11 * 6 + 2] = std::nan("");
  v[(13 + 12) * 6 + 3] = inf;
  inputs["v"] = Tensor::from_doubles(DType::f32, {1, 2, 13, 6}, v);
  for (const char* attributes : {"mask=\"causal\"", "mask=\"sliding_window\", window=4"}) {
    const Graph g = graph(attributes);
    const NamedTensors want = {{"y", run_reference(g, inputs).at("y").to_tensor()}};
    for (const char* variant : {"online", "online ACROSS=2", "blocked", "plain", "matrix"}) {
      Executable exe = compile(g, device_with(variant), {.kernels = {{"attention", variant}}});
      expect_alike(exe.run(inputs), want, std::string(variant) + ", " + attributes);
    }
  }
}

// More rows and keys than a workgroup and a block of keys have, in all forms of the online kernel.
TEST(Attention, RowsMayHaveSeveralInvocations) {
  struct Form {
    DType type;
    const char* inputs;
    const char* attributes;
  };
  for (const Form& f : {Form{DType::f32, "", ""}, Form{DType::f32, ", %keep", ", mask=\"causal\""},
                        Form{DType::f16, "", ", mask=\"sliding_window\", window=30"},
                        Form{DType::f16, "", ", round_scores=true, empty_row=\"nan\""},
                        Form{DType::f32, ", lengths=%lengths, sinks=%sinks", ", log_sum_exp=true"}}) {
    const Graph g = parse_graph(
        formatted(R"(graph g {{
      %q = input : {0}[1, 2, 71, 48]
      %k = input : {0}[1, 1, 83, 48]
      %v = input : {0}[1, 1, 83, 16]
      %keep = input : bool[71, 83]
      %sinks = input : {0}[2]
      %lengths = input : i32[1]
      %y = attention(%q, %k, %v{1}) {{kv_heads=1{2}}}
      output y = %y
      {3}
    }})",
                  to_string(f.type), f.inputs, f.attributes,
                  std::string_view(f.attributes).contains("log_sum_exp") ? "output log_sum = %y:1" : ""));
    std::mt19937 random(13);
    NamedTensors inputs;
    for (const Node& n : g.nodes()) {
      if (n.op->is(LeafKind::input))
        inputs[n.name] = random_tensor(n.outputs[0].dtype, n.outputs[0].shape.values(), -2, 2, random);
    }
    const std::vector<int64_t> length = {61};
    inputs["lengths"] = Tensor::from_ints(DType::i32, {1}, length);
    const auto want = run_reference(g, inputs);
    for (const char* variant : {"online ACROSS=2", "online ACROSS=4"}) {
      SCOPED_TRACE(formatted("{}{}{} {}", to_string(f.type), f.inputs, f.attributes, variant));
      Executable exe = compile(g, full_device(), {.kernels = {{"attention", variant}}});
      const NamedTensors got = exe.run(inputs);
      EXPECT_TRUE(has_words(exe.plan_report().run.back().variant, variant));
      for (const auto& [name, value] : want) {
        const double ulps = f.type == DType::f32 ? 64 : 64 + 4 * epsilon(f.type) / epsilon(DType::f32);
        EXPECT_TRUE(close(got.at(name), value, {.ulps = ulps, .terms = 83, .scale = 2})) << name;
      }
    }
  }
}

// Few queries of many keys: workgroups have parts of the keys, of which some see nothing.
Graph few_queries(DType type, const std::string& forms, const std::string& attributes) {
  return parse_graph(formatted(R"(graph g {{
    %q = input : {0}[1, 2, 3, 20]
    %k = input : {0}[1, 1, 1101, 20]
    %v = input : {0}[1, 1, 1101, 17]
    %keep = input : bool[3, 1101]
    %sinks = input : {0}[2]
    %lengths = input : i32[1]
    %y = attention(%q, %k, %v{1}) {{kv_heads=1{2}}}
    output y = %y
    {3}
  }})",
                               to_string(type), forms, attributes,
                               attributes.contains("log_sum_exp") ? "output log_sum = %y:1" : ""));
}

TEST(Attention, JoinsPartsOfTheKeys) {
  struct Form {
    DType type;
    const char* inputs;
    const char* attributes;
    int64_t length = 1101;
  };
  const double inf = std::numeric_limits<double>::infinity();
  for (const Form& f :
       {Form{DType::f32, "", ""}, Form{DType::f16, "", ", mask=\"causal\""},
        Form{DType::f32, ", %keep", ", mask=\"sliding_window\", window=300, empty_row=\"nan\""},
        Form{DType::f32, ", %keep", ", soft_cap=2"},
        Form{DType::f32, ", lengths=%lengths, sinks=%sinks", ", log_sum_exp=true", 300},
        Form{DType::bf16, ", lengths=%lengths", ", mask=\"causal\", log_sum_exp=true", 900},
        Form{DType::f32, ", lengths=%lengths", ", log_sum_exp=true", 0}}) {
    const Graph g = few_queries(f.type, f.inputs, f.attributes);
    std::mt19937 random(11);
    NamedTensors inputs;
    for (const Node& n : g.nodes()) {
      if (n.op->is(LeafKind::input))
        inputs[n.name] = random_tensor(n.outputs[0].dtype, n.outputs[0].shape.values(), -2, 2, random);
    }
    std::vector<double> keep = inputs.at("keep").doubles();
    std::fill_n(keep.begin() + 1101, 1101, 0);  // the second query sees nothing
    inputs["keep"] = Tensor::from_doubles(DType::bool_, {3, 1101}, keep);
    const std::vector<int64_t> length = {f.length};
    inputs["lengths"] = Tensor::from_ints(DType::i32, {1}, length);
    for (const double value : {0.0, inf, -inf, std::nan("")}) {
      SCOPED_TRACE(formatted("{}{}{} with {}", to_string(f.type), f.inputs, f.attributes, value));
      std::vector<double> values = inputs.at("v").doubles();
      if (value != 0) values[700 * 17 + 3] = value;
      inputs["v"] = Tensor::from_doubles(f.type, {1, 1, 1101, 17}, values);
      Executable exe = compile(g, full_device(), {.kernels = {{"attention", "split"}}});
      const NamedTensors got = exe.run(inputs);
      const PlanReport plan = exe.plan_report();
      EXPECT_EQ(plan.run.back().kernel, "attention_join");
      for (const auto& [name, want] : run_reference(g, inputs)) {
        const double ulps = f.type == DType::f32 ? 64 : 64 + 2 * epsilon(f.type) / epsilon(DType::f32);
        EXPECT_TRUE(close(got.at(name), want, {.ulps = ulps, .terms = 1101, .scale = 2})) << name;
      }
    }
  }
}

TEST(Attention, SaysWhatIsWrong) {
  Graph g;
  const Value q = g.input("q", DType::f32, {1, 4, 5, 8});
  const Value k = g.input("k", DType::f32, {1, 3, 5, 8});
  EXPECT_THROW(attention(q, k, k, {}), Error);
  EXPECT_THROW(attention(q, k, k, {.kv_heads = 3}), Error);
  EXPECT_THROW(attention(q, q, q, {.heads = 5}), Error);
  EXPECT_THROW(attention(q, q, q, {}, g.input("mask", DType::f32, {4, 4})), Error);
  EXPECT_THROW(
      parse_graph("graph g { %q = input : f32[1,1,2,4] %y = attention(%q,%q,%q) {masked_score=nan} }"),
      Error);
}

}  // namespace
}  // namespace rlx::testing
