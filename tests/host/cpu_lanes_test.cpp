// Which lanes of a workgroup flat kernels are written for: those of subgroups on CPUs, with several pieces
// each, and the plain ones elsewhere.
#include <gtest/gtest.h>

#include "kernels/binder.h"
#include "kernels/copy.wgsl.h"
#include "kernels/lowering.h"
#include "ops/machinery/rows.h"

namespace rlx::testing {
namespace {

Caps software(uint32_t least, uint32_t most) {
  Caps caps;
  caps.kind = AdapterKind::cpu;
  caps.subgroups = true;
  caps.subgroup_min_size = least;
  caps.subgroup_max_size = most;
  return caps;
}

std::string copy_module(const Caps& caps) {
  Dispatch d;
  d.kernel = kernels::copy::kernel();
  d.groups = 1;
  d.params.resize(8);
  for (const int32_t storage : {0, 1})
    d.operands.push_back({.storage = storage, .view = View::contiguous({1024})});
  return module_text(*d.kernel, bind_dispatch(d, {{0, 0, 4096}, {1, 0, 4096}}, caps)[0].pattern);
}

TEST(CpuLanes, AreThoseOfSubgroupsOfOneSize) {
  const Caps caps = software(8, 8);
  EXPECT_TRUE(cpu_lanes(caps));
  EXPECT_EQ(flat_pieces(caps), 1024);
  const std::string text = copy_module(caps);
  EXPECT_TRUE(text.contains("enable subgroups;")) << text;
  EXPECT_TRUE(text.contains("@builtin(subgroup_id)")) << text;
  EXPECT_FALSE(text.contains("local_invocation_index")) << text;
}

TEST(CpuLanes, ArePlainElsewhere) {
  Caps gpu = software(32, 32);
  gpu.kind = AdapterKind::discrete;
  Caps without = software(8, 8);
  without.subgroups = false;
  for (const Caps& caps :
       {gpu, without, software(4, 8), software(0, 0), software(6, 6), software(512, 512)}) {
    EXPECT_FALSE(cpu_lanes(caps));
    EXPECT_EQ(flat_pieces(caps), 256);
    const std::string text = copy_module(caps);
    EXPECT_FALSE(text.contains("subgroup")) << text;
    EXPECT_TRUE(text.contains("@builtin(local_invocation_index)")) << text;
  }
}

// Rows go one after the other through a workgroup only where that is one subgroup of a CPU.
TEST(CpuLanes, SubgroupsHaveSeveralRows) {
  const auto team_of = [](const Caps& caps, int64_t rows) {
    const Target target{.caps = caps};
    std::vector<Storage> storages;
    int32_t overflow = -1;
    Scratch scratch(storages, overflow);
    std::vector<Dispatch> dispatches;
    Lowering l(target, 0, {}, {}, scratch, dispatches);
    Team out;
    RowProblem p{.rows = rows, .length = 768, .may_hold = true};
    p.run = [&](const Team& team) {
      out = team;
      return true;
    };
    run_held(l, p, {});
    return out;
  };
  const Team many = team_of(software(8, 8), 4096);
  EXPECT_EQ(many.fragment, "team_whole_subgroup");
  EXPECT_EQ(many.rows_per_group, 8);
  EXPECT_EQ(many.held, 24);
  EXPECT_EQ(team_of(software(8, 8), 40).rows_per_group, 1);
  EXPECT_EQ(team_of(software(4, 8), 4096).fragment, "team_subgroup");
  Caps gpu = software(32, 32);
  gpu.kind = AdapterKind::discrete;
  EXPECT_EQ(team_of(gpu, 4096).rows_per_group, 1);
  EXPECT_EQ(team_of(gpu, 4096).held, 8);
}

// Every piece is some workgroup's: the grid covers what is left over after whole workgroups.
TEST(CpuLanes, TheGridCoversAllElements) {
  const Target target{.caps = software(8, 8)};
  for (const int64_t count : {1, 3, 17, 257, 1023, 1024, 1025, 65537}) {
    std::vector<Storage> storages(2);
    int32_t overflow = -1;
    Scratch scratch(storages, overflow);
    std::vector<Dispatch> dispatches;
    const Operand x{.storage = 0, .view = View::contiguous({count})};
    const Operand y{.storage = 1, .view = View::contiguous({count})};
    Lowering l(target, 0, {x}, {y}, scratch, dispatches);
    l.flat<kernels::copy>({.x = x, .y = y}, {});
    ASSERT_EQ(dispatches.size(), 1u);
    EXPECT_EQ(dispatches[0].groups, ceil_div(count, int64_t{1024})) << count;
  }
}

}  // namespace
}  // namespace rlx::testing
