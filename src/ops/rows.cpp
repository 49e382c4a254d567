#include "ops/rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace rlx {

Operand as_rows(const Operand& o, const std::vector<int64_t>& inner) {
  std::vector<int64_t> order;
  for (int64_t axis = 0; axis < o.view.rank(); ++axis) {
    if (!std::ranges::contains(inner, axis)) order.push_back(axis);
  }
  const auto outer = static_cast<int64_t>(order.size());
  order.insert(order.end(), inner.begin(), inner.end());
  return o.with_view(o.view.permute(order), outer);
}

int64_t row_count(const Operand& rows) { return rows.view.slice_axes(0, rows.outer_rank).elements(); }
int64_t row_length(const Operand& rows) {
  return rows.view.slice_axes(rows.outer_rank, rows.view.rank()).elements();
}

namespace {
View inner_axes(const Operand& rows) {
  return rows.view.slice_axes(rows.outer_rank, rows.view.rank()).coalesced();
}
}  // namespace

bool rows_by_four(const Operand& rows) {
  if (!rows.present()) return true;
  const View inner = inner_axes(rows);
  if (inner.rank() != 1 || inner.strides[0] != 1 || rows.view.offset % 4 != 0) return false;
  const View outer = rows.view.slice_axes(0, rows.outer_rank).coalesced();
  return std::ranges::all_of(outer.strides, [](int64_t s) { return s % 4 == 0; });
}

std::vector<int64_t> axes_from(int64_t axis, int64_t rank) {
  std::vector<int64_t> axes(static_cast<size_t>(rank - axis));
  std::iota(axes.begin(), axes.end(), axis);
  return axes;
}

RowProblem row_problem(const Operand& rows, double passes) {
  const View inner = inner_axes(rows);
  return {.rows = row_count(rows),
          .length = row_length(rows),
          .side_by_side = inner.rank() == 0 || inner.strides.back() == 1,
          .passes = passes};
}

namespace {

constexpr double kDispatch = 5000;  // nanoseconds

int64_t workgroup_team(int64_t length) { return length <= 1024 ? 64 : 256; }

// A GPU: `lanes` invocations run at once, each step waits for memory, and a warp whose lanes read far apart
// moves a whole line of the cache for each of them.
double gpu_cost(double tasks, double steps, bool coalesced, const RowProblem& p) {
  constexpr double lanes = 32768;
  return kDispatch + p.passes * steps * (coalesced ? 10 : 60) * std::max(1.0, tasks / lanes);
}

}  // namespace

bool always_applies(const Caps&, const RowProblem&) { return true; }
bool subgroup_applies(const Caps& caps, const RowProblem&) {
  return caps.subgroups && std::has_single_bit(caps.subgroup_max_size) && caps.subgroup_max_size > 1;
}
bool split_applies(const Caps& caps, const RowProblem& p) {
  return p.may_split && p.length >= 8 && ceil_div(p.length, split_chunk(caps, p)) > 1;
}

double serial_cost(const Caps& caps, const RowProblem& p) {
  const auto rows = static_cast<double>(p.rows);
  const auto length = static_cast<double>(p.length);
  if (caps.software) return kDispatch + p.passes * std::max(rows, 64.0) * length;
  return gpu_cost(rows, length / 4, !p.side_by_side || p.length < 8, p);
}

double workgroup_cost(const Caps& caps, const RowProblem& p) {
  const auto team = static_cast<double>(workgroup_team(p.length));
  const auto rows = static_cast<double>(p.rows);
  const double steps = std::ceil(static_cast<double>(p.length) / team / 4);
  if (caps.software) return kDispatch + rows * (10000 + p.passes * 4 * team * steps);
  return gpu_cost(rows * team, steps + 4 * std::log2(team), p.side_by_side, p);
}

double subgroup_cost(const Caps& caps, const RowProblem& p) {
  const auto team = static_cast<double>(caps.subgroup_max_size);
  const auto rows = static_cast<double>(p.rows);
  const double steps = std::ceil(static_cast<double>(p.length) / team / 4);
  if (caps.software) return kDispatch + rows * (1000 + p.passes * 4 * team * steps);
  return gpu_cost(rows * team, steps + std::log2(team), p.side_by_side, p);
}

double split_cost(const Caps& caps, const RowProblem& p) {
  const int64_t chunk = split_chunk(caps, p);
  RowProblem first = p;
  RowProblem second = p;
  first.rows = p.rows * ceil_div(p.length, chunk);
  first.length = chunk;
  second.length = ceil_div(p.length, chunk);
  second.side_by_side = false;
  const auto best = [&](const RowProblem& q) {
    return std::min(serial_cost(caps, q), workgroup_cost(caps, q));
  };
  return best(first) + best(second);
}

int64_t split_chunk(const Caps& caps, const RowProblem& p) {
  // Enough tasks to keep the device busy, but none too short to be worth its place in scratch memory.
  const int64_t wanted_tasks = caps.software ? 256 : p.side_by_side ? 512 : 32768;
  const int64_t parts = std::max<int64_t>(1, wanted_tasks / std::max<int64_t>(1, p.rows));
  return round_up(std::max<int64_t>(ceil_div(p.length, parts), p.side_by_side ? 256 : 16), 4);
}

Team team_for(std::string_view variant, int64_t length, const Caps& caps) {
  if (variant == "workgroup") return {"team_workgroup", workgroup_team(length), 1};
  if (variant == "subgroup") return {"team_subgroup", caps.subgroup_max_size, 1};
  return {"team_serial", 1, kernels::lib::team_serial::ROWS_PER_GROUP};
}

bool use_four(const Kernel& kernel, std::vector<Operand>& operands) {
  bool four = true;
  for (size_t i = 0; i < operands.size(); ++i) four &= !kernel.operands[i].x4 || rows_by_four(operands[i]);
  for (Operand& o : operands) o.x4 = four;
  return four;
}

DType accumulator(DType dtype) {
  return is_float(dtype) ? DType::f32 : is_signed_integer(dtype) ? DType::i32 : DType::u32;
}

bool emit_rows(Lowering& l, std::string_view variant, const RowProblem& p,
               const std::function<Dispatch(const Team&)>& make) {
  const Team team = team_for(variant, p.length, l.caps());
  if (l.rows(make(team), p.rows, team.rows_per_group)) return true;
  if (team.rows_per_group == 1) return false;
  const Team one_row = team_for("workgroup", p.length, l.caps());
  return l.rows(make(one_row), p.rows, one_row.rows_per_group);
}

void fail_to_bind(const Caps& caps) {
  fail(ErrorKind::unsupported,
       "the device binds at most {} buffers of {} bytes in a shader, which is too little for any part of it",
       caps.max_storage_buffers, caps.max_binding_bytes);
}

Dispatch for_team(Dispatch d, const Team& team) {
  d.kernel = with_fragment(*d.kernel, "team_serial", team.fragment);
  return d;
}

}  // namespace rlx
