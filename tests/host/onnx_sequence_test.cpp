// Sequences and optionals of ONNX: lists while importing, computed here by the reference of what is left.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/format.h"
#include "ir/op.h"
#include "ir/reference.h"
#include "rlx/graph.h"
#include "rlx/onnx.h"
#include "tests/host/onnx_hostile.h"
#include "tests/support/message.h"
#include "tests/support/onnx_model.h"

namespace rlx {
namespace {

using testing::ElementType;
using testing::OnnxGraph;
using testing::OnnxKind;
using testing::OnnxModel;
using testing::hostile::ints;
using testing::hostile::says;
using testing::hostile::whole;
using Reals = std::vector<double>;
using List = std::vector<int64_t>;

Tensor floats(const std::vector<float>& values) { return Tensor::of({std::ssize(values)}, values); }

std::map<std::string, RefTensor> run(const OnnxModel& model, const NamedTensors& inputs,
                                     const onnx::LoadOptions& options = {}) {
  const onnx::Model loaded = onnx::parse(model.bytes(), "m", options);
  NamedTensors all = loaded.weights;
  SymbolValues sizes;
  for (const auto& [name, value] : inputs) {
    if (loaded.graph.find(name) < 0) continue;
    all.emplace(name, value);
    const Shape& shape = loaded.graph.node(loaded.graph.find(name)).outputs[0].shape;
    for (int64_t i = 0; i < shape.rank(); ++i) {
      if (const auto symbol = shape[i].as_symbol()) sizes[*symbol] = value.shape()[static_cast<size_t>(i)];
    }
  }
  return run_reference(bind_symbols(loaded.graph, sizes), all);
}

// x as the sequence "s" of two rows [3].
OnnxModel two_rows() {
  OnnxModel model;
  model.graph.input("x", {2, 3}).node("SplitToSequence", {"x"}, {"s"}, {{"keepdims", 0}});
  return model;
}
const NamedTensors kRows = {{"x", Tensor::of<float>({2, 3}, {0, 1, 2, 10, 11, 12})}};

TEST(OnnxSequence, ListsLeaveNothingInTheGraph) {
  OnnxModel model = two_rows();
  model.graph.initializer("last", whole(-1)).initializer("front", whole(0));
  model.graph.node("SequenceAt", {"s", "last"}, {"b"})
      .node("SequenceInsert", {"s", "b", "front"}, {"s3"})  // b a b
      .node("SequenceErase", {"s3"}, {"s2"})                // b a
      .node("SequenceErase", {"s2", "last"}, {"s1"})        // b
      .node("SequenceInsert", {"s1", "b"}, {"bb"})          // b b
      .node("ConcatFromSequence", {"s3"}, {"flat"}, {{"axis", 0}})
      .node("ConcatFromSequence", {"s2"}, {"columns"}, {{"axis", -1}, {"new_axis", 1}})
      .node("SequenceLength", {"bb"}, {"n"})
      .output("flat")
      .output("columns")
      .output("n", ElementType::int64);
  const auto out = run(model, kRows);
  EXPECT_EQ(out.at("flat").real, (Reals{10, 11, 12, 0, 1, 2, 10, 11, 12}));
  EXPECT_EQ(out.at("columns").dims, (List{3, 2}));
  EXPECT_EQ(out.at("columns").real, (Reals{10, 0, 11, 1, 12, 2}));
  EXPECT_EQ(out.at("n").ints, (List{2}));
  EXPECT_EQ(out.at("n").dims, (List{}));
  for (const Node& n : onnx::parse(model.bytes()).graph.nodes())
    EXPECT_FALSE(std::string(n.op->name()).contains("sequence")) << n.op->name();
}

TEST(OnnxSequence, SplitsByCountSizesAndOnes) {
  const auto pieces = [](const Tensor& split, int64_t axis, int keepdims,
                         const onnx::LoadOptions& options = {}) {
    OnnxModel model;
    model.graph.input("x", {5, "n"}).initializer("split", split);
    const std::vector<std::string> inputs =
        split.elements() == 0 ? std::vector<std::string>{"x"} : std::vector<std::string>{"x", "split"};
    model.graph.node("SplitToSequence", inputs, {"s"},
                     {{"axis", static_cast<int>(axis)}, {"keepdims", keepdims}});
    model.graph.output("s", ElementType::float32, OnnxKind::sequence);
    std::string shapes;
    const onnx::Model loaded = onnx::parse(model.bytes(), "m", options);
    for (const Graph::Output& out : loaded.graph.outputs())
      shapes += formatted("{} {} ", out.name, loaded.graph.type(out.value).shape.text());
    EXPECT_EQ(*loaded.lengths.at("s"), std::ssize(loaded.graph.outputs()));
    return shapes;
  };
  EXPECT_EQ(pieces(whole(2), 0, 1), "s[0] [2, n] s[1] [2, n] s[2] [1, n] ");
  EXPECT_EQ(pieces(whole(7), -2, 0), "s[0] [5, n] ");  // keepdims is for pieces of one
  EXPECT_EQ(pieces(ints({4, 1}), 0, 1), "s[0] [4, n] s[1] [1, n] ");
  EXPECT_EQ(pieces(ints({0, 5}), 0, 1), "s[0] [0, n] s[1] [5, n] ");
  EXPECT_EQ(pieces(ints({}), 0, 1).substr(0, 24), "s[0] [1, n] s[1] [1, n] ");
  EXPECT_EQ(pieces(ints({}), 0, 0), "s[0] [n] s[1] [n] s[2] [n] s[3] [n] s[4] [n] ");
  EXPECT_SAYS(pieces(ints({4, 2}), 0, 1), "its sizes add up to 6, but axis 0 has 5");
  EXPECT_SAYS(pieces(whole(0), 0, 1), "the size of its pieces is 0");
  EXPECT_SAYS(pieces(whole(2), 1, 1), "the number of its pieces depends on the size n");
  EXPECT_EQ(pieces(whole(2), 1, 1, {.symbols = {{"n", 3}}}), "s[0] [5, 2] s[1] [5, 1] ");
}

// Lists of sizes, as PyTorch's exporter writes shapes.
TEST(OnnxSequence, SizesStayKnown) {
  OnnxModel model;
  model.graph.input("x", {"n", 6}).node("Shape", {"x"}, {"shape"});
  model.graph.node("SplitToSequence", {"shape"}, {"s"})
      .initializer("two", ints({2}))
      .initializer("at", whole(0));
  model.graph.node("SequenceInsert", {"s", "two"}, {"s3"}).initializer("three", ints({3}));
  model.graph.initializer("one", whole(1)).node("SequenceErase", {"s3", "one"}, {"s2"});
  model.graph.node("SequenceInsert", {"s2", "three", "one"}, {"to"});
  model.graph.node("ConcatFromSequence", {"to"}, {"sizes"}, {{"axis", 0}});
  model.graph.node("Reshape", {"x", "sizes"}, {"y"}).output("y");
  const onnx::Model loaded = onnx::parse(model.bytes());
  EXPECT_EQ(loaded.graph.type(loaded.graph.outputs()[0].value).shape.text(), "[n, 3, 2]");
}

TEST(OnnxSequence, WhatCannotBeIsASentence) {
  const auto with = [](auto&& add) {
    OnnxModel model = two_rows();
    model.graph.initializer("five", whole(5))
        .initializer("ids", ints({1}))
        .node("SequenceEmpty", {}, {"none"});
    add(model.graph);
    model.graph.output("y");
    return says(model);
  };
  EXPECT_NODE_SAYS(with([](OnnxGraph& g) { g.node("SequenceAt", {"s", "five"}, {"y"}); }),
                   "y (SequenceAt): its position is 5; its sequence has 2 tensors");
  EXPECT_NODE_SAYS(with([](OnnxGraph& g) { g.node("SequenceErase", {"none"}, {"y"}); }),
                   "its sequence has no tensors");
  EXPECT_NODE_SAYS(with([](OnnxGraph& g) { g.node("ConcatFromSequence", {"none"}, {"y"}, {{"axis", 0}}); }),
                   "its sequence has no tensors");
  EXPECT_NODE_SAYS(with([](OnnxGraph& g) { g.node("Relu", {"s"}, {"y"}); }),
                   "y (Relu): its input 0 is a sequence of 2 tensors; it must be a tensor");
  EXPECT_NODE_SAYS(with([](OnnxGraph& g) { g.node("SequenceLength", {"x"}, {"y"}); }),
                   "its input 0 is a tensor; it must be a sequence");
  EXPECT_NODE_SAYS(with([](OnnxGraph& g) { g.node("SequenceConstruct", {"x", "ids"}, {"y"}); }),
                   "its inputs are float and int64; a sequence has one type");
  EXPECT_NODE_SAYS(with([](OnnxGraph& g) { g.node("SequenceInsert", {"s", "ids"}, {"y"}); }),
                   "its tensor is int64, but its sequence has float");
  EXPECT_NODE_SAYS(
      with([](OnnxGraph& g) { g.node("Optional", {}, {"o"}).node("OptionalGetElement", {"o"}, {"y"}); }),
      "its input is an optional that holds nothing");
  EXPECT_NODE_SAYS(with([](OnnxGraph& g) { g.node("Optional", {}, {"y"}); }),
                   "its outputs are sequences and optionals without elements");
}

TEST(OnnxSequence, APositionOfTheRunReadsTensorsOfOneShape) {
  OnnxModel model = two_rows();
  model.graph.input("at", {1}, ElementType::int64).node("SequenceAt", {"s", "at"}, {"y"}).output("y");
  for (const int64_t at : {0, 1, -1}) {
    NamedTensors inputs = kRows;
    inputs.emplace("at", ints({at}));
    const RefTensor y = run(model, inputs).at("y");
    EXPECT_EQ(y.real, at == 0 ? (Reals{0, 1, 2}) : (Reals{10, 11, 12}));
    EXPECT_EQ(y.dims, (List{3}));
  }
  OnnxModel uneven;
  uneven.graph.input("x", {5}).input("at", {}, ElementType::int64).initializer("two", whole(2));
  uneven.graph.node("SplitToSequence", {"x", "two"}, {"s"})
      .node("SequenceAt", {"s", "at"}, {"y"})
      .output("y");
  EXPECT_NODE_SAYS(says(uneven),
                   "which of several shapes its output has depends on the value of the input 'at'");
  const NamedTensors inputs = {{"x", floats({1, 2, 3, 4, 5})}, {"at", whole(2)}};
  EXPECT_EQ(run(uneven, inputs, {.values = inputs}).at("y").real, (Reals{5}));
}

// --- Inputs and outputs ---

OnnxModel summed_pairs() {  // of two sequences
  OnnxGraph body;
  body.input("a", {"n"}).input("b", {"n"}).node("Add", {"a", "b"}, {"c"}).output("c");
  OnnxModel model;
  model.graph.input("p", {"n"}, ElementType::float32, OnnxKind::sequence)
      .input("q", {"n"}, ElementType::float32, OnnxKind::sequence)
      .node("SequenceMap", {"p", "q"}, {"r"}, {{"body", body}})
      .output("r", ElementType::float32, OnnxKind::sequence);
  return model;
}

TEST(OnnxSequence, InputsAndOutputsAreTheirElements) {
  const NamedTensors inputs = {
      {"p[0]", floats({1, 2})}, {"p[1]", floats({3})}, {"q[0]", floats({10, 20})}, {"q[1]", floats({30})}};
  const auto out = run(summed_pairs(), inputs, {.values = inputs});
  EXPECT_EQ(out.at("r[0]").real, (Reals{11, 22}));
  EXPECT_EQ(out.at("r[1]").real, (Reals{33}));
  const onnx::Model loaded = onnx::parse(summed_pairs().bytes(), "m", {.lengths = {{"p", 3}, {"q", 3}}});
  EXPECT_EQ(*loaded.lengths.at("r"), 3);
  EXPECT_EQ(loaded.graph.node(loaded.graph.find("p[2]")).outputs[0].shape.text(), "[n]");
  const onnx::Model varying = onnx::parse(summed_pairs().bytes(), "m", {.values = inputs});
  EXPECT_EQ(varying.graph.node(varying.graph.find("p[1]")).outputs[0].shape.text(), "[n_1]");
  EXPECT_NODE_SAYS(says(summed_pairs()),
                   "p (input): it is a sequence, whose length must be given with the model");
  EXPECT_SAYS(onnx::parse(summed_pairs().bytes(), "m", {.lengths = {{"p", 2}, {"q", 1}}}),
              "its sequences have 2 and 1 tensors");
  EXPECT_SAYS(onnx::parse(summed_pairs().bytes(), "m", {.lengths = {{"p", 5000}}}), "it must be 0 to 4096");
  EXPECT_SAYS(onnx::parse(summed_pairs().bytes(), "m", {.lengths = {{"x", 2}}}),
              "no input named 'x' is a sequence");
  EXPECT_SAYS(onnx::parse(summed_pairs().bytes(), "m", {.lengths = {{"p", std::nullopt}}}),
              "no input named 'p' is an optional");
}

TEST(OnnxSequence, OptionalInputsHoldSomethingUnlessTheyAreSaidNotTo) {
  OnnxModel model;
  const OnnxGraph yes =
      OnnxGraph().node("OptionalGetElement", {"m"}, {"v"}).node("Add", {"x", "v"}, {"t"}).output("t");
  const OnnxGraph no = OnnxGraph().node("Neg", {"x"}, {"t"}).output("t");
  model.graph.input("x", {2}).input("m", {2}, ElementType::float32, OnnxKind::optional);
  model.graph.node("OptionalHasElement", {"m"}, {"has"})
      .node("If", {"has"}, {"y"}, {{"then_branch", yes}, {"else_branch", no}})
      .node("Identity", {"m"}, {"same"})
      .output("y")
      .output("same", ElementType::float32, OnnxKind::optional);
  const NamedTensors inputs = {{"x", floats({1, 2})}, {"m", floats({10, 20})}};
  const auto with = run(model, inputs);
  EXPECT_EQ(with.at("y").real, (Reals{11, 22}));
  EXPECT_EQ(with.at("same").real, (Reals{10, 20}));
  const onnx::LoadOptions without{.lengths = {{"m", std::nullopt}}};
  const auto out = run(model, inputs, without);
  EXPECT_EQ(out.at("y").real, (Reals{-1, -2}));
  EXPECT_FALSE(out.contains("same"));
  EXPECT_FALSE(onnx::parse(model.bytes(), "m", without).lengths.at("same"));
}

TEST(OnnxSequence, NamesOfElementsAreNotTakenTwice) {
  OnnxModel model;
  model.graph.input("p", {2}, ElementType::float32, OnnxKind::sequence).input("p[0]", {2});
  model.graph.node("Relu", {"p[0]"}, {"y"}).output("y");
  EXPECT_SAYS(onnx::parse(model.bytes(), "m", {.lengths = {{"p", 1}}}), "there are two inputs 'p[0]'");
}

// --- Control flow ---

// y = x[0] + x[1] + ... by a list of partial sums, "sums"; what it reads of x is a sequence from around it.
OnnxModel partial_sums(const Tensor& trips, bool known) {
  OnnxGraph body;
  body.input("i", {}, ElementType::int64).input("go", {}, ElementType::boolean);
  body.input("total", {3}).input("list", {3}, ElementType::float32, OnnxKind::sequence);
  body.node("SequenceAt", {"s", "i"}, {"row"})
      .node("Add", {"total", "row"}, {"next"})
      .node("SequenceInsert", {"list", "next"}, {"longer"})
      .node("Mul", {"next", "next"}, {"square"});
  body.output("go", ElementType::boolean)
      .output("next")
      .output("longer", ElementType::float32, OnnxKind::sequence);
  body.output("square");
  OnnxModel model = two_rows();
  if (known) {
    model.graph.initializer("trips", trips);
  } else {
    model.graph.input("trips", {}, ElementType::int64);
  }
  model.graph.initializer("zero", floats({0, 0, 0})).node("SequenceEmpty", {}, {"none"});
  model.graph.node("Loop", {"trips", "", "zero", "none"}, {"y", "sums", "squares"}, {{"body", body}});
  model.graph.output("y").output("sums", ElementType::float32, OnnxKind::sequence).output("squares");
  return model;
}

TEST(OnnxSequence, ALoopOverSequencesIsUnrolled) {
  const auto out = run(partial_sums(whole(2), true), kRows);
  EXPECT_EQ(out.at("y").real, (Reals{10, 12, 14}));
  EXPECT_EQ(out.at("sums[0]").real, (Reals{0, 1, 2}));
  EXPECT_EQ(out.at("sums[1]").real, (Reals{10, 12, 14}));
  EXPECT_EQ(out.at("squares").dims, (List{2, 3}));
  EXPECT_EQ(out.at("squares").real, (Reals{0, 1, 4, 100, 144, 196}));
  // Without iterations, what is stacked is empty.
  const auto none = run(partial_sums(whole(0), true), kRows);
  EXPECT_EQ(none.at("y").real, (Reals{0, 0, 0}));
  EXPECT_EQ(none.at("squares").dims, (List{0, 3}));
  EXPECT_FALSE(none.contains("sums[0]"));
  // The number of iterations may be the value of an input.
  NamedTensors inputs = kRows;
  inputs.emplace("trips", whole(1));
  EXPECT_EQ(run(partial_sums({}, false), inputs, {.values = inputs}).at("y").real, (Reals{0, 1, 2}));
  EXPECT_NODE_SAYS(
      says(partial_sums({}, false)),
      "its carried value 1 begins as a sequence of 0 tensors and becomes a sequence of 1 tensor");
}

// A list whose length stays is carried by a loop of the device: here the two last numbers of Fibonacci.
TEST(OnnxSequence, AListOfConstantLengthIsCarriedByTheDevice) {
  OnnxGraph body;
  body.input("i", {}, ElementType::int64).input("go", {}, ElementType::boolean);
  body.input("pair", {1}, ElementType::float32, OnnxKind::sequence);
  body.initializer("first", whole(0)).initializer("second", whole(1));
  body.node("SequenceAt", {"pair", "first"}, {"a"})
      .node("SequenceAt", {"pair", "second"}, {"b"})
      .node("Add", {"a", "b"}, {"c"})
      .node("SequenceConstruct", {"b", "c"}, {"next"});
  body.output("go", ElementType::boolean).output("next", ElementType::float32, OnnxKind::sequence);
  OnnxModel model;
  model.graph.input("x", {1}).input("trips", {}, ElementType::int64).initializer("one", floats({1}));
  model.graph.node("SequenceConstruct", {"x", "one"}, {"start"});
  model.graph.node("Loop", {"trips", "", "start"}, {"end"}, {{"body", body}});
  model.graph.output("end", ElementType::float32, OnnxKind::sequence);
  const auto out = run(model, {{"x", floats({1})}, {"trips", whole(6)}});
  EXPECT_EQ(out.at("end[0]").real, (Reals{13}));
  EXPECT_EQ(out.at("end[1]").real, (Reals{21}));
}

TEST(OnnxSequence, BranchesReturnListsOfOneLength) {
  const auto model = [](const std::vector<std::string>& otherwise) {
    OnnxModel out = two_rows();
    const OnnxGraph yes = OnnxGraph().node("Identity", {"s"}, {"t"}).output("t");
    OnnxGraph no;
    no.node("ReduceSum", {"x"}, {"sum"}, {{"keepdims", 0}}).node("Neg", {"row"}, {"minus"});
    no.initializer("at", whole(1)).node("SequenceAt", {"s", "at"}, {"row"});
    no.node("SequenceConstruct", otherwise, {"t"}).output("t");
    out.graph.input("c", {}, ElementType::boolean);
    out.graph.node("If", {"c"}, {"r"}, {{"then_branch", yes}, {"else_branch", no}});
    out.graph.output("r", ElementType::float32, OnnxKind::sequence);
    return out;
  };
  NamedTensors inputs = kRows;
  inputs.emplace("c", Tensor::scalar(true));
  EXPECT_EQ(run(model({"minus", "row"}), inputs).at("r[1]").real, (Reals{10, 11, 12}));
  EXPECT_EQ(run(model({"minus", "row"}), inputs).at("r[0]").real, (Reals{0, 1, 2}));
  inputs["c"] = Tensor::scalar(false);
  EXPECT_EQ(run(model({"minus", "row"}), inputs).at("r[0]").real, (Reals{-10, -11, -12}));
  EXPECT_NODE_SAYS(
      says(model({"minus"})),
      "whether its output is a sequence of 2 tensors or a sequence of 1 tensor depends on the value of "
      "the input 'c'");
  EXPECT_EQ(run(model({"minus"}), inputs, {.values = inputs}).at("r[0]").real, (Reals{-10, -11, -12}));
}

TEST(OnnxSequence, AFunctionTakesAndReturnsLists) {
  OnnxGraph body;
  body.node("SequenceErase", {"l"}, {"shorter"}).node("SequenceLength", {"l"}, {"n"});
  OnnxModel model = two_rows();
  model.function("f", "Pop", {"l"}, {"shorter", "n"}, body);
  model.graph.node("Pop", {"s"}, {"rest", "n"}, {}, "f")
      .output("rest", ElementType::float32, OnnxKind::sequence);
  model.graph.output("n", ElementType::int64);
  const auto out = run(model, kRows);
  EXPECT_EQ(out.at("rest[0]").real, (Reals{0, 1, 2}));
  EXPECT_FALSE(out.contains("rest[1]"));
  EXPECT_EQ(out.at("n").ints, (List{2}));
}

// A weight in the body of a loop is one param, however often the body is put in place.
TEST(OnnxSequence, UnrolledBodiesShareTheirWeights) {
  OnnxGraph body;
  body.input("i", {}, ElementType::int64).input("go", {}, ElementType::boolean);
  body.input("list", {100}, ElementType::float32, OnnxKind::sequence);
  body.initializer("w", Tensor::full(DType::f32, {100}, 2));
  body.node("Mul", {"x", "w"}, {"p"}).node("SequenceInsert", {"list", "p"}, {"longer"});
  body.node("Constant", {}, {"v"}, {{"value", Tensor::full(DType::f32, {100}, 3)}})
      .node("Add", {"p", "v"}, {"q"});
  body.output("go", ElementType::boolean)
      .output("longer", ElementType::float32, OnnxKind::sequence)
      .output("q");
  OnnxModel model;
  model.graph.input("x", {100}).initializer("trips", whole(7)).node("SequenceEmpty", {}, {"none"});
  model.graph.node("Loop", {"trips", "", "none"}, {"l", "q"}, {{"body", body}});
  model.graph.output("l", ElementType::float32, OnnxKind::sequence).output("q");
  const onnx::Model loaded = onnx::parse(model.bytes());
  EXPECT_EQ(loaded.weights.size(), 2U);
  EXPECT_EQ(*loaded.lengths.at("l"), 7);
}

// --- Files that ask for too much ---

TEST(OnnxSequence, PiecesAndIterationsHaveABound) {
  OnnxModel split;
  split.graph.input("x", {1'000'000'000, 1}).node("SplitToSequence", {"x"}, {"s"});
  split.graph.node("SequenceLength", {"s"}, {"y"}).output("y", ElementType::int64);
  EXPECT_FILE_SAYS(split, "it splits an axis of 1000000000 into 1000000000 pieces; 4096 are the most");

  for (const int64_t trips : {int64_t{1'000'000'000}, std::numeric_limits<int64_t>::max()})
    EXPECT_FILE_SAYS(
        partial_sums(whole(trips), true),
        "begins as a sequence of 0 tensors and becomes a sequence of 1 tensor: the loop would have to be "
        "unrolled, which needs a number of iterations that is known while importing, here at most 4096");

  OnnxModel doubling;  // 2^40 tensors
  OnnxGraph inner;
  inner.input("e", {2}).node("Identity", {"e"}, {"f"}).output("f");
  doubling.graph.input("x", {2}).node("SequenceConstruct", {"x", "x"}, {"s0"});
  for (int i = 0; i < 40; ++i) {
    const std::string from = "s" + std::to_string(i);
    doubling.graph.node("ConcatFromSequence", {from}, {"c" + std::to_string(i)}, {{"axis", 0}});
    doubling.graph.node("SplitToSequence", {"c" + std::to_string(i)}, {"t" + std::to_string(i)});
    doubling.graph.node("SequenceInsert", {"t" + std::to_string(i), "c" + std::to_string(i)},
                        {"s" + std::to_string(i + 1)});
  }
  doubling.graph.node("SequenceLength", {"s40"}, {"y"}).output("y", ElementType::int64);
  EXPECT_FILE_SAYS(doubling, "are the most");
}

// Bodies without nodes cost something too.
TEST(OnnxSequence, ManyEmptyBodiesAreTooMuch) {
  OnnxGraph same;
  same.input("e", {1}).output("e");
  OnnxModel model;
  model.graph.input("x", {4096, 1}).node("SplitToSequence", {"x"}, {"s0"});
  for (int i = 0; i < 10'000; ++i)
    model.graph.node("SequenceMap", {"s" + std::to_string(i)}, {"s" + std::to_string(i + 1)},
                     {{"body", same}});
  model.graph.node("SequenceLength", {"s10000"}, {"y"}).output("y", ElementType::int64);
  EXPECT_FILE_SAYS(model, "the model asks for too much work");
}

// A condition that goes through a long chain of nodes.
TEST(OnnxSequence, LongChainsOfConditionsTakeLinearTime) {
  constexpr int kLong = 50'000;
  OnnxGraph body;
  body.input("i", {}, ElementType::int64).input("c0", {}, ElementType::boolean);
  body.input("l", {2}, ElementType::float32, OnnxKind::sequence);
  for (int i = 0; i < kLong; ++i)
    body.node("Identity", {"c" + std::to_string(i)}, {"c" + std::to_string(i + 1)});
  body.node("SequenceInsert", {"l", "x"}, {"m"}).output("c" + std::to_string(kLong), ElementType::boolean);
  body.output("m", ElementType::float32, OnnxKind::sequence);
  OnnxModel model;
  model.graph.input("x", {2}).initializer("trips", whole(1'000'000'000)).node("SequenceEmpty", {}, {"none"});
  model.graph.node("Loop", {"trips", "", "none"}, {"s"}, {{"body", body}});
  model.graph.output("s", ElementType::float32, OnnxKind::sequence);
  EXPECT_FILE_SAYS(model, "the loop would have to be unrolled");
}

TEST(OnnxSequence, LoopsInLoopsAreBoundedTogether) {
  OnnxGraph inner;
  inner.input("j", {}, ElementType::int64).input("go2", {}, ElementType::boolean);
  inner.input("l2", {2}, ElementType::float32, OnnxKind::sequence);
  inner.node("SequenceInsert", {"l2", "x"}, {"l3"}).node("SequenceErase", {"l3"}, {"l4"});
  inner.output("go2", ElementType::boolean).output("l4", ElementType::float32, OnnxKind::sequence);
  OnnxGraph outer;
  outer.input("i", {}, ElementType::int64).input("go", {}, ElementType::boolean);
  outer.input("l0", {2}, ElementType::float32, OnnxKind::sequence);
  outer.node("Loop", {"trips", "", "l0"}, {"l1"}, {{"body", inner}});
  outer.output("go", ElementType::boolean).output("l1", ElementType::float32, OnnxKind::sequence);
  OnnxModel model;
  model.graph.input("x", {2}).initializer("trips", whole(4000)).node("SequenceEmpty", {}, {"none"});
  model.graph.node("Loop", {"trips", "", "none"}, {"s"}, {{"body", outer}});
  model.graph.output("s", ElementType::float32, OnnxKind::sequence).output("x");
  EXPECT_NE(says(model), "no error");
}

}  // namespace
}  // namespace rlx
