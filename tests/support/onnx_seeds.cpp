#include "tests/support/onnx_seeds.h"

namespace rlx::testing {
namespace {

using Attributes = OnnxGraph::Attributes;
using Ints = std::vector<int64_t>;

Tensor ints(const Ints& values) { return Tensor::of({std::ssize(values)}, values); }

class Seeds {
 public:
  void add(const std::string& name, const OnnxModel& model) { all.push_back({name, model.bytes()}); }

  // One node of x: float[2, 3, n] and of constants.
  void node(const std::string& op, const std::vector<std::pair<std::string, Tensor>>& constants = {},
            const Attributes& attributes = {}, int64_t opset = 21) {
    OnnxModel model(opset);
    model.graph.input("x", {2, 3, "n"});
    std::vector<std::string> inputs = {"x"};
    for (const auto& [name, value] : constants) {
      model.graph.initializer(name, value);
      inputs.push_back(name);
    }
    model.graph.node(op, inputs, {"y"}, attributes).output("y");
    add(op + (opset == 21 ? "" : std::to_string(opset)), model);
  }

  std::vector<OnnxSeed> all;
};

void add_nodes(Seeds& seeds) {
  const Tensor half = Tensor::scalar(0.5F);
  seeds.node("LeakyRelu", {}, {{"alpha", 0.2}});
  seeds.node("Pow", {{"e", half}});
  seeds.node("Clip", {{"low", half}, {"high", Tensor::scalar(2.0F)}});
  seeds.node("Mod", {{"m", half}}, {{"fmod", 1}});
  seeds.node("Cast", {}, {{"to", static_cast<int>(ElementType::int16)}});
  seeds.node("Softmax", {}, {{"axis", 1}}, 11);
  seeds.node("ReduceLogSumExp", {{"axes", ints({-1, 0})}}, {{"keepdims", 0}});
  seeds.node("ArgMax", {}, {{"axis", 1}, {"select_last_index", 1}});
  seeds.node("Hardmax", {}, {{"axis", -1}}, 11);
  seeds.node("LayerNormalization", {{"scale", half}}, {{"axis", 1}});
  seeds.node("RandomNormalLike", {}, {{"mean", 1.0}, {"seed", 2.0}, {"dtype", 10}});
  seeds.node("Bernoulli", {}, {{"dtype", 9}});
  seeds.node("Dropout", {{"ratio", half}, {"training", Tensor::full(DType::bool_, {}, 1)}}, {{"seed", 3}});
  seeds.node("Transpose", {}, {{"perm", Ints{2, 0, 1}}});
  seeds.node("Reshape", {{"to", ints({0, -1, 3})}});
  seeds.node("Flatten", {}, {{"axis", 2}});
  seeds.node("Unsqueeze", {{"axes", ints({0, -1})}});
  seeds.node("Expand", {{"to", ints({4, 2, 3, 1})}});
  seeds.node("Tile", {{"times", ints({1, 2, 3})}});
  seeds.node("Pad", {{"pads", ints({0, 1, 2, 0, -1, 1})}}, {{"mode", "constant"}});
  seeds.node("Slice", {{"from", ints({-1})}, {"to", ints({-100})}, {"axes", ints({1})}, {"by", ints({-2})}});
  seeds.node("Slice", {}, {{"starts", Ints{0, 1}}, {"ends", Ints{1, 1000}}, {"axes", Ints{0, 1}}}, 9);
  seeds.node("Gather", {{"at", ints({0, -1})}}, {{"axis", 1}});
  seeds.node("Conv", {{"w", Tensor::zeros(DType::f32, {1, 3, 2})}}, {{"auto_pad", "SAME_UPPER"}});
}

void add_products(Seeds& seeds) {
  OnnxModel gemm;
  gemm.graph.input("a", {"m", 4})
      .initializer("b", Tensor::full(DType::f32, {3, 4}, 0.25))
      .initializer("c", Tensor::of({3}, {1.F, 2.F, 3.F}))
      .node("Gemm", {"a", "b", "c"}, {"h"}, {{"alpha", 2.0}, {"transB", 1}})
      .node("MatMul", {"h", "b"}, {"y"})
      .output("y");
  seeds.add("products", gemm);

  OnnxModel integers;
  integers.graph.input("a", {2, 3}, ElementType::uint4)
      .initializer_message(onnx_tensor("b", ElementType::uint4, {3, 1}, "\x21\x03"))
      .node("MatMul", {"a", "b"}, {"y"})
      .output("y", ElementType::uint4);
  seeds.add("integer_product", integers);

  OnnxModel experts;
  experts.import("com.microsoft", 1);
  experts.graph.input("x", {"n", 4})
      .input("router", {"n", 2})
      .initializer("up", Tensor::full(DType::u8, {2, 6, 2}, 0x5a))
      .initializer("up_scale", Tensor::full(DType::f32, {2, 6, 2}, 0.25))
      .initializer("bias", Tensor::full(DType::f32, {2, 6}, 0.5))
      .initializer("down", Tensor::full(DType::u8, {2, 4, 2}, 0xa5))
      .initializer("down_scale", Tensor::full(DType::f32, {2, 4, 2}, 0.25))
      .node("QMoE", {"x", "router", "up", "up_scale", "bias", "down", "down_scale"}, {"y"},
            {{"k", 2}, {"activation_type", "swiglu"}, {"swiglu_fusion", 1}, {"block_size", 2}},
            "com.microsoft")
      .output("y");
  seeds.add("experts", experts);
}

// Sizes that are computed from sizes.
void add_shapes(Seeds& seeds) {
  OnnxModel model;
  model.graph.input("x", {"batch", "seq", 6})
      .initializer("two", ints({2}))
      .initializer("minus", ints({-1}))
      .initializer("zero", Tensor::scalar<int64_t>(0))
      .initializer("one", Tensor::scalar<int64_t>(1))
      .node("Shape", {"x"}, {"s"}, {{"start", 0}, {"end", 2}})
      .node("Concat", {"s", "two", "minus"}, {"to"}, {{"axis", 0}})
      .node("Reshape", {"x", "to"}, {"y"})
      .node("Gather", {"s", "one"}, {"n"}, {{"axis", 0}})
      .node("Range", {"zero", "n", "one"}, {"r"})
      .node("Equal", {"s", "two"}, {"e"})
      .node("ConstantOfShape", {"s"}, {"f"}, {{"value", Tensor::of({1}, {0.5F})}})
      .output("y")
      .output("r", ElementType::int64)
      .output("e", ElementType::boolean)
      .output("f");
  seeds.add("shapes", model);

  OnnxModel given;
  given.graph.input("x", {6})
      .input("shape", {2}, ElementType::int64)
      .node("Reshape", {"x", "shape"}, {"y"})
      .output("y");
  seeds.add("given_shape", given);
}

OnnxGraph branch(const std::string& op) {
  OnnxGraph graph;
  graph.node(op, {"x"}, {"z"}).output("z");
  return graph;
}

// Lists that a loop makes longer and a body maps, out of order, and an optional.
void add_sequences(Seeds& seeds) {
  OnnxGraph longer;
  longer.input("i", {}, ElementType::int64).input("on", {}, ElementType::boolean);
  longer.input("l", {2}, ElementType::float32, OnnxKind::sequence);
  longer.node("SequenceAt", {"s", "i"}, {"row"})
      .node("SequenceInsert", {"l", "row", "zero"}, {"m"})
      .output("on", ElementType::boolean)
      .output("m", ElementType::float32, OnnxKind::sequence);
  OnnxGraph minus;
  minus.input("e", {2}).node("Neg", {"e"}, {"f"}).output("f");
  OnnxModel model;
  model.graph.input("x", {3, 2}).input("o", {2}, ElementType::float32, OnnxKind::optional);
  model.graph.initializer("three", Tensor::scalar<int64_t>(3))
      .initializer("zero", Tensor::scalar<int64_t>(0));
  model.graph.node("ConcatFromSequence", {"n"}, {"y"}, {{"axis", 0}, {"new_axis", 1}})
      .node("SequenceMap", {"k"}, {"n"}, {{"body", minus}})
      .node("SequenceErase", {"j"}, {"k"})
      .node("Loop", {"three", "", "empty"}, {"j"}, {{"body", longer}})
      .node("SequenceEmpty", {}, {"empty"})
      .node("SplitToSequence", {"x"}, {"s"}, {{"keepdims", 0}})
      .node("SequenceLength", {"k"}, {"count"})
      .node("OptionalHasElement", {"o"}, {"has"})
      .output("y")
      .output("n", ElementType::float32, OnnxKind::sequence)
      .output("count", ElementType::int64)
      .output("has", ElementType::boolean);
  seeds.add("sequences", model);
}

void add_control_flow(Seeds& seeds) {
  OnnxModel choice;
  choice.graph.input("x", {3})
      .input("go", {}, ElementType::boolean)
      .node("If", {"go"}, {"y"}, {{"then_branch", branch("Relu")}, {"else_branch", branch("Neg")}})
      .output("y");
  seeds.add("if", choice);

  OnnxGraph body;
  body.input("i", {}, ElementType::int64)
      .input("on", {}, ElementType::boolean)
      .input("v", {3})
      .node("Identity", {"on"}, {"again"})
      .node("Add", {"v", "x"}, {"next"})
      .output("again", ElementType::boolean)
      .output("next")
      .output("next");
  OnnxModel loop;
  loop.graph.input("x", {3})
      .initializer("trips", Tensor::scalar<int64_t>(4))
      .node("Loop", {"trips", "", "x"}, {"last", "all"}, {{"body", body}})
      .output("last")
      .output("all");
  seeds.add("loop", loop);

  OnnxGraph step;
  step.input("sum", {3})
      .input("row", {3})
      .node("Add", {"sum", "row"}, {"next"})
      .output("next")
      .output("next");
  OnnxModel scan;
  scan.graph.input("start", {3})
      .input("rows", {3, "n"})
      .node("Scan", {"start", "rows"}, {"last", "all"},
            {{"body", step},
             {"num_scan_inputs", 1},
             {"scan_input_axes", Ints{1}},
             {"scan_output_directions", Ints{1}}})
      .output("last")
      .output("all");
  seeds.add("scan", scan);
}

void add_functions(Seeds& seeds) {
  OnnxGraph body;
  body.node("Mul", {"a", "a"}, {"square"}).node("Sqrt", {"square"}, {"b"});
  OnnxModel model;
  model.import("local", 1).function("local", "Magnitude", {"a"}, {"b"}, body);
  model.graph.input("x", {"n"})
      .node("Magnitude", {"x"}, {"h"}, {}, "local")
      .node("Magnitude", {"h"}, {"y"}, {}, "local")
      .output("y");
  seeds.add("function", model);
}

// Numbers in each of the fields that a tensor may have them in.
void add_tensors(Seeds& seeds) {
  OnnxModel model;
  model.graph.initializer_message(onnx_tensor("a", ElementType::float64, {1}, std::string(8, '\0')))
      .initializer_message(onnx_tensor("b", ElementType::uint64, {1}, "\5" + std::string(7, '\0')))
      .initializer_message(onnx_tensor("c", ElementType::int4, {3}, "\x21\x0f"))
      .initializer_message(
          "\x08\x02\x10\x07\x3a\x02\x05\x07\x42\x01"
          "d")  // int64_data
      .initializer_message(
          "\x08\x01\x10\x01\x25\x01\x01\x01\x3f\x42\x01"
          "e")  // one float, not packed
      .initializer_message(
          "\x08\x02\x10\x0a\x2a\x02\x05\x07\x42\x01"
          "f")  // float16 in int32_data
      .node("Cast", {"b"}, {"b32"}, {{"to", 1}})
      .node("Identity", {"c"}, {"c4"})
      .node("Identity", {"f"}, {"f16"});
  for (const std::string name : {"a", "b32", "d", "e", "c4", "f16"}) model.graph.output(name);
  seeds.add("tensors", model);
}

}  // namespace

std::vector<OnnxSeed> onnx_seeds() {
  Seeds seeds;
  add_nodes(seeds);
  add_products(seeds);
  add_shapes(seeds);
  add_control_flow(seeds);
  add_sequences(seeds);
  add_functions(seeds);
  add_tensors(seeds);
  return std::move(seeds.all);
}

}  // namespace rlx::testing
