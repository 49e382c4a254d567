#include "ops/machinery/rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "base/format.h"
#include "kernels/lib.wgsl.h"
#include "kernels/rates.h"

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
          .dtype = rows.dtype,
          .side_by_side = inner.rank() == 0 || inner.strides.back() == 1,
          .passes = passes};
}

std::string RowProblem::key() const {
  return formatted("{} rows{} length {} passes {}{}{}", to_string(dtype), size_class(rows), length, passes,
                   side_by_side ? "" : " strided", split ? " may-split" : "");
}

namespace {

constexpr int64_t kSerialRowsPerGroup = kernels::lib::team_serial::ROWS_PER_GROUP;

int64_t workgroup_team(int64_t length) { return length <= 1024 ? 64 : 256; }

// For `tasks` invocations that each walk `steps` times four elements; `near` if neighbouring invocations read
// neighbouring memory.
double walk_ns(const Rates& r, double tasks, double steps, bool near, const RowProblem& p) {
  return p.passes * steps * (near ? r.step_ns : r.far_step_ns) * std::max(1.0, tasks / r.lanes);
}

// What fewer workgroups than cores cost, as a factor of the time that all cores would take.
double idle_cores(const Rates& r, double groups) { return std::max(1.0, r.cores / groups); }

double serial_ns(const Rates& r, const RowProblem& p) {
  const auto tasks = static_cast<double>(std::max(p.rows, kSerialRowsPerGroup));
  const bool near = !p.side_by_side || p.length < 8;
  return r.dispatch_ns + idle_cores(r, tasks / kSerialRowsPerGroup) *
                             walk_ns(r, tasks, static_cast<double>(p.length) / 4, near, p);
}

double team_ns(const Rates& r, const RowProblem& p, double team, double steps_to_meet, double ns_to_meet) {
  const auto rows = static_cast<double>(p.rows);
  const double steps = std::ceil(static_cast<double>(p.length) / team / 4);
  return r.dispatch_ns + rows * ns_to_meet +
         idle_cores(r, rows) *
             walk_ns(r, rows * team, steps + steps_to_meet * std::log2(team), p.side_by_side, p);
}

// What a CPU takes for the walks of a team, as a multiple of what invocations with rows of their own take for
// theirs: each step finds out whether it is the row's last, barriers make it keep values in memory, and rows
// with large steps are a cache line for each element.
RowProblem team_walks(const Rates& r, RowProblem p, double factor) {
  if (r.cpu) p.passes *= p.side_by_side ? factor : 4 * factor;
  return p;
}

double workgroup_ns(const Rates& r, const RowProblem& problem) {
  const RowProblem p = team_walks(r, problem, 3);
  return team_ns(r, p, static_cast<double>(workgroup_team(p.length)), r.barrier_steps, r.group_ns);
}

double subgroup_ns(const Rates& r, const Caps& caps, const RowProblem& p, double factor = 1.25) {
  return team_ns(r, team_walks(r, p, factor), static_cast<double>(caps.subgroup_max_size), r.exchange_steps,
                 r.subgroup_ns);
}

Team subgroup_team(const Caps& caps, const RowProblem& p) {
  const int64_t lanes = caps.subgroup_max_size;
  if (caps.subgroup_min_size != caps.subgroup_max_size) return {.fragment = "team_subgroup", .size = lanes};
  // A workgroup's start costs a CPU as much as a short row does; but there must be enough of them for all
  // cores.
  constexpr int64_t kMostRows = 8, kGroups = 64;
  const int64_t rows = rates_of(caps).cpu ? std::clamp<int64_t>(p.rows / kGroups, 1, kMostRows) : 1;
  return {.fragment = "team_whole_subgroup", .size = lanes, .rows_per_group = rows};
}

// Fours of a row for each invocation of a subgroup. The kernel's loops over them are written out, so lengths
// share few numbers.
constexpr int64_t kMostHeld = 32;
int64_t held_fours(const Caps& caps, const RowProblem& p) {
  const int64_t fours = ceil_div(p.length, 4 * int64_t{caps.subgroup_max_size});
  return fours <= 4 ? static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(fours))) : round_up(fours, 4);
}

}  // namespace

bool subgroup_applies(const Target& target, const RowProblem&) {
  const Caps& caps = target.caps;
  return caps.subgroups && std::has_single_bit(caps.subgroup_max_size) && caps.subgroup_max_size > 1;
}
bool held_applies(const Target& target, const RowProblem& p) {
  return p.may_hold && subgroup_applies(target, p) && p.length % 4 == 0 && p.length > 0 &&
         held_fours(target.caps, p) <= kMostHeld;
}
bool split_applies(const Target& target, const RowProblem& p) {
  return p.split && p.length >= 8 && ceil_div(p.length, split_chunk(target.caps, p)) > 1;
}

std::vector<Candidate> serial_candidates(const Target& target, const RowProblem& p) {
  return one_candidate(serial_ns(rates_of(target.caps), p));
}

std::vector<Candidate> workgroup_candidates(const Target& target, const RowProblem& p) {
  const double ns = workgroup_ns(rates_of(target.caps), p);
  const auto wanted = static_cast<double>(workgroup_team(p.length));
  return {{ns * misfit(64, wanted), {{"TEAM", 64}}}, {ns * misfit(256, wanted), {{"TEAM", 256}}}};
}

std::vector<Candidate> subgroup_candidates(const Target& target, const RowProblem& p) {
  return one_candidate(subgroup_ns(rates_of(target.caps), target.caps, p));
}

std::vector<Candidate> held_candidates(const Target& target, const RowProblem& p) {
  const Rates r = rates_of(target.caps);
  RowProblem held = p;
  held.length = 4 * held_fours(target.caps, p) * int64_t{target.caps.subgroup_max_size};
  // Measured on a CPU only. The caches of GPUs have what is read again.
  return one_candidate(subgroup_ns(r, target.caps, held, 0.6) * (r.cpu ? 1 : 1.05));
}

std::vector<Candidate> split_candidates(const Target& target, const RowProblem& p) {
  const int64_t chunk = split_chunk(target.caps, p);
  RowProblem first{.rows = p.rows * ceil_div(p.length, chunk),
                   .length = chunk,
                   .side_by_side = p.side_by_side,
                   .passes = p.passes};
  RowProblem second{
      .rows = p.rows, .length = ceil_div(p.length, chunk), .side_by_side = false, .passes = p.passes};
  const Rates r = rates_of(target.caps);
  const auto best = [&](const RowProblem& q) {
    double ns = std::min(serial_ns(r, q), workgroup_ns(r, q));
    if (subgroup_applies(target, q)) ns = std::min(ns, subgroup_ns(r, target.caps, q));
    return ns;
  };
  return one_candidate(best(first) + best(second));
}

int64_t split_chunk(const Caps& caps, const RowProblem& p) {
  // Enough tasks to keep the device busy, each for a team or a single invocation, but none too short to be
  // worth its place in scratch memory.
  const Rates r = rates_of(caps);
  const double busy = r.cpu ? 256 : p.side_by_side ? r.lanes / kSerialRowsPerGroup : r.lanes;
  const int64_t parts = std::max<int64_t>(1, static_cast<int64_t>(busy) / std::max<int64_t>(1, p.rows));
  return round_up(std::max<int64_t>(ceil_div(p.length, parts), p.side_by_side ? 256 : 16), 4);
}

bool run_serial(Lowering&, const RowProblem& p, const Candidate&) {
  return p.run({.fragment = "team_serial", .rows_per_group = kSerialRowsPerGroup});
}
bool run_workgroup(Lowering&, const RowProblem& p, const Candidate& c) {
  return p.run({.fragment = "team_workgroup", .size = c.at("TEAM")});
}
bool run_subgroup(Lowering& l, const RowProblem& p, const Candidate&) {
  return p.run(subgroup_team(l.caps(), p));
}
bool run_held(Lowering& l, const RowProblem& p, const Candidate&) {
  Team team = subgroup_team(l.caps(), p);
  team.held = held_fours(l.caps(), p);
  return p.run(team);
}
bool run_split(Lowering&, const RowProblem& p, const Candidate&) { return p.split(); }

bool use_four(const Kernel& kernel, OperandList& operands) {
  bool four = true;
  for (size_t i = 0; i < operands.size(); ++i) four &= !kernel.operands[i].x4 || rows_by_four(operands[i]);
  for (Operand& o : operands) o.x4 = four;
  return four;
}

DType accumulator(DType dtype) {
  if (dtype == DType::i64) return dtype;
  return is_float(dtype) ? DType::f32 : is_signed_integer(dtype) ? DType::i32 : DType::u32;
}

bool emit_rows(Lowering& l, std::string_view op, const RowProblem& p) {
  return l.choose(op, kAllRows, p).make(l, p) || l.choose(op, kWorkgroupRows, p).make(l, p);
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
