// Ops that a program registers: each form of kernel, atomics, tables, parameters, and what errors say.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "ir/reference.h"
#include "rlx/call.h"
#include "rlx/compile.h"
#include "rlx/custom_op.h"
#include "rlx/device.h"
#include "rlx/diagnostics.h"
#include "rlx/dtype.h"
#include "rlx/executable.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"
#include "rlx/schema.h"
#include "rlx/shape.h"
#include "rlx/tensor.h"
#include "rlx/value.h"
#include "tests/support/devices.h"
#include "tests/support/message.h"

namespace rlx::testing {
namespace {

// y = factor * x + bias of the last axis.
CustomOp scaled() {
  return {
      .name = "test_scaled",
      .formula = "y = factor * x + bias",
      .attributes = {{"factor", 2.0}},
      .wgsl = R"(
    //@ in x float
    //@ in bias float
    //@ out y float
    //@ use flat
    struct Params { first: u32, end: u32, factor: f32, columns: u32, }
    fn element(i: u32) -> y_t { return params.factor * x_at(i) + bias_get(bias_step(i % params.columns)); }
    fn owns(i: u32) -> bool { return x_has(x_flat(i)); }
  )",
      .reference =
          [](CustomReference& r) {
            const size_t columns = r.in(1).size();
            for (size_t i = 0; i < r.out().size(); ++i)
              r.out()[i] = r.number("factor") * r.in(0)[i] + r.in(1)[i % columns];
          },
      .params = [](CustomParams& p) { p.set("columns", static_cast<double>(p.input(1).shape[0].value())); },
      .gradient =
          [](const CustomGradient& g) {
            const Value& dy = g.output_gradients[0];
            return std::vector<Value>{dy * g.call.number("factor"), sum(dy, {0}, false)};
          }};
}

// Rows minus their largest element; the largest elements are a second output.
CustomOp below_largest() {
  return {.name = "test_below_largest",
          .formula = "y = x - max(x), m = max(x), along axis",
          .attributes = {{"axis", -1}},
          .wgsl = R"(
    //@ in x float x4
    //@ out y float x4
    //@ out m float
    //@ use team_serial four put_four
    const TEAM: u32 = 1u;  //@ spec
    const FOUR: bool = false;  //@ spec
    struct Params { first: u32, end: u32, length: u32, }
    alias team_t = f32;
    fn merge(a: f32, b: f32) -> f32 { return max_nan(a, b); }
    fn row_task(row: u32, lane: u32, width: u32) {
      let base = x_base(row);
      let end4 = params.length & ~3u;
      var most = -infinity();
      for (var j = 4u * lane; j < end4; j += 4u * TEAM) {
        let v = four(base, j);
        most = max_nan(most, max_nan(max_nan(v.x, v.y), max_nan(v.z, v.w)));
      }
      for (var j = end4 + lane; j < params.length; j += TEAM) { most = max_nan(most, x_get(base + x_step(j))); }
      most = team_all(most, lane, width);
      let to = y_base(row);
      for (var j = 4u * lane; j < end4; j += 4u * TEAM) { put_four(to, j, four(base, j) - most); }
      for (var j = end4 + lane; j < params.length; j += TEAM) { y_put(to + y_step(j), x_get(base + x_step(j)) - most); }
      if (lane == 0u) { m_put(m_base(row), most); }
    }
  )",
          .infer =
              [](const CustomCall& c) {
                TensorType rows = c.input(0);
                std::vector<Dim> dims(rows.shape.begin(), rows.shape.end());
                dims.erase(dims.begin() + c.axis("axis"));
                return std::vector<TensorType>{c.input(0), {rows.dtype, Shape(dims)}};
              },
          .reference =
              [](CustomReference& r) {
                const std::vector<int64_t> dims = r.input(0).shape.values();
                const auto axis = static_cast<size_t>(r.axis("axis"));
                size_t stride = 1;
                for (size_t a = axis + 1; a < dims.size(); ++a) stride *= static_cast<size_t>(dims[a]);
                const auto length = static_cast<size_t>(dims[axis]);
                for (size_t row = 0; row < r.out(1).size(); ++row) {
                  const size_t at = row / stride * stride * length + row % stride;
                  double most = -INFINITY;
                  for (size_t j = 0; j < length; ++j) most = std::max(most, r.in(0)[at + j * stride]);
                  for (size_t j = 0; j < length; ++j)
                    r.out()[at + j * stride] = r.in(0)[at + j * stride] - most;
                  r.out(1)[row] = most;
                }
              },
          .row_axis = [](const CustomCall& c) { return c.axis("axis"); }};
}

// Each of x's elements changes one of y's: y[index] = change(y[index], x).
CustomOp scatter(const std::string& change, double initial, double (*combine)(double, double)) {
  return {.name = "test_scatter_" + change,
          .formula = "y[index[i]] changes by x[i]",
          .types = "f32 f16 bf16 i32 u32 i64 i8 u8",
          .attributes = {{"size", 4}},
          .wgsl = R"(
    //@ in x any
    //@ in index int
    //@ out y any atomic
    struct Params { count: u32, }
    @compute @workgroup_size(64)
    fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
            @builtin(local_invocation_index) lane: u32) {
      let i = group_index(group, groups) * 64u + lane;
      if (i < params.count) { y_)" +
                  change + R"((y_flat(u32(index_at(i))), x_at(i)); }
    }
  )",
          .infer =
              [](const CustomCall& c) {
                return std::vector<TensorType>{{c.input(0).dtype, {c.integer("size")}}};
              },
          .reference =
              [=](CustomReference& r) {
                std::ranges::fill(r.out(), initial);
                for (size_t i = 0; i < r.in(0).size(); ++i) {
                  double& y = r.out()[static_cast<size_t>(r.in(1)[i])];
                  y = combine(y, r.in(0)[i]);
                }
              },
          .ulps = 64,
          .params = [](CustomParams& p) { p.set("count", static_cast<double>(p.input(0).shape[0].value())); },
          .groups = [](const CustomCall& c) { return (c.input(0).shape[0].value() + 63) / 64; },
          .initial = initial};
}

// y = x * table[i % 5] + a value from parameters of every kind.
CustomOp tabled() {
  return {.name = "test_tabled",
          .formula = "y = x * table + pair.x + three.z + list[4] + quads[1].w",
          .attributes = {{"list", {1, 2, 3, 4, 5}}, {"pair", {0.5, 1.0}}},
          .wgsl = R"(
    //@ in x float
    //@ in table float
    //@ out y float
    //@ use flat
    struct Params {
      first: u32,
      end: u32,
      pair: vec2f,
      three: vec3<i32>,
      list: array<u32, 5>,
      quads: array<vec4f, 2>,
      last: f32,
    }
    fn element(i: u32) -> y_t {
      let extra = params.pair.x + f32(params.three.z) + f32(params_list(4u)) + params.quads[1].w + params.last;
      return x_at(i) * table_get(table_step(i % 5u)) + extra;
    }
  )",
          .reference =
              [](CustomReference& r) {
                for (size_t i = 0; i < r.out().size(); ++i)
                  r.out()[i] = r.in(0)[i] * static_cast<double>(i % 5) + 0.5 - 3 + 5 + 8 + 100;
              },
          .params =
              [](CustomParams& p) {
                p.set("three", std::vector<double>{-1, -2, -3});
                p.set("quads", std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8});
                p.set("last", 100);
              },
          .tables = {{"table", [](const CustomCall&) { return Tensor::of<float>({5}, {0, 1, 2, 3, 4}); }}}};
}

class CustomOps : public ::testing::Test {
 public:
  static void SetUpTestSuite() {
    register_op(scaled());
    register_op(below_largest());
    register_op(scatter("add", 0, [](double a, double b) { return a + b; }));
    register_op(scatter("min", 100, [](double a, double b) { return std::min(a, b); }));
    register_op(scatter("max", 0, [](double a, double b) { return std::max(a, b); }));
    register_op(scatter("exchange", 0, [](double, double b) { return b; }));
    register_op(tabled());
  }
};

Tensor ramp(DType dtype, std::vector<int64_t> dims) {
  int64_t n = 1;
  for (const int64_t d : dims) n *= d;
  std::vector<double> values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i * 7 % 13) - 4;
  return Tensor::from_doubles(dtype, std::move(dims), values);
}

// Runs the graph on a device and lets both verifications judge it.
NamedTensors expect_verified(const Graph& g, const NamedTensors& inputs, const Device& device) {
  Executable exe = compile(g, device, {.keep_intermediates = true});
  const NamedTensors outputs = exe.run(inputs);
  for (const NodeCheck& c : verify_nodes(exe)) {
    EXPECT_EQ(c.wrong, 0) << c.node << ": got " << c.got << " instead of " << c.want << " at " << c.index;
  }
  for (const OutputCheck& c : verify_outputs(g, inputs, outputs)) EXPECT_EQ(c.wrong, 0) << to_text(c);
  return outputs;
}

TEST_F(CustomOps, FlatInCppAndInTexts) {
  Graph g;
  const Value x = g.input("x", DType::f32, {"n", 3});
  const Value bias = g.input("bias", DType::f32, {3});
  g.output("y", relu(custom("test_scaled", {x, bias}, {{"factor", 3}})));
  const Graph same = parse_graph(to_text(g));
  EXPECT_EQ(to_text(same), to_text(g));
  EXPECT_TRUE(to_text(g).contains("test_scaled(%x, %bias) {factor=3")) << to_text(g);
  const NamedTensors inputs = {{"x", Tensor::of<float>({2, 3}, {1, 2, 3, -4, 5, 6})},
                               {"bias", Tensor::of<float>({3}, {10, 0, -100})}};
  Executable exe = compile(same, full_device());
  EXPECT_EQ(exe.run(inputs).at("y").to_vector<float>(), (std::vector<float>{13, 6, 0, 0, 15, 0}));
}

TEST_F(CustomOps, AreInTheTable) {
  CustomOp described = scaled();
  described.name = "test_described";
  described.documentation = {{"bias", "added to each row"}, {"factor", "what x is multiplied by"}};
  register_op(described);
  const OpSchema& op = op_schema("test_described");
  EXPECT_TRUE(op.custom);
  EXPECT_TRUE(std::ranges::contains(op_names(), "test_described"));
  ASSERT_EQ(op.operands.size(), 2U);
  EXPECT_EQ(op.operands[0].types, std::vector<std::string>{"T"});
  EXPECT_EQ(op.operands[1].name, "bias");
  EXPECT_EQ(op.operands[1].doc, "added to each row");
  EXPECT_EQ(op.operands[1].types, (std::vector<std::string>{"f32", "f16", "bf16"}));
  EXPECT_EQ(op.attributes[0].doc, "what x is multiplied by");
  EXPECT_EQ(op.attributes[0].default_value, "2.0");
  EXPECT_EQ(op.outputs[0].name, "y");

  Graph g;
  const Value x = g.input("x", DType::f32, {2, 3});
  const Value bias = g.input("bias", DType::f32, {3});
  EXPECT_EQ(call("test_described", {x, bias}, {{"factor", 3}})[0].type().text(), "f32[2, 3]");
  EXPECT_EQ(message([&] { call("test_described", {x}); }),
            "test_described: the operand 'bias' is missing (its operands: x, bias)");
  CustomOp other = scaled();
  other.name = "test_described_wrongly";
  other.documentation = {{"scale", "nothing"}};
  EXPECT_SAYS(register_op(other), "documents 'scale', which is no operand, attribute or output of it");
  other.documentation = {{"bias", "two\nlines"}};
  EXPECT_SAYS(register_op(other), "documents 'bias' in several lines; it must be one");
}

TEST_F(CustomOps, FlatOfEveryTypeThroughViewsAndUnderSmallLimits) {
  for (const Device* device : {&full_device(), &small_device()}) {
    for (const DType t : {DType::f32, DType::f16, DType::bf16}) {
      for (const std::vector<int64_t>& dims : {std::vector<int64_t>{0, 3}, {1, 1}, {257, 3}, {3, 20011}}) {
        Graph g;
        const Value x = g.input("x", t, Shape(dims));
        const Value bias = g.input("bias", t, {dims[0]});
        g.output("y", custom("test_scaled", {transpose(x, {1, 0}), bias}));
        if (dims[0] == 0) continue;
        expect_verified(g, {{"x", ramp(t, dims)}, {"bias", ramp(t, {dims[0]})}}, *device);
      }
    }
  }
}

TEST_F(CustomOps, AlongRowsOfEveryAxis) {
  for (const Device* device : {&full_device(), &small_device()}) {
    for (const int64_t axis : {0, 1, -1}) {
      for (const DType t : {DType::f32, DType::f16}) {
        for (const std::vector<int64_t>& dims : {std::vector<int64_t>{5, 17, 8}, {3, 257, 129}, {1, 1, 1}}) {
          Graph g;
          const Value x = g.input("x", t, Shape(dims));
          const std::vector<Value> out = custom_outputs("test_below_largest", {x}, {{"axis", axis}});
          ASSERT_EQ(out.size(), 2u);
          g.output("y", out[0]);
          g.output("m", out[1]);
          expect_verified(g, {{"x", ramp(t, dims)}}, *device);
        }
      }
    }
  }
}

TEST_F(CustomOps, RowsAreMadeByEveryTeam) {
  Graph g;
  const Value x = g.input("x", DType::f32, {3, 1031});
  g.output("y", custom("test_below_largest", {x}));
  for (const char* team : {"serial", "workgroup", "subgroup"}) {
    Executable exe =
        compile(g, full_device(), {.kernels = {{"test_below_largest", team}}, .keep_intermediates = true});
    exe.run({{"x", ramp(DType::f32, {3, 1031})}});
    for (const NodeCheck& c : verify_nodes(exe)) EXPECT_EQ(c.wrong, 0) << team;
  }
}

// Thousands of invocations change a few elements, of every width, at the same time.
TEST_F(CustomOps, AtomicChangesOfEveryType) {
  constexpr int64_t n = 3000;
  std::vector<int32_t> index(n);
  for (size_t i = 0; i < n; ++i) index[i] = static_cast<int32_t>(i * 5 % 7);
  for (const Device* device : {&full_device(), &small_device()}) {
    for (const DType t :
         {DType::f32, DType::f16, DType::bf16, DType::i32, DType::u32, DType::i64, DType::i8, DType::u8}) {
      for (const std::string change : {"add", "min", "max"}) {
        std::vector<double> values(n);
        // Sums stay in the range in which every type has all whole numbers.
        for (size_t i = 0; i < n; ++i)
          values[i] = change == "add" ? (i % 29 == 0 ? 1 : 0) : static_cast<double>(i * 3 % 97);
        Graph g;
        const Value x = g.input("x", t, {n});
        const Value at = g.input("index", DType::i32, {n});
        g.output("y", custom("test_scatter_" + change, {x, at}, {{"size", 7}}));
        SCOPED_TRACE(change + " " + std::string(to_string(t)));
        expect_verified(
            g, {{"x", Tensor::from_doubles(t, {n}, values)}, {"index", Tensor::of<int32_t>({n}, index)}},
            *device);
      }
    }
  }
}

TEST_F(CustomOps, ExchangeLeavesOneOfTheValues) {
  Graph g;
  const Value x = g.input("x", DType::u8, {1000});
  const Value at = g.input("index", DType::i32, {1000});
  g.output("y", custom("test_scatter_exchange", {x, at}, {{"size", 3}}));
  std::vector<uint8_t> values(1000);
  std::vector<int32_t> index(1000);
  for (size_t i = 0; i < 1000; ++i) {
    values[i] = static_cast<uint8_t>(10 * (i % 3) + i / 3 % 5 + 1);
    index[i] = static_cast<int32_t>(i % 3);
  }
  const Tensor y =
      compile(g, full_device())
          .run({{"x", Tensor::of<uint8_t>({1000}, values)}, {"index", Tensor::of<int32_t>({1000}, index)}})
          .at("y");
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_GE(y.integer(i), 10 * i + 1);
    EXPECT_LE(y.integer(i), 10 * i + 5);
  }
}

TEST_F(CustomOps, TablesAndParametersOfEveryKind) {
  for (const Device* device : {&full_device(), &small_device()}) {
    Graph g;
    g.set_capacity("n", 40);
    const Value x = g.input("x", DType::f32, {"n"});
    g.output("y", custom("test_tabled", {x}) + custom("test_tabled", {x * 2.0}));
    Executable exe = compile(g, *device);
    for (const int64_t n : {3, 40, 17}) {
      const NamedTensors inputs = {{"x", ramp(DType::f32, {n})}};
      const NamedTensors outputs = exe.run(inputs);
      for (const OutputCheck& c : verify_outputs(bind_symbols(g, {{"n", n}}), inputs, outputs))
        EXPECT_EQ(c.wrong, 0) << to_text(c);
    }
  }
}

// Against finite differences of the reference: sum(y * weights) for one changed element of an input.
TEST_F(CustomOps, GradientsAreNodesOfTheGraph) {
  Graph g;
  const Value x = g.input("x", DType::f32, {2, 3});
  const Value bias = g.input("bias", DType::f32, {3});
  const Value weights = g.input("weights", DType::f32, {2, 3});
  const Value y = custom("test_scaled", {x, bias}, {{"factor", 1.5}});
  g.output("loss", sum(y * weights, {}, false));
  const OpPtr op = g.node(y.id().node).op;
  ASSERT_TRUE(op->has_gradient());
  const std::vector<Value> gradients =
      op->gradient({.inputs = {x, bias}, .outputs = {y}, .output_gradients = {weights}});
  g.output("dx", gradients[0]);
  g.output("dbias", gradients[1]);
  const NamedTensors inputs = {{"x", ramp(DType::f32, {2, 3})},
                               {"bias", ramp(DType::f32, {3})},
                               {"weights", ramp(DType::f32, {2, 3})}};
  const NamedTensors outputs = compile(g, full_device()).run(inputs);
  for (const std::string name : {"x", "bias"}) {
    const Tensor& gradient = outputs.at("d" + name);
    for (int64_t i = 0; i < gradient.elements(); ++i) {
      const auto loss = [&](double step) {
        NamedTensors moved = inputs;
        std::vector<double> values = inputs.at(name).doubles();
        values[static_cast<size_t>(i)] += step;
        moved[name] = Tensor::from_doubles(DType::f32, inputs.at(name).shape(), values);
        return run_reference(g, moved).at("loss").real[0];
      };
      EXPECT_NEAR(gradient.real(i), loss(0.5) - loss(-0.5), 1e-5) << name << " " << i;
    }
  }
  const OpPtr without = g.node(custom("test_tabled", {x}).id().node).op;
  EXPECT_SAYS(without->gradient({}), "the op test_tabled has no gradient");
}

// Reads another element than the one it makes, from an input that could be cut with the output but must not
// be.
TEST_F(CustomOps, FlatKernelsMayReadElsewhere) {
  CustomOp flip = scaled();
  flip.name = "test_flip";
  flip.attributes = {};
  flip.wgsl = R"(
    //@ in x float
    //@ out y float
    //@ use flat
    struct Params { first: u32, end: u32, n: u32, }
    fn element(i: u32) -> y_t { return x_at(params.n - 1u - i); }
  )";
  flip.reference = [](CustomReference& r) { std::ranges::reverse_copy(r.in(0), r.out().begin()); };
  flip.params = [](CustomParams& p) { p.set("n", static_cast<double>(p.input(0).shape[0].value())); };
  register_op(std::move(flip));
  Graph g;
  g.output("y", custom("test_flip", {g.input("x", DType::f32, {50'001})}));
  for (const Device* device : {&full_device(), &small_device()})
    expect_verified(g, {{"x", ramp(DType::f32, {50'001})}}, *device);
}

// y = (x - mean of the row) * w: w is the same for all rows, whatever the rank of x is.
TEST_F(CustomOps, RowsShareWhatTheyOnlyStepThrough) {
  CustomOp centred = below_largest();
  centred.name = "test_weighted_rows";
  centred.attributes = {};
  centred.wgsl = R"(
    //@ in x float
    //@ in w float
    //@ out y float
    //@ use team_serial
    const TEAM: u32 = 1u;  //@ spec
    struct Params { first: u32, end: u32, length: u32, }
    alias team_t = f32;
    fn merge(a: f32, b: f32) -> f32 { return a + b; }
    fn row_task(row: u32, lane: u32, width: u32) {
      var sum = 0.0;
      for (var j = lane; j < params.length; j += TEAM) { sum += x_get(x_base(row) + x_step(j)); }
      let mean = team_all(sum, lane, width) / f32(params.length);
      for (var j = lane; j < params.length; j += TEAM) {
        y_put(y_base(row) + y_step(j), (x_get(x_base(row) + x_step(j)) - mean) * w_get(w_step(j)));
      }
    }
  )";
  centred.infer = {};
  centred.row_axis = {};
  centred.reference = [](CustomReference& r) {
    const size_t length = r.in(1).size();
    for (size_t row = 0; row < r.in(0).size() / length; ++row) {
      double mean = 0;
      for (size_t j = 0; j < length; ++j) mean += r.in(0)[row * length + j] / static_cast<double>(length);
      for (size_t j = 0; j < length; ++j)
        r.out()[row * length + j] = (r.in(0)[row * length + j] - mean) * r.in(1)[j];
    }
  };
  centred.ulps = 64;
  register_op(std::move(centred));
  for (const Device* device : {&full_device(), &small_device()}) {
    for (const std::vector<int64_t>& dims : {std::vector<int64_t>{300, 257}, {257, 257}, {2, 3, 17}, {5}}) {
      Graph g;
      const Value w = g.input("w", DType::f32, {dims.back()});
      g.output("y", custom("test_weighted_rows", {g.input("x", DType::f32, Shape(dims)), w}));
      expect_verified(g, {{"x", ramp(DType::f32, dims)}, {"w", ramp(DType::f32, {dims.back()})}}, *device);
    }
  }
  Graph scalar;
  const Value one = scalar.input("x", DType::f32, {});
  scalar.output("y", custom("test_weighted_rows", {one, one}));
  EXPECT_SAYS(compile(scalar, full_device()), "input 0 is a scalar, which has no rows");
}

// The error when a good op is registered after `change` has been made to it.
std::string registering(const std::function<void(CustomOp&)>& change) {
  CustomOp op = scaled();
  op.name = "test_wrong";
  change(op);
  return message([&] { register_op(std::move(op)); });
}

TEST_F(CustomOps, RegistrationSaysWhatIsWrong) {
  EXPECT_EQ(registering([](CustomOp& op) { op.name = "softmax"; }), "there is an op named 'softmax' already");
  EXPECT_TRUE(
      registering([](CustomOp& op) { op.name = "Mine"; }).contains("'Mine' cannot be the name of an op"));
  for (const std::string name : {"", ".mine", "mine.", "my..own", "my.2nd"}) {
    EXPECT_TRUE(registering([&](CustomOp& op) { op.name = name; }).contains("a dot after a family")) << name;
  }
  EXPECT_TRUE(registering([](CustomOp& op) { op.name = "input"; }).contains("graphs use it for a leaf"));
  EXPECT_TRUE(registering([](CustomOp& op) { op.reference = {}; }).contains("'test_wrong' has no reference"));
  EXPECT_TRUE(registering([](CustomOp& op) { op.types = "f32 c64"; }).contains("takes 'c64'"));
  EXPECT_TRUE(registering([](CustomOp& op) { op.types = "f33"; }).contains("takes 'f33'"));
  EXPECT_TRUE(registering([](CustomOp& op) { op.types = ""; }).contains("takes no type"));
  EXPECT_TRUE(registering([](CustomOp& op) { op.attributes = {{"a b", 1}}; }).contains("an attribute 'a b'"));
  EXPECT_TRUE(registering([](CustomOp& op) {
                op.attributes = {{"a", 1}, {"a", 2}};
              }).contains("two attributes named 'a'"));
  EXPECT_TRUE(registering([](CustomOp& op) {
                op.groups = [](const CustomCall&) { return 1; };
              }).contains("has `groups`"));
  EXPECT_TRUE(
      registering([](CustomOp& op) { op.wgsl = "enable f61;\n"; }).contains("a kernel cannot enable f61"));
  EXPECT_TRUE(registering([](CustomOp& op) {
                op = scatter("add", 0, [](double a, double) { return a; });
                op.name = "test_wrong";
                op.initial = {};
              }).contains("changes y atomically, but `initial`"));
  EXPECT_TRUE(registering([](CustomOp& op) {
                op.wgsl = "//@ in x encoded\n//@ out y float\n";
              }).contains("decoded values"));
  EXPECT_EQ(registering([](CustomOp& op) { op.wgsl = "\n//@ in x real"; }),
            "test_wrong.wgsl:2: operand x has the unknown kind real; it can be float, int or any");
  EXPECT_TRUE(registering([](CustomOp& op) {
                op.file = "mine.wgsl";
                op.wgsl = "//@ include matmul\n";
              }).contains("mine.wgsl: `//@ include matmul`"));
  EXPECT_TRUE(registering([](CustomOp& op) { op.wgsl = "//@ out y float\n"; }).contains("without an input"));
  EXPECT_TRUE(registering([](CustomOp& op) { op.wgsl = "//@ in x float\n"; }).contains("without an output"));
  EXPECT_TRUE(
      registering([](CustomOp& op) { op.wgsl = "//@ in x float\n//@ out y float\n"; }).contains("`groups`"));
  EXPECT_TRUE(registering([](CustomOp& op) { op.tables = {{"nothing", {}}}; }).contains("has a table"));
}

// The rules of WGSL are checked without a device, and the op can be registered once it is mended.
TEST_F(CustomOps, RegistrationReadsTheKernel) {
  const auto replaced = [](CustomOp& op, std::string_view from, std::string_view to) {
    op.file = "my_kernels/bad.wgsl";
    op.wgsl.replace(op.wgsl.find(from), from.size(), to);
  };
  const std::string name =
      registering([&](CustomOp& op) { replaced(op, "params.factor *", "params.fctor *"); });
  EXPECT_TRUE(name.contains("my_kernels/bad.wgsl:7")) << name;
  EXPECT_TRUE(name.contains("fctor")) << name;
  const std::string type = registering([&](CustomOp& op) { replaced(op, "x_at(i)", "vec2f(x_at(i))"); });
  EXPECT_TRUE(type.contains("my_kernels/bad.wgsl:7")) << type;
  const std::string syntax =
      registering([&](CustomOp& op) { replaced(op, "return params", "return return"); });
  EXPECT_TRUE(syntax.contains("my_kernels/bad.wgsl:7")) << syntax;
  const std::string operand = registering([&](CustomOp& op) { replaced(op, "bias_get(", "basis_get("); });
  EXPECT_TRUE(operand.contains("unresolved call target 'basis_get'")) << operand;
  EXPECT_TRUE(registering([&](CustomOp& op) {
                replaced(op, "fn element", "fn elements");
              }).contains("a function element(i: u32) -> y_t"));
  EXPECT_TRUE(registering([&](CustomOp& op) {
                op.groups = [](const CustomCall&) { return 1; };
                op.wgsl = "//@ in x float\n//@ out y float\nfn mine() {}\n";
              }).contains("does not define `@compute @workgroup_size(64) fn main(...)`"));

  // Mended, under the same name.
  CustomOp mended = scaled();
  mended.name = "test_wrong";
  register_op(std::move(mended));
  EXPECT_EQ(registering([](CustomOp&) {}), "there is an op named 'test_wrong' already");
}

// What an operand of any type is, uses say: it is enough that one type makes sense, but input 0 has to make
// sense as all that `types` says.
TEST_F(CustomOps, OperandsOfAnyTypeAreReadAsWhatTheyCanBe) {
  const auto compared = [](const std::string& name, const std::string& types, const std::string& expression) {
    CustomOp op = scaled();
    op.name = name;
    op.types = types;
    op.attributes = {};
    op.params = {};
    op.gradient = {};
    op.wgsl =
        "//@ in x any\n//@ in c any\n//@ out y any\n//@ use flat\nstruct Params { first: u32, end: u32, }\n"
        "fn element(i: u32) -> y_t { return " +
        expression + "; }\n";
    op.reference = [](CustomReference& r) { r.out()[0] = 0; };
    return message([&] { register_op(std::move(op)); });
  };
  EXPECT_EQ(compared("test_any_bool", "f32 i32 u8", "select(x_at(i) < x_t(3), c_at(i), x_at(i) > x_t(1))"),
            "no error");
  EXPECT_EQ(compared("test_any_mixed", "f32 f16", "u32(x_at(i)) << c_at(i)"), "no error");
  const std::string wrong = compared("test_any_wrong", "f32 i32", "y_t(sin(x_at(i)))");
  EXPECT_TRUE(wrong.starts_with("with i32 in x: ")) << wrong;
  EXPECT_TRUE(wrong.contains("test_any_wrong.wgsl:6")) << wrong;
}

TEST_F(CustomOps, UsesSayWhatIsWrong) {
  Graph g;
  const Value x = g.input("x", DType::f32, {2, 3});
  const Value bias = g.input("bias", DType::f32, {3});
  const Value whole = g.input("whole", DType::i32, {2, 3});
  EXPECT_SAYS(custom("test_scaled", {x}), "takes 2 inputs, not 1");
  EXPECT_SAYS(custom("test_scaled", {whole, bias}), "input 0 is i32, but the kernel has x as floats");
  EXPECT_SAYS(custom("test_scaled", {x, bias}, {{"fact", 1.0}}),
              "there is no attribute 'fact' (it has: factor)");
  EXPECT_SAYS(custom("test_scaled", {x, bias}, {{"factor", "two"}}),
              "the attribute 'factor' is a number, not a text");
  EXPECT_SAYS(custom("softmax", {x}), "the op 'softmax' is not a custom op");
  EXPECT_SAYS(custom("test_sclaed", {x}), "similar: test_scaled");
  EXPECT_SAYS(custom("test_below_largest", {x}, {{"axis", 5}}), "axis 5");
  EXPECT_SAYS(
      parse_graph("graph g {\n  %x = input : f32[2, 3]\n  %y = test_scaled(%x, %x) {factor=\"two\"}\n  "
                  "output y = %y\n}\n"),
      "factor");
}

// What only the device or the lowering can find: the file, the line, the numbers.
TEST_F(CustomOps, KernelsThatAreWrongSayWhere) {
  const auto running = [](const std::string& name, const std::function<void(CustomOp&)>& change) {
    CustomOp op = scaled();
    op.name = name;
    change(op);
    register_op(std::move(op));
    return message([&] {
      Graph g;
      g.output("y", custom(name, {g.input("x", DType::f32, {2, 3}), g.input("bias", DType::f32, {3})}));
      compile(g, full_device()).run({{"x", ramp(DType::f32, {2, 3})}, {"bias", ramp(DType::f32, {3})}});
    });
  };
  EXPECT_TRUE(running("test_bad_output", [](CustomOp& op) {
                op.infer = [](const CustomCall& c) {
                  return std::vector<TensorType>{{DType::i32, c.input(0).shape}};
                };
              }).contains("output 0 is i32, but the kernel has y as floats"));
  EXPECT_TRUE(running("test_bad_infer", [](CustomOp& op) {
                op.infer = [](const CustomCall&) -> std::vector<TensorType> {
                  throw std::runtime_error("boom");
                };
              }).contains("test_bad_infer: its function `infer` failed: boom"));
  EXPECT_TRUE(running("test_bad_throw", [](CustomOp& op) {
                op.params = [](CustomParams&) { throw 42; };
              }).contains("its function `params` threw something that is not an exception"));
  EXPECT_TRUE(running("test_bad_params", [](CustomOp& op) {
                op.params = {};
              }).contains("nothing sets the parameter 'columns' of its kernel"));
  EXPECT_TRUE(running("test_bad_name", [](CustomOp& op) {
                op.params = [](CustomParams& p) { p.set("rows", 1); };
              }).contains("its kernel has no parameter 'rows'"));
  EXPECT_TRUE(running("test_bad_number", [](CustomOp& op) {
                op.params = [](CustomParams& p) { p.set("columns", -1); };
              }).contains("the parameter 'columns' is a u32, which cannot be -1"));
}

}  // namespace
}  // namespace rlx::testing
