// Which kernels ops choose for which device, and how the dispatches are labelled.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>

#include "kernels/rates.h"
#include "ops/machinery/op_of.h"
#include "passes/pass_order.h"
#include "passes/passes.h"
#include "plan/program.h"
#include "rlx/compile.h"
#include "rlx/graph.h"
#include "rlx/models.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/rearrange.h"
#include "runtime/compile_graph.h"
#include "tests/support/message.h"
#include "tests/support/sample.h"

namespace rlx::testing {
namespace {

// Mesa's lavapipe with vectors of 256 bits, on which the estimates were measured.
Target lavapipe() {
  Target t;
  t.caps.kind = AdapterKind::cpu;
  t.caps.memory_bytes = uint64_t{24} << 30;
  t.caps.shader_f16 = true;
  t.caps.subgroups = true;
  t.caps.subgroup_min_size = 8;
  t.caps.subgroup_max_size = 8;
  t.caps.max_storage_buffers = 16;
  t.caps.max_invocations_per_workgroup = 1024;
  t.caps.max_workgroup_bytes = 32768;
  return t;
}

Target small_limits() {
  Target t = lavapipe();
  t.caps.max_binding_bytes = 65536;
  t.caps.max_storage_buffers = 8;
  t.caps.subgroups = false;
  return t;
}

Program lowered(const Graph& graph, const Target& target) {
  return lower(materialize_views(expand_ops(graph)), target);
}

Program lowered(const std::string& call, DType type, const Target& target) {
  const OpInfo& info = op_table().at(call.substr(0, call.find('(')));
  return lowered(make_sample(info, call, type, Reach::direct, 1).graph, target);
}

// "loop_staged [staged] ROWS=32 LANES=128": the label and those constants that are candidates.
std::string text(const Dispatch& d) {
  static const std::set<std::string_view> chosen = {"ROWS", "LANES", "KEYS", "QUADS", "TEAM"};
  const std::string label = Candidate{.row = d.variant.row, .form = d.variant.form}.text();
  std::string out = d.kernel->name + (label.empty() ? "" : " [" + label + "]");
  for (const SpecValue& s : d.specs) {
    if (chosen.contains(s.name)) out += formatted(" {}={}", s.name, s.value);
  }
  return out;
}

std::string text(const Program& program) {
  return joined(program.dispatches, [](const Dispatch& d) { return text(d); });
}

// Measured costs for a test, and a record of what was asked for and told.
struct Measured : Chooser {
  struct Told {
    std::string op, taken;
    std::map<std::string, double> all;
    Decision::Reason reason;
  };
  std::map<std::string, double> ns;  // "product rows ROWS=1 LANES=8"
  mutable std::set<std::string> keys;
  mutable std::vector<Told> told;

  std::optional<double> measured_ns(std::string_view family, std::string_view key,
                                    std::string_view candidate) const override {
    keys.insert(formatted("{}: {}", family, key));
    const auto found = ns.find(formatted("{} {}", family, candidate));
    return found == ns.end() ? std::nullopt : std::optional(found->second);
  }
  void chosen(const Decision& d) const override {
    Told& one = told.emplace_back(std::string(d.op), d.all[d.taken].text(), std::map<std::string, double>(),
                                  d.reason);
    for (const Candidate& c : d.all) EXPECT_TRUE(one.all.emplace(c.text(), c.ns).second) << c.text();
  }
};

constexpr const char* kProduct = "matmul(T[32,64], T[64,4096])";

// A row without a function that makes its dispatch does not compile.
using Row = Variant<Measured, bool>;
static_assert(std::is_constructible_v<Row, std::string_view, Row::Applies, Row::Candidates, Row::Make>);
static_assert(!std::is_constructible_v<Row, std::string_view, Row::Applies, Row::Candidates>);
static_assert(!std::is_default_constructible_v<Row>);

// --- choices ---

TEST(Choices, OnLavapipeAreThoseThatWereMeasured) {
  const std::pair<std::string, std::string> cases[] = {
      {"matmul(T[1,64], T[64,256])", "loop_rows [rows] ROWS=1 LANES=8 QUADS=8"},
      {"matmul(T[3,64], T[64,256])", "loop_rows [rows] ROWS=3 LANES=8 QUADS=8"},
      {"matmul(T[7,64], T[64,256])", "loop_rows [rows] ROWS=7 LANES=8 QUADS=8"},
      {"matmul(T[7,64], T[64,100])", "loop_rows [rows] ROWS=7 LANES=8 QUADS=4"},
      {"matmul(T[17,64], T[64,256])", "loop_staged [staged] ROWS=17 LANES=64"},
      {"matmul(T[128,768], T[768,3072])", "loop_staged [staged] ROWS=32 LANES=64"},
      {"matmul(T[128,64], T[64,3072])", "loop_staged [staged] ROWS=32 LANES=128"},
      {"matmul(T[128,4096], T[4096,3072])", "loop_staged [staged] ROWS=32 LANES=32"},
      // Rows of b that lie a power of two apart are copied into panels first.
      {"matmul(T[512,512], T[512,1024])", "copy_fours, loop_staged [paneled staged] ROWS=32 LANES=128"},
      {"matmul(T[8,512], T[512,1024])", "loop_rows [rows] ROWS=8 LANES=8 QUADS=8"},
      {"conv(T[1,64,56,56], T[64,64,3,3]) {pads=[1,1,1,1]}", "loop_staged [staged] ROWS=32 LANES=64"},
      {"matmul(i32[3,17], i32[17,5])", "loop_plain [plain]"},
      {"attention(T[1,12,128,64], T[1,12,128,64], T[1,12,128,64])",
       "attention_online [online] KEYS=4 LANES=64"},
      {"attention(T[1,12,1,64], T[1,12,128,64], T[1,12,128,64])",
       "attention_blocked [blocked] LANES=8 QUADS=1"},
      {"attention(T[1,12,70,128], T[1,12,128,128], T[1,12,128,128])",
       "attention_blocked [blocked] LANES=8 QUADS=4"},
      {"attention(T[1,1,2,300], T[1,1,5,300], T[1,1,5,301])", "attention_blocked [blocked] LANES=8 QUADS=1"},
      {"softmax(T[1031,257])", "softmax [serial] TEAM=1"},
      {"softmax(T[2,257])", "softmax [subgroup] TEAM=8"},
      {"softmax(T[65537])", "softmax [subgroup] TEAM=8"},
      {"sum(T[65537])", "reduce [split] TEAM=1, reduce [subgroup] TEAM=8"},
      {"softmax(T[1031,256])", "softmax [held] TEAM=8"},
      {"softmax(T[768,1032]) {axis=0}", "softmax [serial] TEAM=1"},
      {"sum(T[4096,1024]) {axes=[1]}", "reduce [serial] TEAM=1"},
      {"attention(T[1,1,1,64], T[1,1,4096,64], T[1,1,4096,64])",
       "attention_blocked [split] LANES=8 QUADS=1, attention_join"},
      {"add(T[8,64], T[64])", "elementwise [vec4]"},
      {"add(T[3,17], T[17])", "elementwise [scalar]"},
      {"concat(T[3,17], T[3,5]) {axis=1}", "concat [joined]"},
  };
  for (const auto& [call, want] : cases) EXPECT_EQ(text(lowered(call, DType::f32, lavapipe())), want) << call;
}

TEST(Choices, OfBertOnLavapipe) {
  const Graph g = materialize_views(optimize(models::bert_encoder({.layers = 1}, 1, 128), {}));
  std::map<std::string, int> counts;
  for (const Dispatch& d : lower(g, lavapipe()).dispatches) ++counts[text(d)];
  // Where k is 3072, what 64 lanes read would not stay in the second cache.
  EXPECT_EQ(counts["loop_staged [staged] ROWS=32 LANES=64"], 3);
  EXPECT_EQ(counts["loop_staged [staged] ROWS=32 LANES=32"], 1);
  EXPECT_EQ(counts["attention_online [online] KEYS=4 LANES=64"], 1);
  EXPECT_EQ(counts["norm [held] TEAM=8"], 3);
}

TEST(Choices, FollowMeasuredCosts) {
  const auto measured = std::make_shared<Measured>();
  Target target = lavapipe();
  target.chooser = measured;
  EXPECT_EQ(text(lowered(kProduct, DType::f32, target)), "loop_staged [staged] ROWS=32 LANES=128");
  EXPECT_EQ(*measured->keys.begin(),
            "product: strided f32 along-k x4 * strided f32 x4 -> strided f32 x4 batch<=1 m<=32 n4096 k64 "
            "exact");
  measured->ns["product rows ROWS=2 LANES=32 QUADS=1"] = 10;
  EXPECT_EQ(text(lowered(kProduct, DType::f32, target)), "loop_rows [rows] ROWS=2 LANES=32 QUADS=1");
  measured->ns["product tiled"] = 5;
  EXPECT_EQ(text(lowered(kProduct, DType::f32, target)), "loop_tiled [tiled]");
  // A row that is measured to be slow is not chosen either.
  measured->ns = {{"product staged ROWS=32 LANES=128", 1e12}};
  EXPECT_NE(text(lowered(kProduct, DType::f32, target)), "loop_staged [staged] ROWS=32 LANES=128");
}

// Transposition, parts of k and fours of bytes are measured like loops, and other ops use what was measured.
TEST(Choices, OfFormsFollowMeasuredCosts) {
  const auto measured = std::make_shared<Measured>();
  Target target = lavapipe();
  target.chooser = measured;
  measured->ns = {{"product transposed rows ROWS=2 LANES=8 QUADS=1", 10}};
  EXPECT_EQ(text(lowered(kProduct, DType::f32, target)),
            "loop_rows [transposed rows] ROWS=2 LANES=8 QUADS=1");
  measured->ns["product split_k tiled PARTS=4"] = 5;
  EXPECT_TRUE(text(lowered(kProduct, DType::f32, target)).starts_with("loop_tiled [split_k tiled], reduce"));
  EXPECT_TRUE(text(lowered("dot_general(T[32,64], T[64,4096]) {a_contracting=[1], b_contracting=[0]}",
                           DType::f32, target))
                  .starts_with("loop_tiled [split_k tiled], reduce"));
  measured->ns.clear();
  // By default four bytes at once; a loop that is measured to be faster with single ones has them.
  Graph bytes;
  bytes.output(
      "y", matmul(bytes.input("x", DType::i8, {64, 64}), transpose(bytes.input("w", DType::i8, {64, 64}))));
  EXPECT_TRUE(text(lowered(bytes, target)).contains("[dot4 ")) << text(lowered(bytes, target));
  measured->ns = {{"product plain", 1}};
  EXPECT_EQ(text(lowered(bytes, target)), "loop_plain [plain]");
}

TEST(Choices, AreToldWithAllCandidates) {
  using Reason = Decision::Reason;
  const auto listener = std::make_shared<Measured>();
  Target target = lavapipe();
  target.chooser = listener;
  const auto lower_once = [&] {
    listener->told.clear();
    lowered(kProduct, DType::f32, target);
    EXPECT_EQ(listener->told.size(), 1u);
    return listener->told.at(0);
  };
  Measured::Told told = lower_once();
  EXPECT_EQ(told.op, "matmul");
  EXPECT_EQ(told.taken, "staged ROWS=32 LANES=128");
  EXPECT_EQ(told.reason, Reason::estimated);
  for (const char* name : {"plain", "tiled", "taps", "rows ROWS=16 LANES=8 QUADS=1", "transposed plain",
                           "split_k plain PARTS=4", "transposed split_k tiled PARTS=4"})
    EXPECT_TRUE(told.all.contains(name)) << name;
  for (const auto& [name, ns] : told.all) EXPECT_GE(ns, told.all.at(told.taken)) << name;
  listener->ns = {{"product plain", 1}};
  told = lower_once();
  EXPECT_EQ(told.taken, "plain");
  EXPECT_EQ(told.reason, Reason::measured);
  target.forced = {{"matmul", "tiled"}};
  told = lower_once();
  EXPECT_EQ(told.taken, "tiled");
  EXPECT_EQ(told.reason, Reason::forced);
  EXPECT_GT(told.all.size(), 100u);
}

TEST(Choices, OfALogAreToldAsSuch) {
  const auto listener = std::make_shared<Measured>();
  ChoiceLog log;
  Target target = lavapipe();
  target.choices = &log;
  struct Problem {
    std::string key() const { return ""; }
  };
  using Table = Variant<Problem, bool>;
  const auto none = [](Lowering&, const Problem&, const Candidate&) { return true; };
  const Table table[] = {
      {"slow", always, [](const Target&, const Problem&) { return one_candidate(2); }, none},
      {"fast", always, [](const Target&, const Problem&) { return one_candidate(1); }, none}};
  EXPECT_EQ(choose(target, "op", std::span<const Table>(table), Problem()).row->name, "fast");
  log.replay();
  target.chooser = listener;
  target.forced = {{"op", "slow"}};
  EXPECT_EQ(choose(target, "op", std::span<const Table>(table), Problem()).row->name, "fast");
  ASSERT_EQ(listener->told.size(), 1u);
  EXPECT_EQ(listener->told[0].taken, "fast");
  EXPECT_EQ(listener->told[0].reason, Decision::Reason::replayed);
}

// A name with its form and constants, or as much of it as matters.
TEST(Choices, AreForcedWhole) {
  Target target = lavapipe();
  const auto forced = [&](const std::string& name) {
    target.forced = {{"matmul", name}};
    return text(lowered(kProduct, DType::f32, target));
  };
  EXPECT_EQ(forced("staged ROWS=16 LANES=64"), "loop_staged [staged] ROWS=16 LANES=64");
  EXPECT_EQ(forced("staged ROWS=16"), "loop_staged [staged] ROWS=16 LANES=128");
  EXPECT_EQ(forced("transposed rows ROWS=4 LANES=8 QUADS=1"),
            "loop_rows [transposed rows] ROWS=4 LANES=8 QUADS=1");
  EXPECT_TRUE(forced("transposed").contains(" [transposed "));
  EXPECT_TRUE(forced("split_k plain PARTS=4").starts_with("loop_plain [split_k plain], reduce"));
  EXPECT_SAYS(forced("staged ROWS=33"),
              "the op 'matmul' has no kernel 'staged ROWS=33' for these sizes; with 'staged' it has: 'staged "
              "ROWS=16 LANES=32', 'staged ROWS=16 LANES=64', 'staged ROWS=16 LANES=128', 'staged ROWS=32");
  EXPECT_SAYS(forced("plain ROWS=1"), "with 'plain' it has: 'plain'");
  EXPECT_SAYS(forced("split_k tiled PARTS=3"), "with 'split_k tiled' it has: 'split_k tiled PARTS=4'");
  // A row that cannot handle the case is passed over, whatever its constants.
  EXPECT_EQ(forced("dot4 plain LANES=3"), "loop_staged [staged] ROWS=32 LANES=128");
}

TEST(Choices, ForcedRowsWinOverMeasuredOnes) {
  const auto measured = std::make_shared<Measured>();
  measured->ns = {{"product tiled", 5}, {"product rows ROWS=1 LANES=64 QUADS=1", 7}};
  Target target = lavapipe();
  target.chooser = measured;
  target.forced = {{"matmul", "rows"}};
  EXPECT_EQ(text(lowered(kProduct, DType::f32, target)), "loop_rows [rows] ROWS=1 LANES=64 QUADS=1");
  target.forced = {{"matmul", "plain"}};
  EXPECT_EQ(text(lowered(kProduct, DType::f32, target)), "loop_plain [plain]");
  // A row that cannot handle the case is passed over.
  target.forced = {{"matmul", "tiled"}};
  target.caps.max_invocations_per_workgroup = 128;
  EXPECT_EQ(text(lowered(kProduct, DType::f32, target)), "loop_rows [rows] ROWS=1 LANES=64 QUADS=1");
}

TEST(Choices, EveryTableHasKeys) {
  const auto measured = std::make_shared<Measured>();
  Target target = lavapipe();
  target.chooser = measured;
  for (const auto& [name, info] : op_table().all()) {
    if (info.make()->has(Trait::control_flow)) continue;  // no kernels of its own
    measured->keys.clear();
    for (const std::string& sample : info.samples) lowered(sample, types_of(info).front(), target);
    if (info.variants.size() > 1) {
      EXPECT_FALSE(measured->keys.empty()) << name;
    }
    for (const std::string& key : measured->keys) EXPECT_LT(key.size(), 250u) << key;
  }
}

TEST(Choices, RatesFollowTheAdapter) {
  Caps caps;
  const auto lanes = [&](AdapterKind kind, uint64_t gigabytes) {
    caps.kind = kind;
    caps.memory_bytes = gigabytes << 30;
    return rates_of(caps).lanes;
  };
  EXPECT_LT(lanes(AdapterKind::integrated, 64), lanes(AdapterKind::discrete, 8));
  EXPECT_LT(lanes(AdapterKind::discrete, 8), lanes(AdapterKind::discrete, 24));
  EXPECT_EQ(lanes(AdapterKind::discrete, 0), lanes(AdapterKind::other, 0));
  EXPECT_LT(lanes(AdapterKind::cpu, 64), 100);
  caps.kind = AdapterKind::discrete;
  caps.subgroup_max_size = 128;
  EXPECT_EQ(rates_of(caps).group_lanes, 128);
}

// What compilers save to memory there is made by kernels that hold less (docs/gpu.md).
TEST(Choices, KernelsFitIntoRegisters) {
  const auto variant = [](GpuFamily family, const std::string& call) {
    Target target = lavapipe();
    target.caps.kind = AdapterKind::discrete;
    target.caps.family = family;
    target.caps.subgroup_min_size = target.caps.subgroup_max_size = 32;
    return lowered(call, DType::f32, target).dispatches.back().variant.text();
  };
  const std::string attention = "attention(f32[1,12,128,64], f32[1,12,128,64], f32[1,12,128,64])";
  EXPECT_EQ(variant(GpuFamily::amd, attention), "online KEYS=16");
  EXPECT_EQ(variant(GpuFamily::qualcomm, attention), "online KEYS=4");
  EXPECT_EQ(variant(GpuFamily::apple, attention), "online KEYS=8 ACROSS=2");
  const std::string long_heads = "attention(f32[1,8,128,128], f32[1,8,128,128], f32[1,8,128,128])";
  EXPECT_EQ(variant(GpuFamily::nvidia, long_heads), "online KEYS=16 ACROSS=2");
  EXPECT_EQ(variant(GpuFamily::apple, long_heads), "online KEYS=8 ACROSS=4");
}

// Which loads and stores kernels are made of: without windows where a kernel has one tap.
TEST(Choices, OfLoads) {
  const auto parts = [](const Graph& g) {
    const Program program = lowered(g, lavapipe());
    EXPECT_EQ(program.dispatches.size(), 1u) << text(program);
    std::string out;
    for (const char* part : {"load_strided", "load_window", "load_blocks", "load_by_table"}) {
      if (program.dispatches.front().kernel->text.contains(part))
        out += std::string(out.empty() ? "" : " ") + part;
    }
    return out;
  };
  const auto of = [&](const std::string& call) {
    const OpInfo& info = op_table().at(call.substr(0, call.find('(')));
    return parts(make_sample(info, call, DType::f32, Reach::direct, 1).graph);
  };
  EXPECT_EQ(of("conv(T[2,5,7,6], T[3,5,1,1])"), "load_strided");
  EXPECT_EQ(of("conv(T[2,5,7,6], T[3,5,1,1], T[3]) {strides=[2,3]}"), "load_strided");
  EXPECT_EQ(of("conv(T[2,7,6,8], T[6,4,1,1]) {layout=\"channels_last\", groups=2}"), "load_strided");
  EXPECT_EQ(of("conv(T[2,5,7,6], T[3,5,1,1]) {pads=[0,1,0,0]}"), "load_strided load_window");
  EXPECT_EQ(of("conv(T[2,5,7,6], T[3,5,1,1]) {pads=[0,0,1,0]}"), "load_strided load_window");
  EXPECT_EQ(of("conv(T[2,5,7,6], T[3,5,1,2])"), "load_strided load_window");
  EXPECT_EQ(of("grouped_matmul(T[7,16], T[4,16,12], i32[7] in 0..3)"), "load_strided load_by_table");
  Graph g;
  g.output("y", matmul(g.input("x", DType::f32, {3, 64}), transpose(g.param("w", DType::q8_0, {5, 64}))));
  EXPECT_EQ(parts(g), "load_strided load_blocks");
}

// --- labels ---

// Which labels a kernel may have: the rows that make it.
bool label_fits(const std::string& kernel, std::string_view label) {
  static const std::multimap<std::string, std::string> rows = {{"loop_rows", "rows"},
                                                               {"loop_tiled", "tiled"},
                                                               {"loop_plain", "plain"},
                                                               {"attention_plain", "plain"},
                                                               {"elementwise", "vec4"},
                                                               {"elementwise", "scalar"},
                                                               {"attention_blocked", "blocked"},
                                                               {"copy", ""},
                                                               {"attention_online", "online"}};
  const auto [begin, end] = rows.equal_range(kernel);
  return begin == end || std::any_of(begin, end, [&](const auto& row) { return row.second == label; });
}

TEST(Labels, AreThoseOfTheRowThatMadeTheDispatch) {
  const std::string calls[] = {
      "matmul(T[3,4096], T[4096,512])",  // in slices, with additions in between
      "matmul(T[3,17], T[17,5], T[5]) {epilogue=\"less($0,$1)\"}", "matmul(T[40,33,31], T[40,31,35])",
      "attention(T[1,2,3,64], T[1,1,1500,64], T[1,1,1500,64]) {kv_heads=1}", "add(T[300000], T[300000])"};
  for (const std::string& call : calls) {
    for (const char* forced : {"", "rows", "tiled", "plain"}) {
      Target target = small_limits();
      if (*forced) target.forced = {{"matmul", forced}};
      const Program program = lowered(call, DType::f32, target);
      EXPECT_FALSE(program.dispatches.empty());
      for (const Dispatch& d : program.dispatches) {
        EXPECT_TRUE(label_fits(d.kernel->name, d.variant.row)) << call << ": " << text(d);
      }
    }
  }
}

TEST(Labels, OfAProductInSlicesAlternate) {
  const Program program = lowered("matmul(T[3,4096], T[4096,512])", DType::f32, small_limits());
  int products = 0;
  int additions = 0;
  for (const Dispatch& d : program.dispatches) {
    products += d.kernel->name == "loop_rows" && d.variant.row == "rows";
    additions += d.kernel->name == "elementwise" && d.variant.row == "vec4";
  }
  EXPECT_GE(products, 3);
  EXPECT_EQ(additions, products - 1);
  EXPECT_EQ(products + additions, std::ssize(program.dispatches));
}

TEST(Labels, OfReductionsAndOfRowsThatDoNotFit) {
  Target split = lavapipe();
  split.forced = {{"sum", "split"}};
  EXPECT_EQ(text(lowered("sum(T[65537])", DType::f32, split)),
            "reduce [split] TEAM=1, reduce [subgroup] TEAM=8");
  // The sixty-four rows of a workgroup of serial teams are more than can be bound; one row is not.
  Target target = small_limits();
  target.forced = {{"softmax", "serial"}};
  for (const Dispatch& d : lowered("softmax(T[100,20000])", DType::f32, target).dispatches)
    EXPECT_EQ(d.variant.row, "workgroup") << text(d);
}

// --- options ---

// Records the target it is lowered for.
struct Probe final : OpOf<Probe> {
  static constexpr auto kName = "probe";
  static inline Target seen = {};
  std::vector<TensorType> infer(const InferArgs& in) const override { return {in[0]}; }
  void reference(RefContext&) const override {}
  void lower(Lowering& l) const override { seen = l.target(); }
};

TEST(Options, ReachLowering) {
  Graph g;
  g.output("y", g.add_value(std::make_shared<Probe>(), {g.input("x", DType::f32, {4})}));
  for (const bool deterministic : {false, true}) {
    for (const Precision precision : {Precision::exact, Precision::mixed, Precision::fast}) {
      lower(g, make_target({}, {.precision = precision, .deterministic = deterministic}));
      EXPECT_EQ(Probe::seen.precision, precision);
      EXPECT_EQ(Probe::seen.deterministic, deterministic);
    }
  }
  lower(g, make_target({}, {.kernels = {{"matmul", "plain"}}}));
  EXPECT_EQ(Probe::seen.precision, Precision::exact);
  EXPECT_TRUE(Probe::seen.deterministic);
  EXPECT_EQ(Probe::seen.forced, (ForcedVariants{{"matmul", "plain"}}));
  lower(g, make_target({}, {.kernels = {{"matmul", "transposed rows ROWS=16"}}}));
  EXPECT_EQ(Probe::seen.forced.at("matmul"), "transposed rows ROWS=16");
  for (const auto& [name, wrong] : {std::pair("warp", "warp"), std::pair("rows warp ROWS=16", "warp"),
                                    std::pair("ROWS=16 rows", "ROWS=16"), std::pair("", "")})
    EXPECT_SAYS(make_target({}, {.kernels = {{"matmul", name}}}), formatted("no kernel '{}'", wrong));
}

TEST(Options, MatmulF32OnlyIsExact) {
  const CompileOptions options{.precision = Precision::fast, .matmul_f32_only = true};
  EXPECT_EQ(make_target({}, options).precision, Precision::exact);
}

TEST(Options, PrecisionsHaveNames) {
  for (const Precision p : {Precision::exact, Precision::mixed, Precision::fast})
    EXPECT_EQ(parse_precision(to_string(p)), p);
  EXPECT_SAYS(parse_precision("half"), "the precision 'half' is not one of exact, mixed and fast");
  EXPECT_SAYS(parse_precision("Exact"), "'Exact'");
}

class Environment : public ::testing::Test {
 protected:
  void TearDown() override {
    for (const char* name :
         {"RLX_PRECISION", "RLX_WGPU_MATMUL_F32_ONLY", "RLX_WGPU_COOP_F16_VK_NO_F32ACC", "RLX_SUBMIT_MS"})
      unsetenv(name);
  }
  static Precision precision(const CompileOptions& options) {
    return make_target({}, with_environment(options)).precision;
  }
};

TEST_F(Environment, NamesThePrecision) {
  EXPECT_EQ(precision({.precision = Precision::mixed}), Precision::mixed);
  setenv("RLX_PRECISION", "fast", 1);
  EXPECT_EQ(precision({}), Precision::fast);
  EXPECT_EQ(precision({.matmul_f32_only = true}), Precision::exact);
  setenv("RLX_WGPU_MATMUL_F32_ONLY", "1", 1);
  EXPECT_EQ(precision({}), Precision::exact);
  setenv("RLX_PRECISION", "single", 1);
  EXPECT_SAYS(with_environment({}), "RLX_PRECISION: the precision 'single' is not one of exact, mixed");
  setenv("RLX_PRECISION", "", 1);
  unsetenv("RLX_WGPU_MATMUL_F32_ONLY");
  EXPECT_EQ(precision({}), Precision::exact);
}

TEST_F(Environment, AllowsSumsOfHalvesWhereFactorsMayBe) {
  setenv("RLX_WGPU_COOP_F16_VK_NO_F32ACC", "1", 1);
  EXPECT_EQ(precision({.precision = Precision::mixed}), Precision::fast);
  EXPECT_EQ(precision({}), Precision::exact);
}

TEST_F(Environment, BoundsSubmits) {
  const auto longest = [](AdapterKind kind, const CompileOptions& options) {
    return make_target({.kind = kind}, with_environment(options)).longest_ns;
  };
  EXPECT_EQ(longest(AdapterKind::discrete, {}), 300e6);
  EXPECT_EQ(longest(AdapterKind::cpu, {}), 0);
  EXPECT_EQ(longest(AdapterKind::cpu, {.submit_ms = 20}), 20e6);
  EXPECT_EQ(longest(AdapterKind::discrete, {.submit_ms = 0}), 0);
  setenv("RLX_SUBMIT_MS", "50", 1);
  EXPECT_EQ(longest(AdapterKind::discrete, {.submit_ms = 0}), 50e6);
  EXPECT_EQ(longest(AdapterKind::cpu, {}), 50e6);
}

}  // namespace
}  // namespace rlx::testing
