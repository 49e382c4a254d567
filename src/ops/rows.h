// What ops along rows share: a tensor's axes in two groups, and kernels that give each row a team of
// invocations (kernels/lib/team_*.wgsl).
#pragma once

#include <functional>
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

// What the choice of a team depends on.
struct RowProblem {
  int64_t rows = 0;
  int64_t length = 0;
  bool side_by_side = true;  // neighbours in a row are neighbours in memory
  double passes = 1;         // how often a row is walked
  bool may_split = false;    // rows can be cut into parts that are joined by a second dispatch
};
RowProblem row_problem(const Operand& rows, double passes);

// The rows of the variant tables of all these ops.
bool always_applies(const Caps& caps, const RowProblem& p);
bool subgroup_applies(const Caps& caps, const RowProblem& p);
bool split_applies(const Caps& caps, const RowProblem& p);
double serial_cost(const Caps& caps, const RowProblem& p);
double workgroup_cost(const Caps& caps, const RowProblem& p);
double subgroup_cost(const Caps& caps, const RowProblem& p);
double split_cost(const Caps& caps, const RowProblem& p);
inline constexpr Variant<RowProblem> kRowVariants[] = {
    {"serial", always_applies, serial_cost},
    {"workgroup", always_applies, workgroup_cost},
    {"subgroup", subgroup_applies, subgroup_cost},
};

// Whether all operands that the kernel declares x4 can be read that way; else they are bound as single
// elements.
bool use_four(const Kernel& kernel, std::vector<Operand>& operands);
// The type in which sums of that type are added up.
DType accumulator(DType dtype);

// How the variant of that name works.
struct Team {
  std::string_view fragment;
  int64_t size = 1;  // invocations per row
  int64_t rows_per_group = 1;
};
Team team_for(std::string_view variant, int64_t length, const Caps& caps);
// The kernel with the fragment of that team in place of team_serial.
Dispatch for_team(Dispatch d, const Team& team);

// A kernel with rows, for a team: fills in the spec constants TEAM and FOUR (whether all operands that the
// kernel declares x4 can be read that way) and the parameter `end`. A task is a row, or part of one if the
// kernel says so.
template <class K>
Dispatch row_dispatch(const Lowering& l, const Team& team, int64_t tasks,
                      const typename K::Operands& operands, typename K::Params params,
                      typename K::Spec spec) {
  std::vector<Operand> list = operands.list();
  spec.TEAM = to_u32(team.size);
  spec.FOUR = use_four(*K::kernel(), list);
  params.end = to_u32(tasks);
  return for_team(l.make(K::kernel(), std::move(list), std::as_bytes(std::span(&params, 1)),
                         ceil_div(tasks, team.rows_per_group), spec.list()),
                  team);
}

// Emits what `make` returns for the team of that variant, or for a team of a workgroup, which has one row, if
// a group of rows is more than the device can bind. If that is too much as well, false, and nothing emitted.
bool emit_rows(Lowering& l, std::string_view variant, const RowProblem& p,
               const std::function<Dispatch(const Team&)>& make);

// The error when not even the smallest part of a row can be bound.
[[noreturn]] void fail_to_bind(const Caps& caps);

// All of the above for an op with the table kRowVariants. The output may take the memory of an input that
// allow_in_place finds fit.
template <class K>
bool lower_rows(Lowering& l, std::string_view op, const RowProblem& p, const typename K::Operands& operands,
                const typename K::Params& params, const typename K::Spec& spec) {
  return emit_rows(l, l.choose(op, kRowVariants, p), p, [&](const Team& team) {
    Dispatch d = row_dispatch<K>(l, team, p.rows, operands, params, spec);
    allow_in_place(d);
    return d;
  });
}
// The length, in elements, of the parts into which rows are cut when they are split.
int64_t split_chunk(const Caps& caps, const RowProblem& p);

}  // namespace rlx
