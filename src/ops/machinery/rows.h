// What ops along rows share: a tensor's axes in two groups, and kernels that give each row a team of
// invocations (kernels/lib/team_*.wgsl).
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/lowering.h"

namespace rlx {

// The operand with the axes `inner` (ascending) moved after the others: an index over the outer ones names a
// row.
Operand as_rows(const Operand& o, const std::vector<int64_t>& inner);
int64_t row_count(const Operand& rows);
int64_t row_length(const Operand& rows);
// Whether four neighbours in a row can be read or written as one vector, in every row.
bool rows_by_four(const Operand& rows);
// `axis` and all after it.
std::vector<int64_t> axes_from(int64_t axis, int64_t rank);

// The invocations that compute a row together.
struct Team {
  std::string_view fragment;
  int64_t size = 1;  // invocations per row
  int64_t rows_per_group = 1;
  int64_t held = 0;  // fours of a row that an invocation keeps in registers, if the kernel works like that
};

// What the choice of a team depends on, and what to do with the team.
struct RowProblem {
  int64_t rows = 0;
  int64_t length = 0;
  DType dtype = DType::f32;
  bool side_by_side = true;  // neighbours in a row are neighbours in memory
  double passes = 1;         // how often a row is walked
  bool may_hold = false;     // the kernel can keep rows in registers (Team::held)
  // Emits the kernel for that team; false, and nothing emitted, if the device cannot bind it.
  std::function<bool(const Team&)> run = {};
  // If rows can be cut into parts that a second dispatch joins: does so, or returns false.
  std::function<bool()> split = {};

  std::string key() const;
};
RowProblem row_problem(const Operand& rows, double passes);

// The rows of the variant tables that these ops share.
using RowVariant = Variant<RowProblem, bool>;
bool subgroup_applies(const Target& target, const RowProblem& p);
bool held_applies(const Target& target, const RowProblem& p);
bool split_applies(const Target& target, const RowProblem& p);
std::vector<Candidate> serial_candidates(const Target& target, const RowProblem& p);
std::vector<Candidate> workgroup_candidates(const Target& target, const RowProblem& p);
std::vector<Candidate> subgroup_candidates(const Target& target, const RowProblem& p);
std::vector<Candidate> held_candidates(const Target& target, const RowProblem& p);
std::vector<Candidate> split_candidates(const Target& target, const RowProblem& p);
bool run_serial(Lowering& l, const RowProblem& p, const Candidate& c);
bool run_workgroup(Lowering& l, const RowProblem& p, const Candidate& c);
bool run_subgroup(Lowering& l, const RowProblem& p, const Candidate& c);
bool run_held(Lowering& l, const RowProblem& p, const Candidate& c);
bool run_split(Lowering& l, const RowProblem& p, const Candidate& c);
inline constexpr RowVariant kSerialRows{"serial", always, serial_candidates, run_serial};
inline constexpr RowVariant kWorkgroupRows{"workgroup", always, workgroup_candidates, run_workgroup};
inline constexpr RowVariant kSubgroupRows{"subgroup", subgroup_applies, subgroup_candidates, run_subgroup};
inline constexpr RowVariant kHeldRows{"held", held_applies, held_candidates, run_held};
inline constexpr RowVariant kSplitRows{"split", split_applies, split_candidates, run_split};
inline constexpr RowVariant kRowVariants[] = {kSerialRows, kWorkgroupRows, kSubgroupRows};
inline constexpr RowVariant kSplittableRows[] = {kSerialRows, kWorkgroupRows, kSubgroupRows, kSplitRows};
inline constexpr RowVariant kHoldingRows[] = {kSerialRows, kWorkgroupRows, kSubgroupRows, kHeldRows};
inline constexpr RowVariant kAllRows[] = {kSerialRows, kWorkgroupRows, kSubgroupRows, kHeldRows, kSplitRows};

// Whether all operands that the kernel declares x4 can be read that way; else they are bound as single
// elements.
bool use_four(const Kernel& kernel, OperandList& operands);
// The type in which values of that type are accumulated.
DType accumulator(DType dtype);

// The dispatch with the team's fragment in place of team_serial.
Dispatch for_team(Dispatch d, const Team& team);

// A kernel with rows, for a team: fills in the spec constants TEAM, HELD and FOUR (whether all operands that
// the kernel declares x4 can be read that way) and the parameter `end`. A task is a row, or part of one if
// the kernel says so.
template <class K>
Dispatch row_dispatch(const Lowering& l, const Team& team, int64_t tasks,
                      const typename K::Operands& operands, typename K::Params params,
                      typename K::Spec spec) {
  OperandList list = operands.list();
  spec.TEAM = to_u32(team.size);
  if constexpr (requires { spec.HELD; }) spec.HELD = to_u32(team.held);
  const bool four = use_four(*K::kernel(), list);
  if constexpr (requires { spec.FOUR; }) spec.FOUR = four;
  params.end = to_u32(tasks);
  return for_team(l.make(K::kernel(), std::move(list), std::as_bytes(std::span(&params, 1)),
                         ceil_div(tasks, team.rows_per_group), spec.list()),
                  team);
}

// Emits the problem with the cheapest row of these tables or, if the device cannot bind all data rows of one
// workgroup, with a workgroup for each data row. False, and nothing emitted, if that is too much as well.
bool emit_rows(Lowering& l, std::string_view op, const RowProblem& p);

// The error when not even the smallest part of a row can be bound.
[[noreturn]] void fail_to_bind(const Caps& caps);

// All of the above for an op with the table kRowVariants. The output may take the memory of an input that
// allow_in_place finds fit.
template <class K>
bool lower_rows(Lowering& l, std::string_view op, RowProblem p, const typename K::Operands& operands,
                const typename K::Params& params, const typename K::Spec& spec) {
  if constexpr (requires(typename K::Spec s) { s.HELD; }) p.may_hold = true;
  p.run = [&](const Team& team) {
    Dispatch d = row_dispatch<K>(l, team, p.rows, operands, params, spec);
    allow_in_place(d);
    return l.rows(d, p.rows, team.rows_per_group);
  };
  return emit_rows(l, op, p);
}

// The length, in elements, of the parts into which rows are cut when they are split.
int64_t split_chunk(const Caps& caps, const RowProblem& p);

}  // namespace rlx
