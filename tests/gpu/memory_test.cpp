// Where tensors lie in memory: operands that share it, odd offsets and lengths, more than the bindings hold,
// and states.
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "rlx/compile.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"
#include "tests/support/compare.h"
#include "tests/support/devices.h"
#include "tests/support/full.h"
#include "tests/support/sample.h"

namespace rlx::testing {
namespace {

// Small whole numbers: sums and products of a few are exact in every type, so results must be equal.
NamedTensors random_inputs(const Graph& graph, uint32_t seed = 1) {
  std::mt19937 random(seed);
  NamedTensors inputs;
  for (const Node& n : graph.nodes()) {
    if (!n.op->is(LeafKind::input)) continue;
    const std::vector<int64_t> dims = n.outputs[0].shape.values();
    const Tensor whole = random_tensor(DType::i32, dims, -5, 5, random);
    if (n.outputs[0].dtype == DType::c64) {
      inputs[n.name] = random_tensor(DType::c64, dims, -5, 5, random);
    } else {
      inputs[n.name] = Tensor::from_doubles(n.outputs[0].dtype, dims, whole.doubles());
    }
  }
  return inputs;
}

class Memory : public ::testing::TestWithParam<bool> {
 protected:
  const Device& device() const { return GetParam() ? small_device() : full_device(); }

  Executable compile(const Graph& graph, const CompileOptions& options = {}) const {
    return rlx::compile(graph, device(), options);
  }

  // Runs the graph as it is written and with all passes.
  void expect_reference(const Graph& graph, const NamedTensors& inputs) const {
    const auto want = run_reference(graph, inputs);
    for (bool optimize : {false, true}) {
      Executable exe = compile(graph, {.optimize = optimize});
      const NamedTensors got = exe.run(inputs);
      for (const auto& [name, value] : want) {
        EXPECT_TRUE(close(got.at(name), value, {.ulps = 8}))
            << "output " << name << (optimize ? ", optimized\n" : "\n") << exe.plan_text();
      }
    }
  }
  void expect_reference(const Graph& graph) const { expect_reference(graph, random_inputs(graph)); }
  void expect_reference(std::string_view text) const { expect_reference(parse_graph(text)); }
};

INSTANTIATE_TEST_SUITE_P(Devices, Memory, ::testing::Values(false, true),
                         [](const auto& param) { return std::string(param.param ? "small" : "full"); });

// --- operands that share memory ---

TEST_P(Memory, ATensorTimesItself) {
  expect_reference(R"(graph square {
    %x = input : f32[1000]
    %a = mul(%x, %x)
    %y = mul(%a, %a)
    output y = %y
  })");
}

TEST_P(Memory, AChainRunsInPlace) {
  const Graph graph = parse_graph(R"(graph chain {
    %x = input : f32[1000]
    %a = neg(%x)
    %b = abs(%a)
    %c = relu(%b)
    %y = neg(%c)
    output y = %y
  })");
  expect_reference(graph);
  EXPECT_EQ(compile(graph, {.optimize = false}).memory().intermediate_bytes, 4096);
}

// The last of two uses may take the memory, the first must not.
TEST_P(Memory, InPlaceWaitsForTheLastReader) {
  expect_reference(R"(graph twice {
    %x = input : bf16[33]
    %a = neg(%x)
    %b = abs(%a)
    %c = add(%a, %b)
    %d = mul(%c, %a)
    output c = %c
    output d = %d
  })");
}

TEST_P(Memory, PackedQkvIsReadAsThreeSlicesOfOneTensor) {
  for (std::string type : {"f32", "bf16"}) {
    expect_reference("graph qkv { %in = input : " + type + R"g([17, 96]
      %x = neg(%in)
      %q = slice(%x) {axis=1, start=0, length=32}
      %k = slice(%x) {axis=1, start=32, length=32}
      %v = slice(%x) {axis=1, start=64, length=32}
      %y = fused_elementwise(%q, %k, %v) {expr="t0=mul($0,$1); add(t0,$2)"}
      output y = %y
    })g");
  }
}

// A slice of a tensor and the tensor itself, in one dispatch that also writes to its neighbour in the arena.
TEST_P(Memory, ASliceMeetsTheWhole) {
  expect_reference(R"(graph slice {
    %in = input : f32[7, 5]
    %x = neg(%in)
    %row = slice(%x) {axis=0, start=3, length=1}
    %y = mul(%x, %row)
    output y = %y
  })");
}

// --- odd offsets and lengths ---

TEST_P(Memory, MisalignedSlices) {
  for (std::string type : {"f32", "f16", "bf16", "i32", "i8", "u8", "c64"}) {
    for (std::string start : {"1", "3", "63", "64", "65"}) {
      expect_reference("graph slice { %in = input : " + type + R"([200]
        %x = mul(%in, %in)
        %a = slice(%x) {axis=0, start=)" +
                       start + R"(, length=17}
        %b = slice(%x) {axis=0, start=101, length=17}
        %y = add(%a, %b)
        output y = %y
        output a = %a
      })");
    }
  }
}

// Words at the end of an output are not shared: neighbours in the arena keep their values.
TEST_P(Memory, OddLengthsBesideEachOther) {
  for (DType type : {DType::bf16, DType::i8, DType::u8}) {
    Graph graph;
    for (int64_t n : {1, 2, 3, 5, 7, 13, 17, 127, 129, 257}) {
      const Value x = graph.input("x" + std::to_string(n), type, {n});
      graph.output("y" + std::to_string(n), (x + x).named("sum" + std::to_string(n)));
      graph.output("z" + std::to_string(n), x * x + x);
    }
    expect_reference(graph);
  }
}

TEST_P(Memory, ConcatOfTwentyBytesTensorsOfOddLength) {
  for (bool rows : {false, true}) {
    Graph graph;
    std::vector<Value> parts;
    for (int64_t i = 0; i < 20; ++i) {
      const Shape shape = rows ? Shape{3, 2 * i + 1} : Shape{2 * i + 1};
      parts.push_back(graph.input("x" + std::to_string(i), DType::i8, shape));
    }
    graph.output("y", concat(parts, -1));
    expect_reference(graph);
  }
}

// --- more than the bindings hold: 8 of 64 KiB on the small device ---

TEST_P(Memory, GatherFromMoreThanAllBindings) {
  for (std::string type : {"f32", "i8"}) {
    const std::string columns = type == "f32" ? "101" : "404";
    const Graph graph = parse_graph("graph gather { %t = input : " + type + "[1500, " + columns + R"(]
      %i = input : i32[700]
      %y = gather(%t, %i)
      output y = %y
    })");
    NamedTensors inputs = random_inputs(graph);
    std::mt19937 random(3);
    inputs["i"] = random_tensor(DType::i32, {700}, -1500, 1499, random);
    expect_reference(graph, inputs);
  }
}

// Neither the table nor the indices fit.
TEST_P(Memory, GatherWithMoreIndicesThanAllBindings) {
  const Graph graph = parse_graph(R"(graph gather {
    %t = input : f32[150001]
    %i = input : i32[140001]
    %y = gather(%t, %i)
    output y = %y
  })");
  NamedTensors inputs = random_inputs(graph);
  std::mt19937 random(3);
  inputs["i"] = random_tensor(DType::i32, {140001}, 0, 150000, random);
  expect_reference(graph, inputs);
}

TEST_P(Memory, TransposeOfMoreThanAllBindings) {
  expect_reference("graph t { %x = input : f32[401, 400]  %y = transpose(%x)  output y = %y }");
  expect_reference("graph t { %x = input : i8[801, 699]  %y = transpose(%x)  output y = %y }");
}

TEST_P(Memory, ConcatPadAndSplitOfMoreThanAllBindings) {
  expect_reference(R"(graph shapes {
    %x = input : f32[3, 50001]
    %a = input : f32[3, 3]
    %y = concat(%x, %a) {axis=1}
    %z = pad(%x) {before=[1, 1], after=[0, 2], mode="reflect"}
    %s = split(%x) {axis=1, sizes=[7, 49994]}
    output y = %y
    output z = %z
    output s0 = %s:0
    output s1 = %s:1
  })");
}

TEST_P(Memory, ElementwiseOfMoreThanAllBindings) {
  expect_reference(R"(graph add {
    %x = input : f32[140001]
    %row = input : f32[1]
    %t = abs(%x)
    %s = add(%t, %x)
    %y = mul(%s, %row)
    output y = %y
  })");
}

// Everything that reads a transposed tensor, every part of which is spread over all bindings.
TEST_P(Memory, TransposedReadersOfMoreThanAllBindings) {
  expect_reference(R"(graph t {
    %x = input : f32[401, 400]
    %row = input : f32[401]
    %w = input : f32[401, 5]
    %t = transpose(%x)
    %sum = add(%t, %row)
    %soft = softmax(%t)
    %norm = rms_norm(%t, %row)
    %most = argmax(%t)
    %total = sum(%t) {axes=[0]}
    %product = matmul(%t, %w)
    %last = slice(%t) {axis=0, start=399, length=300, step=-1}
    %both = concat(%t, %last) {axis=0}
    output sum = %sum
    output soft = %soft
    output norm = %norm
    output most = %most
    output total = %total
    output product = %product
    output both = %both
  })");
}

// 257 workgroups where a grid counts to 4 * 4 * 4.
TEST(MemoryLimits, MoreWorkgroupsThanAGridCounts) {
  DeviceOptions options;
  options.limits.max_workgroups_per_dimension = 4;
  const Device device = Device::open(options);
  const Graph graph = parse_graph(R"(graph rows {
    %x = input : f32[65537, 1]
    %y = add(%x, 1)
    %z = slice(%x) {axis=0, start=65536, length=65537, step=-1}
    output y = %y
    output z = %z
  })");
  const NamedTensors inputs = random_inputs(graph);
  Executable exe = rlx::compile(graph, device);
  const NamedTensors got = exe.run(inputs);
  for (const auto& [name, value] : run_reference(graph, inputs))
    EXPECT_TRUE(close(got.at(name), value, {})) << name;
}

// What the small device stands for: tensors larger than a binding of the device itself.
TEST(MemoryLimits, MoreThanARealBinding) {
  if (!full_run()) GTEST_SKIP() << "hundreds of MiB; the tests above show the same on the small device";
  constexpr int64_t kColumns = 1021;
  const auto rows = static_cast<int64_t>(full_device().caps().max_binding_bytes / (4 * kColumns) * 8 / 5);
  if (rows > 200'000) GTEST_SKIP() << "a binding of this device holds more than a test should take";
  Graph graph;
  const Value x = graph.input("x", DType::f32, {rows, kColumns});
  const Value row = graph.input("row", DType::f32, {kColumns});
  graph.output("sum", x + row);
  graph.output("total", sum(x, {1}));
  graph.output("turned", transpose(x));
  graph.output("last", slice(x, 0, rows - 1, 1));

  // All sums are whole numbers below 2^24.
  const auto at = [](int64_t r, int64_t c) { return static_cast<float>((r + 3 * c) % 509); };
  std::vector<float> values(static_cast<size_t>(rows * kColumns));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < kColumns; ++c) values[static_cast<size_t>(r * kColumns + c)] = at(r, c);
  }
  std::vector<float> numbers(kColumns);
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  for (bool optimize : {false, true}) {
    Executable exe = rlx::compile(graph, full_device(), {.optimize = optimize});
    const NamedTensors got = exe.run({{"x", Tensor::of<float>({rows, kColumns}, values)},
                                      {"row", Tensor::of<float>({kColumns}, numbers)}});
    const auto sums = got.at("sum").span<float>();
    const auto totals = got.at("total").span<float>();
    const auto turned = got.at("turned").span<float>();
    const auto last = got.at("last").span<float>();
    int64_t wrong = 0;
    for (int64_t r = 0; r < rows; ++r) {
      float total = 0;
      for (int64_t c = 0; c < kColumns; ++c) {
        total += at(r, c);
        wrong += sums[static_cast<size_t>(r * kColumns + c)] != at(r, c) + static_cast<float>(c);
        wrong += turned[static_cast<size_t>(c * rows + r)] != at(r, c);
      }
      wrong += totals[static_cast<size_t>(r)] != total;
    }
    for (int64_t c = 0; c < kColumns; ++c) wrong += last[static_cast<size_t>(c)] != at(rows - 1, c);
    EXPECT_EQ(wrong, 0) << exe.plan_text();
  }
}

// --- states ---

// Runs `graph` once on the device and in the reference, and carries the states over in both.
class StateRun {
 public:
  StateRun(Executable exe, Graph graph) : exe_(std::move(exe)), graph_(std::move(graph)) {}

  // `writes` names the state that each output holds after the run.
  void step(const NamedTensors& inputs, const std::map<std::string, std::string>& writes,
            const SymbolValues& symbols = {}) {
    const Graph bound = symbols.empty() ? graph_ : bind_symbols(graph_, symbols);
    NamedTensors leaves = inputs;
    leaves.insert(states_.begin(), states_.end());
    const auto want = run_reference(bound, leaves);
    std::vector<std::pair<std::string_view, int64_t>> given;
    for (const auto& [name, value] : symbols) given.emplace_back(name, value);
    const NamedTensors got = exe_.run(inputs, given);
    for (const auto& [name, value] : want) EXPECT_TRUE(close(got.at(name), value, {})) << "output " << name;
    for (const auto& [output, state] : writes) {
      states_[state] = want.at(output).to_tensor();
      EXPECT_TRUE(close(exe_.read_state(state), want.at(output), {})) << "state " << state;
    }
  }
  Executable& exe() { return exe_; }

 private:
  Executable exe_;
  Graph graph_;
  NamedTensors states_;
};

TEST_P(Memory, AStateKeepsWhatWasWritten) {
  const Graph graph = parse_graph(R"(graph counter {
    %s = state : f32[3, 5]
    %x = input : f32[3, 5]
    %sum = add(%s, %x)
    %new = write_state(%s, %sum)
    output new = %new
  })");
  StateRun run(compile(graph), graph);
  for (uint32_t i = 0; i < 4; ++i) run.step(random_inputs(graph, i), {{"new", "s"}});
  run.exe().reset_states();
  EXPECT_EQ(run.exe().read_state("s").doubles(), std::vector<double>(15, 0.0));
}

// Old contents are read after the write in the text, and before it on the device; also as a view and as an
// output.
TEST_P(Memory, OldContentsAreReadBeforeTheWrite) {
  for (std::string type : {"f32", "i8"}) {
    const Graph graph = parse_graph("graph old { %s = state : " + type + R"([7]
      %x = input : )" + type + R"([3]
      %new = write_state(%s, %x) {start=3}
      %tail = slice(%s) {axis=0, start=2, length=4}
      %twice = add(%tail, %tail)
      %after = add(%new, %new)
      output new = %new
      output old = %s
      output tail = %tail
      output twice = %twice
      output after = %after
    })");
    StateRun run(compile(graph), graph);
    for (uint32_t i = 0; i < 3; ++i) run.step(random_inputs(graph, i), {{"new", "s"}});
  }
}

// A window over the newest entries: the state moves within itself, then takes one more.
TEST_P(Memory, AStateMovesWithinItself) {
  const Graph graph = parse_graph(R"(graph window {
    %s = state : f32[2000, 3]
    %x = input : f32[1, 3]
    %tail = slice(%s) {axis=0, start=1, length=1999}
    %moved = write_state(%s, %tail)
    %new = write_state(%moved, %x) {start=1999}
    output new = %new
  })");
  StateRun run(compile(graph), graph);
  for (uint32_t i = 0; i < 4; ++i) run.step(random_inputs(graph, i), {{"new", "s"}});
}

// What is rotated may lie in the state that takes it.
TEST_P(Memory, ARopeIsWrittenIntoTheStateThatItReads) {
  const Graph graph = parse_graph(R"(graph rotated {
    %s = state : f32[1, 6, 8]
    %t = state : f32[1, 6, 8]
    %c = input : f32[2, 4]
    %d = input : f32[2, 4]
    %u = input : f32[1, 6, 8]
    %n = write_state(%s, %u)
    %x = reshape(%n) {shape=[1, 2, 24]}
    %w = rope_write(%n, %t, %x, %c, %d) {queries=8, keys=8, head_dim=8, axis=1, start=1}
    output keys = %w
    output values = %w:1
    output queries = %w:2
  })");
  StateRun run(compile(graph), graph);
  for (uint32_t i = 0; i < 3; ++i) run.step(random_inputs(graph, i), {{"keys", "s"}, {"values", "t"}});
}

TEST_P(Memory, TwoWritersOfOneContentAreRefused) {
  const Graph graph = parse_graph(R"(graph twice {
    %s = state : f32[4]
    %x = input : f32[1]
    %a = write_state(%s, %x)
    %b = write_state(%s, %x) {start=1}
    output a = %a
    output b = %b
  })");
  EXPECT_THROW(compile(graph), Error);
}

// A KV cache: each run writes one entry and reads all so far. One plan serves every length.
TEST_P(Memory, ACacheGrowsWithoutNewPlans) {
  for (std::string type : {"f32", "f16", "bf16"}) {
    for (bool heads_first : {false, true}) {
      const std::string state = heads_first ? "[3, 24, 5]" : "[24, 15]";
      const std::string entry = heads_first ? "[3, 1, 5]" : "[1, 15]";
      const std::string axis = heads_first ? "1" : "0";
      const Graph graph = parse_graph(
          "graph cache { symbol len <= 24\n %kv = state : " + type + state + "\n %x = input : " + type +
          entry + "\n %new = write_state(%kv, %x) {axis=" + axis +
          ", start=dim(len - 1)}\n %seen = slice(%new) {axis=" + axis + ", start=0, length=dim(len)}\n" + R"(
        %t = neg(%seen)
        %y = mul(%t, %x)
        output new = %new
        output y = %y
      })");
      StateRun run(compile(graph), graph);
      for (int64_t len = 1; len <= 24; ++len) {
        SCOPED_TRACE(type + state + " length " + std::to_string(len));
        run.step(random_inputs(bind_symbols(graph, {{"len", len}}), static_cast<uint32_t>(len)),
                 {{"new", "kv"}}, {{"len", len}});
      }
      EXPECT_EQ(run.exe().plan_count(), 1) << type << state;
      run.step(random_inputs(bind_symbols(graph, {{"len", 3}})), {{"new", "kv"}}, {{"len", 3}});
      EXPECT_EQ(run.exe().plan_count(), 1) << type << state;
    }
  }
}

// What a node reads can move although none of its sizes has a symbol.
TEST_P(Memory, ASliceThatMovesIsReadWhereItLies) {
  const Graph graph = parse_graph(R"(graph rows {
    symbol pos <= 23
    %table = input : f32[24, 6]
    %x = input : f32[2, 3]
    %row = slice(%table) {axis=0, start=dim(pos), length=1}
    %r = reshape(%row) {shape=[2, 3]}
    %y = add(%r, %x)
    output y = %y
  })");
  for (bool optimize : {false, true}) {
    StateRun run(compile(graph, {.optimize = optimize}), graph);
    for (int64_t pos : {0, 1, 2, 9, 23, 22, 4})
      run.step(random_inputs(graph, static_cast<uint32_t>(pos)), {}, {{"pos", pos}});
    EXPECT_EQ(run.exe().plan_count(), 1);
  }
}

// Keys and values of one projection: q and k are rotated, and both caches written at odd places, in one
// dispatch. The results have the bits that the nodes give one by one.
TEST_P(Memory, KeysAndValuesGrowTogether) {
  for (std::string type : {"f32", "f16", "bf16"}) {
    const Graph graph = parse_graph("graph cache { symbol len <= 24\n %x = input : " + type +
                                    "[1, 1, 35]\n %c = input : " + type + "[24, 5]\n %s = input : " + type +
                                    "[24, 5]\n %keys = state : " + type +
                                    "[1, 24, 10]\n %values = state : " + type + "[1, 30, 5]\n" + R"(
      %cos = slice(%c) {axis=0, start=dim(len - 1), length=1}
      %sin = slice(%s) {axis=0, start=dim(len - 1), length=1}
      %a = slice(%x) {axis=2, start=0, length=20}
      %b = slice(%x) {axis=2, start=20, length=10}
      %v = slice(%x) {axis=2, start=30, length=5}
      %q = rope(%a, %cos, %sin) {head_dim=10}
      %k = rope(%b, %cos, %sin) {head_dim=10}
      %nk = write_state(%keys, %k) {axis=1, start=dim(len - 1)}
      %nv = write_state(%values, %v) {axis=1, start=dim(len - 1)}
      %seen_k = slice(%nk) {axis=1, start=0, length=dim(len)}
      %seen_v = slice(%nv) {axis=1, start=0, length=dim(len)}
      %y = neg(%q)
      %yk = neg(%seen_k)
      %yv = neg(%seen_v)
      output y = %y
      output yk = %yk
      output yv = %yv
    })");
    Executable joined = compile(graph);
    Executable plain = compile(graph, {.optimize = false});
    std::mt19937 random(3);
    for (int64_t len : {1, 2, 3, 4, 17, 24, 5}) {
      SCOPED_TRACE(type + " length " + std::to_string(len));
      NamedTensors inputs;
      for (const TensorInfo& i : joined.inputs())
        inputs[i.name] = random_tensor(i.type.dtype, i.type.shape.values(), -2, 2, random);
      const NamedTensors got = joined.run(inputs, {{"len", len}});
      const NamedTensors want = plain.run(inputs, {{"len", len}});
      for (const auto& [name, value] : want) EXPECT_EQ(got.at(name), value) << "output " << name;
      for (const char* state : {"keys", "values"})
        EXPECT_EQ(joined.read_state(state), plain.read_state(state)) << state;
    }
    EXPECT_EQ(plain.dispatch_count() - joined.dispatch_count(), 3) << joined.plan_text({{"len", 5}});
    EXPECT_EQ(joined.plan_count(), 1) << type;
  }
}

// The number of queries changes from run to run too (a prompt, then one token at a time), taken from
// the input's shape.
TEST_P(Memory, APromptThenSingleTokens) {
  const Graph graph = parse_graph(R"(graph decode {
    symbol past <= 63
    symbol fresh <= 16
    %k = state : f32[2, 80, 4]
    %x = input : f32[2, fresh, 4]
    %new = write_state(%k, %x) {axis=1, start=dim(past)}
    %seen = slice(%new) {axis=1, start=0, length=dim(past + fresh)}
    %y = abs(%seen)
    output new = %new
    output y = %y
  })");
  StateRun run(compile(graph), graph);
  int64_t past = 0;
  for (int64_t fresh : {7, 1, 1, 16, 3, 1}) {
    const SymbolValues at{{"past", past}, {"fresh", fresh}};
    run.step(random_inputs(bind_symbols(graph, at), static_cast<uint32_t>(past)), {{"new", "k"}}, at);
    past += fresh;
  }
  EXPECT_LE(run.exe().plan_count(), 1);
}

// At a length of 1 the row could be overwritten by the sum; at others it is read by every row.
TEST_P(Memory, ARowThatIsRepeatedOnceIsNotOverwritten) {
  const Graph graph = parse_graph(R"(graph rows {
    symbol n <= 3
    %x = input : f32[1]
    %a = input : f32[n]
    %row = neg(%x)
    %y = add(%row, %a)
    output y = %y
  })");
  Executable exe = compile(graph, {.optimize = false});
  for (int64_t n : {1, 3, 2}) {
    const Graph bound = bind_symbols(graph, {{"n", n}});
    const NamedTensors inputs = random_inputs(bound);
    EXPECT_TRUE(close(exe.run(inputs).at("y"), run_reference(bound, inputs).at("y"), {})) << "length " << n;
    EXPECT_GT(exe.memory().intermediate_bytes, 256);
  }
  EXPECT_EQ(exe.plan_count(), 1);
}

// What the load phase makes for a length follows the length.
TEST_P(Memory, WeightsExpandedToALengthFollowIt) {
  const Graph graph = parse_graph(R"(graph load {
    symbol len <= 32
    %w = param : f32[1, 3]
    %x = input : f32[len, 3]
    %wide = expand(%w) {shape=[len, 3]}
    %t = exp(%wide)
    %y = mul(%x, %t)
    output y = %y
  })");
  Executable exe = compile(graph, {.optimize = false});
  const Tensor w = Tensor::of<float>({1, 3}, {1, 2, 3});
  exe.set_param("w", w);
  for (int64_t len : {2, 5, 32, 1}) {
    const Graph bound = bind_symbols(graph, {{"len", len}});
    NamedTensors inputs = random_inputs(bound);
    const NamedTensors got = exe.run(inputs);
    inputs["w"] = w;
    EXPECT_TRUE(close(got.at("y"), run_reference(bound, inputs).at("y"), {.ulps = 8})) << "length " << len;
  }
}

TEST_P(Memory, AnUnreachableCapacityIsNamed) {
  const Graph graph = parse_graph(R"(graph cache {
    symbol pos <= 8
    %s = state : f32[8]
    %x = input : f32[1]
    %new = write_state(%s, %x) {start=dim(pos)}
    output new = %new
  })");
  Executable exe = compile(graph);
  const std::pair<std::string_view, int64_t> pos[] = {{"pos", 2}};
  try {
    exe.run({{"x", Tensor::of<float>({1}, {1})}}, pos);
    FAIL() << "position 8 lies outside the state";
  } catch (const Error& e) {
    EXPECT_TRUE(std::string_view(e.what()).contains("pos = 8")) << e.what();
  }
}

}  // namespace
}  // namespace rlx::testing
