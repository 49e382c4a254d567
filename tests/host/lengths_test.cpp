// A new length of a symbol finds its shaders compiled: what module texts depend on.
#include <gtest/gtest.h>

#include <set>

#include "kernels/binder.h"
#include "passes/pass_order.h"
#include "passes/passes.h"
#include "plan/plan.h"
#include "rlx/graph.h"
#include "tests/support/lengths_model.h"

namespace rlx::testing {
namespace {

Target target_of(AdapterKind kind) {
  Target target;
  target.caps.kind = kind;
  target.caps.subgroups = true;
  target.caps.subgroup_min_size = target.caps.subgroup_max_size = kind == AdapterKind::cpu ? 8 : 32;
  target.sizes_vary = true;
  return target;
}

// The texts of all shaders for this length: what pipelines are cached by.
std::set<std::string> shaders(const Graph& optimized, const Target& target, int64_t length) {
  const SymbolValues sizes = {{"n", length}};
  const Graph graph = bind_symbols(materialize_views(optimized, sizes, sizes), sizes);
  const Program program = lower(graph, target);
  std::vector<Placement> fixed(program.storages.size());
  int32_t buffers = 0;
  for (size_t s = 0; s < fixed.size(); ++s) {
    const auto leaf = program.storages[s].leaf;
    if (leaf && *leaf != LeafKind::input) fixed[s] = {buffers++, 0, program.storages[s].bytes};
  }
  std::set<std::string> out;
  for (const BoundDispatch& d : make_plan(program, fixed, buffers, target.caps).dispatches)
    out.insert(module_text(*d.kernel, d.pattern));
  return out;
}

Graph layer() { return optimize(expand_ops(parse_graph(kLengthsModel)), {}); }

// How many shaders the lengths in [first, last] need that are not known yet; they then are.
int64_t add_shaders(const Graph& graph, const Target& target, int64_t first, int64_t last,
                    std::set<std::string>& known) {
  const size_t before = known.size();
  for (int64_t length = first; length <= last; ++length) known.merge(shaders(graph, target, length));
  return std::ssize(known) - static_cast<int64_t>(before);
}

TEST(Lengths, ANewOneNeedsFewShaders) {
  const Graph graph = layer();
  for (const AdapterKind kind : {AdapterKind::cpu, AdapterKind::discrete}) {
    SCOPED_TRACE(to_string(kind));
    const Target target = target_of(kind);
    std::set<std::string> known;
    for (const int64_t length : {1, 7, 64}) add_shaders(graph, target, length, length, known);
    // Other classes of sizes: lengths that are multiples of four or not, and tiles for more rows.
    EXPECT_LE(add_shaders(graph, target, 2, 40, known), 28);
    EXPECT_EQ(add_shaders(graph, target, 41, 64, known), 0);
    int64_t later = 0;
    for (int64_t length = 65; length < 300; length += 9)
      later += add_shaders(graph, target, length, length, known);
    // Rows that are held in registers have a form for each of three ranges of these lengths.
    EXPECT_LE(later, 9);
  }
}

TEST(Lengths, ARowCountIsNoConstant) {
  const Graph graph = layer();
  const Target target = target_of(AdapterKind::cpu);
  for (const auto& [first, last] : {std::pair{5, 8}, {21, 32}, {41, 64}}) {
    // Within a class only multiples of four differ from the rest.
    std::set<std::string> known = shaders(graph, target, first);
    known.merge(shaders(graph, target, last));
    EXPECT_EQ(add_shaders(graph, target, first, last, known), 0) << first << " to " << last;
  }
}

// A graph without symbols has kernels for exactly its sizes.
TEST(Lengths, FixedSizesAreConstants) {
  const Graph graph = layer();
  Target fixed = target_of(AdapterKind::cpu);
  fixed.sizes_vary = false;
  const auto contains = [&](int64_t length, std::string_view text) {
    return std::ranges::any_of(shaders(graph, fixed, length),
                               [&](const std::string& shader) { return shader.contains(text); });
  };
  EXPECT_TRUE(contains(29, "const ROWS: u32 = 29u;"));
  EXPECT_FALSE(contains(29, "const PARTIAL: bool = true;"));
}

}  // namespace
}  // namespace rlx::testing
