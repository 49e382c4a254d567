// Calls that fail half-way leave an executable as it was: params, fed inputs, plans, and what is being
// loaded.
#include <gtest/gtest.h>

#include <optional>

#include "rlx/compile.h"
#include "rlx/dtype.h"
#include "rlx/error.h"
#include "rlx/executable.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"
#include "rlx/shape.h"
#include "rlx/tensor.h"
#include "rlx/value.h"
#include "tests/support/allocations.h"
#include "tests/support/devices.h"
#include "tests/support/message.h"

namespace rlx::testing {
namespace {

Tensor four(double value) { return Tensor::full(DType::f32, {4}, value); }

// Values that break off after their first half.
Tensor cut_short(DType dtype) {
  return Tensor::made_by(dtype, {4}, [](size_t, std::span<std::byte> into) {
    std::ranges::fill(into.first(into.size() / 2), std::byte{1});
    throw Error(ErrorKind::invalid_file, "the file is cut short");
  });
}

// Params as they are, one that a load phase reads alone, two that it reads together, and whole numbers.
constexpr std::string_view kParams = R"(graph g {
  %a = param : f32[4]
  %alone = param : f32[4]
  %u = param : f32[4]
  %v = param : f32[4]
  %n = param : i64[4]
  %e = exp(%alone)
  %s = softmax(%e)
  %p = mul(%u, %v)
  %q = softmax(%p)
  %f = cast(%n) {to=f32}
  %x = input : f32[4]
  %ax = mul(%a, %x)
  %sx = mul(%s, %x)
  %qx = mul(%q, %x)
  %fx = mul(%f, %x)
  output a = %ax
  output s = %sx
  output q = %qx
  output n = %fx
})";

NamedTensors good(double value) {
  const std::vector<double> ramp = {value, 2 * value, 0, -value};
  NamedTensors out;
  for (const char* name : {"a", "alone", "u", "v"}) out[name] = Tensor::from_doubles(DType::f32, {4}, ramp);
  out["n"] = Tensor::from_doubles(DType::i64, {4}, ramp);
  return out;
}

// All that can be wrong with one of several params; every other one has a new value.
std::vector<std::pair<std::string, Tensor>> wrong_params() {
  return {{"zz", four(1)},
          {"alone", Tensor::full(DType::i32, {4}, 1)},
          {"v", Tensor::full(DType::f32, {5}, 1)},
          {"a", cut_short(DType::f32)},
          {"alone", cut_short(DType::f32)},
          {"u", cut_short(DType::f32)},
          {"v", cut_short(DType::f32)},
          {"n", cut_short(DType::i64)},
          {"n", Tensor::of<int64_t>({4}, {1, 2, 3, int64_t{1} << 40})},
          {"n", Tensor::full(DType::i64, {4}, 1e12)}};
}

TEST(Failures, ParamsAreSetAllOrNone) {
  Executable exe = compile(parse_graph(kParams), full_device());
  const NamedTensors x = {{"x", four(1)}};
  for (const auto& [name, value] : wrong_params()) {
    NamedTensors values = good(3);
    values[name] = value;
    EXPECT_THROW(exe.set_params(values), Error) << name;
    EXPECT_SAYS(exe.run(x), "5 of the graph's params have no value yet");
  }
  exe.set_params(good(1));
  const NamedTensors before = exe.run(x);
  EXPECT_EQ(before.at("n").to_vector<float>(), (std::vector<float>{1, 2, 0, -1}));
  for (const auto& [name, value] : wrong_params()) {
    NamedTensors values = good(3);
    values[name] = value;
    EXPECT_THROW(exe.set_params(values), Error) << name;
    EXPECT_EQ(exe.run(x), before) << name;
    if (name == "zz") continue;
    EXPECT_THROW(exe.set_param(name, value), Error) << name;
    EXPECT_EQ(exe.run(x), before) << name;
  }
  exe.set_params(good(3));
  EXPECT_EQ(exe.run(x).at("a").to_vector<float>(), (std::vector<float>{3, 6, 0, -3}));
  EXPECT_NE(exe.run(x).at("q"), before.at("q"));
}

TEST(Failures, AStateIsWrittenWholeOrNotAtAll) {
  Graph g;
  const Value s = g.state("s", DType::f32, {4});
  g.output("y", s + g.input("x", DType::f32, {4}));
  Executable exe = compile(g, full_device());
  exe.write_state("s", four(5));
  EXPECT_SAYS(exe.write_state("s", cut_short(DType::f32)), "cut short");
  EXPECT_EQ(exe.read_state("s"), Tensor::of<float>({4}, {5, 5, 5, 5}));
}

class FedInput : public ::testing::Test {
 protected:
  FedInput() {
    Graph g;
    const Value a = g.input("a", DType::f32, {4});
    const Value z = g.input("z", DType::i64, {4});
    g.output("sum", a + cast(z, DType::f32) * g.param("w", DType::f32, {4}));
    exe_.emplace(compile(g, full_device()));
    exe_->feed("a", "sum");
  }
  static Tensor whole(int64_t value) { return Tensor::full(DType::i64, {4}, static_cast<double>(value)); }

  std::optional<Executable> exe_;
};

TEST_F(FedInput, IsNotChangedByARunThatIsRefused) {
  const NamedTensors next = {{"z", whole(1)}};
  const NamedTensors given = {{"a", four(500)}, {"z", whole(1)}};
  EXPECT_SAYS(exe_->run(given), "no value yet: 'w'");
  EXPECT_SAYS(exe_->run(next), "the input 'a' (f32[4]) was not given");
  exe_->set_param("w", four(1));
  exe_->run({{"a", four(1)}, {"z", whole(1)}});
  double want = 2;
  const auto expect_kept = [&] { EXPECT_EQ(exe_->run(next).at("sum").real(3), ++want); };
  expect_kept();
  EXPECT_SAYS(exe_->run({{"a", four(500)}, {"z", Tensor::full(DType::i32, {4}, 1)}}), "has type i64");
  expect_kept();
  EXPECT_SAYS(exe_->run({{"a", four(500)}, {"z", Tensor::full(DType::i64, {3}, 1)}}), "'z'");
  expect_kept();
  EXPECT_SAYS(exe_->run({{"a", four(500)}, {"z", whole(int64_t{1} << 40)}}), "32 bits wide");
  expect_kept();
  EXPECT_SAYS(exe_->run({{"a", four(500)}, {"z", cut_short(DType::i64)}}), "cut short");
  expect_kept();
  EXPECT_SAYS(exe_->run({{"a", four(500)}}), "the input 'z' (i64[4]) was not given");
  expect_kept();
  EXPECT_SAYS(exe_->run_async(given, {"none"}), "no output named 'none'");
  expect_kept();
  const std::vector<float> a(4, 500);
  const std::vector<int64_t> z(4, 1);
  std::vector<float> few(3);
  EXPECT_SAYS(exe_->run({input_from("a", a), input_from("z", z)}, {output_to("sum", few)}),
              "memory for 12 bytes");
  expect_kept();
}

// The copies of a run are as many as there are inputs that are fed.
TEST_F(FedInput, IsFedOnceHoweverOftenThatIsAsked) {
  exe_->set_param("w", four(1));
  for (int i = 0; i < 5000; ++i) exe_->feed("a", "sum");
  exe_->run({{"a", four(1)}, {"z", whole(1)}});
  std::vector<float> sum(4);
  const std::vector<int64_t> z(4, 1);
  exe_->run({input_from("z", z)}, {output_to("sum", sum)});
  AllocationCounter counter;
  for (int i = 0; i < 3; ++i) exe_->run({input_from("z", z)}, {output_to("sum", sum)});
  if (AllocationCounter::available()) {
    EXPECT_EQ(counter.count(), 0);
  }
  EXPECT_EQ(sum[0], 6);
}

TEST(Failures, TheLastFeedOfAnInputCounts) {
  Graph g;
  const Value a = g.input("a", DType::f32, {4});
  g.output("more", a + 1.0);
  g.output("less", a - 1.0);
  Executable exe = compile(g, full_device());
  exe.feed("a", "more");
  exe.feed("a", "less");
  exe.run({{"a", four(0)}});
  EXPECT_EQ(exe.run(NamedTensors{}).at("more").real(0), 0);
  EXPECT_EQ(exe.run(NamedTensors{}).at("more").real(0), -1);
}

// Each of two outputs is the other's input: both are read before either is written.
TEST(Failures, FeedsMaySwap) {
  Graph g;
  const Value a = g.input("a", DType::f32, {4});
  const Value b = g.input("b", DType::f32, {4});
  g.output("to_a", b);
  g.output("to_b", a);
  Executable exe = compile(g, full_device());
  exe.feed("a", "to_a");
  exe.feed("b", "to_b");
  exe.run({{"a", four(1)}, {"b", four(2)}});
  const NamedTensors swapped = exe.run(NamedTensors{});
  EXPECT_EQ(swapped.at("to_a").real(0), 1);
  EXPECT_EQ(swapped.at("to_b").real(0), 2);
}

// One plan serves all lengths; those that the graph cannot have are refused each time, and the plan still
// serves the others.
TEST(Failures, TheSameWrongLengthIsRefusedEachTime) {
  Graph g;  // the three rows are the last of `total`, which are summed
  g.set_capacity("total", 8);
  const Value rows = g.input("x", DType::f32, {3, 2});
  const Value state = write_state(g.state("s", DType::f32, {8, 2}), rows, 0, Dim("total") - 3);
  g.output("y", sum(slice(state, 0, 0, "total"), {0}));
  Executable exe = compile(g, full_device());
  const Tensor x = Tensor::full(DType::f32, {3, 2}, 1);
  const auto expect_sum = [&](int64_t total, float want) {
    exe.reset_states();
    EXPECT_EQ(exe.run({{"x", x}}, {{"total", total}}).at("y").to_vector<float>(),
              (std::vector<float>{want, want}))
        << total;
  };
  const auto expect_refused = [&](int64_t total) {
    EXPECT_SAYS(exe.run({{"x", x}}, {{"total", total}}), "with total = 2: ");
  };
  expect_sum(8, 3);
  for (int i = 0; i < 3; ++i) expect_refused(2);
  expect_sum(8, 3);
  expect_refused(2);
  expect_sum(5, 3);
  expect_refused(2);
  expect_sum(5, 3);
  EXPECT_EQ(exe.plan_count(), 1);
}

// Lets one allocation after the other fail in an action, which then may end in an error that says so.
// `before` and `after` are called around each try.
void let_allocations_fail(const std::string& what, const std::function<void()>& before,
                          const std::function<void()>& action,
                          const std::function<void(bool failed)>& after) {
  bool happened = true;
  for (int64_t n = 0; happened; n += 1 + n / 8) {
    SCOPED_TRACE(what + ": allocation " + std::to_string(n));
    before();
    bool failed = true;
    {
      const FailingAllocation failing(n);
      try {
        action();
        failed = false;
      } catch (const Error& e) {
        EXPECT_EQ(e.kind(), ErrorKind::out_of_memory) << e.what();
      } catch (...) {
        ADD_FAILURE() << "it leaves as something else";
      }
      happened = failing.happened();
    }
    after(failed);
  }
}

// Wherever the host runs out of memory: an Error, nothing is half done, and the same call works afterwards.
TEST(Failures, OutOfMemoryCanBeTriedAgain) {
  if (!AllocationCounter::available()) GTEST_SKIP() << "a sanitizer has its own operator new";
  const Graph graph = parse_graph(kParams);
  const NamedTensors x = {{"x", four(1)}};
  const NamedTensors values[] = {good(1), good(3)};
  Executable exe = compile(graph, full_device());
  NamedTensors results[2];
  for (const size_t i : {1, 0}) {
    exe.set_params(values[i]);
    results[i] = exe.run(x);
  }
  ASSERT_NE(results[0], results[1]);
  const auto expect_results = [&](size_t i) { EXPECT_EQ(exe.run(x), results[i]); };

  const auto reset = [&] { exe.set_params(values[0]); };
  let_allocations_fail(
      "set_params", reset, [&] { exe.set_params(values[1]); },
      [&](bool failed) { expect_results(failed ? 0 : 1); });
  size_t now = 0;  // what was derived from other params must not be taken for what is derived from these
  const auto change = [&] {
    now = 1 - now;
    exe.set_params(values[now]);
  };
  let_allocations_fail("run", change, [&] { exe.run(x); }, [&](bool) { expect_results(now); });
  let_allocations_fail(
      "compile", [] {}, [&] { compile(graph, full_device()); }, [&](bool) { expect_results(now); });
}

}  // namespace
}  // namespace rlx::testing
