// How the steps of a recurrence become dispatches: all in one, one for each, or products of the engine.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/format.h"
#include "kernels/binder.h"
#include "kernels/dispatch_limit.h"
#include "kernels/lowering.h"
#include "kernels/rates.h"
#include "kernels/recurrence.wgsl.h"
#include "ops/elementwise/elementwise.h"
#include "ops/linear_algebra/matmul.h"
#include "ops/machinery/fill.h"
#include "ops/rearrange/contiguous.h"
#include "ops/recurrent/recurrence.h"

namespace rlx {

namespace {

using Kernel = kernels::recurrence;

// --- The kernel ---

// The activations of the cell as functions, and the numbers in them as members of Params.
struct Activations {
  std::string text;
  std::string members;
  std::vector<uint32_t> words;
};

Activations activation_code(const Recurrence& op) {
  Activations out;
  const int64_t directions = op.a.directions();
  std::vector<std::vector<Expr>> functions;
  for (int64_t d = 0; d < directions; ++d)
    functions.push_back(activations_of(Recurrence::kName, op.cell, op.a, d));
  for (size_t i = 0; i < 3; ++i) {
    out.text += formatted("fn activation_{}(d: u32, x: f32) -> f32 {{\n", i);
    for (size_t d = functions.size(); d-- > 0;) {
      if (i >= functions[d].size()) {
        if (d == 0) out.text += "  return x;\n";
        continue;
      }
      const Expr& expr = functions[d][i];
      if (d > 0 && expr.untyped() == functions[0][i].untyped()) continue;
      const ExprCode code = generate(expr, {"x"}, "t", out.words.size());
      const std::string body = formatted("{}  return {};\n", code.statements, code.result);
      out.text += d > 0 ? formatted("  if (d == {}u) {{\n{}  }}\n", d, body) : body;
      for (const std::string& m : code.params) out.members += formatted("  {},\n", m);
      out.words.insert(out.words.end(), code.words.begin(), code.words.end());
    }
    out.text += "}\n";
  }
  return out;
}

KernelPtr kernel_with(const Activations& activations) {
  std::string text = Kernel::kernel()->text;
  const auto replace = [&](std::string_view from, const std::string& to) {
    const size_t at = text.find(from);
    check(at != std::string::npos, "the kernel has what lowering replaces");
    text.replace(at, from.size(), to);
  };
  replace("//@ use recurrent_activations\n", "\n");
  replace("  clip: f32,\n", "  clip: f32,\n" + activations.members);
  return parse_kernel(text + activations.text);
}

// --- The problem ---

struct Problem {
  const Recurrence* op;
  RecurrentSizes z;
  Operand gates;  // [D, rows, steps, gates, units]
  Operand r, s;   // as the op has them
  Operand extra;  // [D, gates, units]
  Operand lengths;
  Operand h0, c0;  // [D, rows, size or units]
  Operand y;       // [D, rows, steps, size]
  Operand h, c;    // as h0 and c0
  KernelPtr kernel;
  std::vector<uint32_t> words;  // the activations' numbers

  int64_t matrix() const {  // weights of a direction
    return op->first_gates() * z.units * z.size + (op->has_second() ? z.units * z.size : 0);
  }
  double flops() const {
    return 2.0 * static_cast<double>(z.directions * z.rows * z.steps) * static_cast<double>(matrix());
  }
  std::string key() const {
    return formatted("{} cell{} d{} rows{} steps{} units{} size{}", to_string(gates.dtype),
                     static_cast<int>(op->cell), z.directions, size_class(z.rows), size_class(z.steps),
                     z.units, z.size);
  }
};

Problem make_problem(const Recurrence& op, const Lowering& l) {
  const bool batch_first = op.a.batch_first;
  const auto permuted = [](const Operand& o, const Dims& order) {
    return o.present() ? o.with_view(o.view.permute(order)) : o;
  };
  const Dims state = batch_first ? Dims{1, 0, 2} : Dims{0, 1, 2};
  const bool lstm = op.cell == RecurrentCell::lstm;
  Activations activations = activation_code(op);
  Problem p{
      .op = &op,
      .z = {},
      .gates = permuted(l.in(Recurrence::kGates), batch_first ? Dims{2, 0, 1, 3, 4} : Dims{2, 1, 0, 3, 4}),
      .r = l.in(Recurrence::kR),
      .s = l.optional_in(Recurrence::kS),
      .extra = l.optional_in(Recurrence::kExtra),
      .lengths = l.optional_in(Recurrence::kLengths),
      .h0 = permuted(l.optional_in(Recurrence::kH0), state),
      .c0 = permuted(l.optional_in(Recurrence::kC0), state),
      .y = permuted(l.out(0), batch_first ? Dims{2, 0, 1, 3} : Dims{1, 2, 0, 3}),
      .h = permuted(l.out(1), state),
      .c = lstm ? permuted(l.out(2), state) : Operand{},
      .kernel = kernel_with(activations),
      .words = std::move(activations.words)};
  const Dims& gates = p.gates.view.dims;
  p.z = {gates[0], gates[2], gates[1], gates[4], p.h.view.dims[2]};
  return p;
}

uint32_t stride(const View& v, int64_t axis) {
  return static_cast<uint32_t>(to_i32(v.strides[static_cast<size_t>(axis)]));
}

// Whether fours along the last axis begin at multiples of four.
bool quads(const View& v) {
  if (v.strides.back() != 1 || v.dims.back() % 4 != 0 || v.offset % 4 != 0) return false;
  return std::all_of(v.strides.begin(), v.strides.end() - 1, [](int64_t s) { return s % 4 == 0; });
}

// --- Dispatches ---

// What a dispatch makes: all steps (resident), or one or both products of one step.
struct Launch {
  bool resident = false;
  bool first = true, second = false;
  bool summed = false;
  int64_t rows = 1, line = 8, parts = 1, quads = 1;  // constants of the kernel
  int64_t h_tile = 1, u_tile = 0;
  int64_t step = 0, step_end = 1;
  Operand gates, r, s, extra, lengths, h0, c0, y, h, c, u;
};

int64_t fours(int64_t n) { return ceil_div(n, 4); }

Dispatch make_dispatch(const Lowering& l, const Problem& p, Launch a) {
  const bool lstm = p.op->cell == RecurrentCell::lstm;
  Kernel::Spec spec;
  spec.CELL = static_cast<uint32_t>(p.op->cell == RecurrentCell::rnn    ? Kernel::CELL_RNN
                                    : p.op->cell == RecurrentCell::lstm ? Kernel::CELL_LSTM
                                    : p.op->cell == RecurrentCell::gru  ? Kernel::CELL_GRU
                                                                        : Kernel::CELL_GRU_AFTER);
  spec.GATES = to_u32(p.op->first_gates());
  spec.RESIDENT = a.resident;
  spec.FIRST = a.first;
  spec.SECOND = a.second;
  spec.SUMMED = a.summed;
  spec.ROWS = to_u32(a.rows);
  spec.LINE = to_u32(a.line);
  spec.PARTS = to_u32(a.parts);
  spec.QUADS = to_u32(a.quads);
  spec.H_TILE = to_u32(a.h_tile);
  spec.U_TILE = to_u32(a.u_tile);
  spec.CLIPPED = p.op->a.clip.has_value();
  spec.INPUT_FORGET = p.op->a.input_forget;
  spec.HELD = held_kind(p.y.dtype);
  // Axes are [D, rows, (steps,) gates, units] and [D, rows, (steps,) size].
  const View& gates = a.gates.present() ? a.gates.view : p.gates.view;
  const int64_t rank = gates.rank();
  spec.GATES4 = quads(gates);
  spec.Y4 = a.y.present() && quads(a.y.view);
  const int64_t units = gates.dims.back();
  const int64_t size = a.y.present() ? a.y.view.dims.back() : p.z.size;
  const int64_t rows = a.first ? gates.dims[1] : a.h.view.dims[1];
  const int64_t made = a.first && a.second ? std::max(units, size) : a.first ? units : size;
  const int64_t row_tiles = ceil_div(rows, a.rows);
  const int64_t quad_tiles = ceil_div(fours(made), a.line * a.quads);

  Kernel::Params params;
  params.rows = to_u32(rows);
  params.row_tiles = to_u32(row_tiles);
  params.quad_tiles = to_u32(quad_tiles);
  params.quads = to_u32(a.quads);
  params.units = to_u32(units);
  params.size = to_u32(size);
  params.first_k = to_u32(fours(p.z.size));
  params.second_k = to_u32(fours(p.z.units));
  params.step = to_u32(a.step);
  params.step_end = to_u32(a.step_end);
  params.steps = to_u32(p.z.steps);
  params.backward = p.op->a.direction == RecurrentDirection::reverse ? 0 : 1;
  params.gates_time = rank == 5 ? stride(gates, 2) : 0;
  params.gates_gate = stride(gates, rank - 2);
  params.gates_unit = stride(gates, rank - 1);
  params.r_k = a.r.present() ? stride(a.r.view, 1) : 0;
  params.r_gate = a.r.present() ? stride(a.r.view, 2) : 0;
  params.s_k = a.s.present() ? stride(a.s.view, 1) : 0;
  params.extra_gate = a.extra.present() ? stride(a.extra.view, 1) : 0;
  params.u_row = a.u.present() ? stride(a.u.view, 2) : 0;
  params.y_time = a.y.present() && a.y.view.rank() == 4 ? stride(a.y.view, 2) : 0;
  params.clip = static_cast<float>(p.op->a.clip.value_or(0));
  std::vector<uint32_t> words(sizeof params / sizeof(uint32_t));
  std::memcpy(words.data(), &params, sizeof params);
  words.insert(words.end(), p.words.begin(), p.words.end());

  a.gates.outer_rank = 2;
  a.gates.x4 = spec.GATES4;
  a.y.outer_rank = 2;
  a.y.x4 = spec.Y4;
  a.r.outer_rank = a.s.outer_rank = a.extra.outer_rank = 1;
  for (Operand* o : {&a.h0, &a.c0, &a.h, &a.c, &a.u}) o->outer_rank = 2;
  if (!lstm) a.c = {};
  const Kernel::Operands operands{.gates = a.gates,
                                  .r = a.r,
                                  .s = a.s,
                                  .extra = a.extra,
                                  .lengths = a.lengths,
                                  .h0 = a.h0,
                                  .c0 = a.c0,
                                  .y = a.y,
                                  .h = a.h,
                                  .c = a.c,
                                  .u = a.u};
  const int64_t directions = a.h.present() ? a.h.view.dims[0] : gates.dims[0];
  return l.make(p.kernel, operands.list(), std::as_bytes(std::span(words)),
                directions * row_tiles * quad_tiles, spec.list());
}

// --- All steps in one dispatch ---

// The widest layer of the cell, in fours.
int64_t width(const Problem& p) { return fours(std::max(p.z.units, p.z.size)); }

// Workgroup memory for `rows` rows of the batch.
int64_t resident_bytes(const Problem& p, int64_t rows, int64_t line, int64_t parts) {
  const int64_t tile = fours(p.z.size) + (p.op->has_second() ? fours(p.z.units) : 0);
  const int64_t kept = 2 * round_up(width(p), line);
  return 16 * (rows * (tile + kept) + std::max<int64_t>((parts - 1) * p.op->first_gates() * rows * line, 1));
}

bool resident_applies(const Target& target, const Problem& p) {
  return resident_bytes(p, 1, 4, 1) <= target.caps.max_workgroup_bytes;
}

// Constants of the kernel: rows of the batch for each workgroup, and its lanes.
struct Tile {
  int64_t rows, line, parts;
};

// The time of all steps without that of dispatches. On a CPU the lanes of a workgroup take turns, so that a
// vector of them does best: measured, with the time of all cores. On a GPU a step takes as long as the reads
// of a lane, one after the other.
double steps_ns(const Rates& r, const Problem& p, const Tile& t, int64_t quads, int64_t groups) {
  const auto real = [](int64_t n) { return static_cast<double>(n); };
  if (r.cpu) {
    const double share = t.rows == 1 ? 0.28 : t.rows == 4 ? 0.8 : 0.45;
    const double used = real(p.z.rows) / real(round_up(p.z.rows, t.rows));
    return compute_ns(r, p.flops(), {.cpu = share, .gpu = 1}) / used * misfit(real(t.line), r.lanes) *
           misfit(real(t.parts), 1);
  }
  const double reads = real(p.matrix()) / real(4 * width(p)) * real(quads) / real(t.parts);
  const double chain =
      reads * (0.75 + 0.25 * real(t.rows)) + r.barrier_steps * (2 + std::log2(real(t.parts)));
  return real(p.z.steps) * r.step_ns * chain * std::max(1.0, real(groups * t.line * t.parts) / r.lanes);
}

// Calls f with every tile that a workgroup can have.
void for_each_tile(const Target& target, const Problem& p, const std::function<void(const Tile&)>& f) {
  for (const int64_t rows : {1, 2, 4, 8}) {
    if (rows > 1 && rows / 2 >= p.z.rows) break;
    for (const int64_t line : {4, 8, 16, 32, 64, 128, 256}) {
      if (line > 4 && line / 2 >= width(p)) break;
      for (const int64_t parts : {1, 2, 4, 8, 16, 32}) {
        if (line * parts <= static_cast<int64_t>(target.caps.max_invocations_per_workgroup))
          f({rows, line, parts});
      }
    }
  }
}

Candidate candidate(double ns, const Tile& t) {
  return {ns, {{"ROWS", to_u32(t.rows)}, {"LINE", to_u32(t.line)}, {"PARTS", to_u32(t.parts)}}};
}

std::vector<Candidate> resident_candidates(const Target& target, const Problem& p) {
  const Rates r = rates_of(target.caps);
  std::vector<Candidate> out;
  for_each_tile(target, p, [&](const Tile& t) {
    // Parts meet once for each four of units that a lane makes.
    if (t.parts > 1 && t.line < width(p)) return;
    if (resident_bytes(p, t.rows, t.line, t.parts) > target.caps.max_workgroup_bytes) return;
    const int64_t groups = p.z.directions * ceil_div(p.z.rows, t.rows);
    out.push_back(candidate(r.dispatch_ns + steps_ns(r, p, t, ceil_div(width(p), t.line), groups), t));
  });
  return out;
}

bool make_resident(Lowering& l, const Problem& p, const Candidate& c) {
  Launch a{.resident = true,
           .second = p.op->has_second(),
           .rows = c.at("ROWS"),
           .line = c.at("LINE"),
           .parts = c.at("PARTS"),
           .quads = ceil_div(width(p), c.at("LINE")),
           .h_tile = fours(p.z.size),
           .u_tile = p.op->has_second() ? fours(p.z.units) : 0,
           .step_end = p.z.steps,
           .gates = p.gates,
           .r = p.r,
           .s = p.s,
           .extra = p.extra,
           .lengths = p.lengths,
           .h0 = p.h0,
           .c0 = p.c0,
           .y = p.y,
           .h = p.h,
           .c = p.c,
           .u = {}};
  const Dispatch d = make_dispatch(l, p, std::move(a));
  if (!fits(d, l.caps())) return false;
  l.emit(d);
  return true;
}

// --- A dispatch for each step, or several ---

void lower_convert(Lowering& l, const Operand& x, const Operand& y) {
  lower_expr(l, Expr::parse(formatted("cast_{}($0)", to_string(y.dtype)), {x.dtype}), {x}, y);
}

// y, a whole tensor, becomes x, or zero if x is absent.
void begin_state(Lowering& l, const Operand& x, const Operand& y) {
  const Operand flat = y.with_view(View::contiguous({y.view.elements()}));
  if (!x.present()) return lower_fill(l, flat, 0);
  if (x.dtype == y.dtype) return lower_copy_into(l, x, y);
  const Operand converted = l.scratch(y.dtype, x.view.dims);
  lower_convert(l, x, converted);
  lower_copy_into(l, converted, y);
}

// A tensor laid out as `like`.
Operand scratch_like(Lowering& l, DType dtype, const Operand& like) {
  return l.scratch(dtype, {like.view.elements()}).with_view(like.view);
}

// What the directions read or write in a step: [D, rows, steps, ...] without the steps.
Operand at_step(const Problem& p, const Operand& o, int64_t step) {
  const bool backward = p.op->a.direction == RecurrentDirection::reverse;
  const int64_t last = p.z.steps - 1;
  View v = o.view;
  const int64_t time = v.strides[2];
  v.offset += time * (backward ? last - step : step);
  if (p.z.directions == 2) v.strides[0] += time * (last - 2 * step);
  v.dims.erase(v.dims.begin() + 2);
  v.strides.erase(v.strides.begin() + 2);
  return o.with_view(std::move(v));
}

// The states of variants that make step after step.
struct States {
  Operand h[2];  // before and after a step, in turns; the same if steps change it in place
  Operand c;     // f32
  Operand u;     // [D, rows, 2, units]: what the second product reads, and the update gate of a GRU
};

States begin_states(Lowering& l, const Problem& p, bool in_place) {
  States s;
  // The last step ends in the output.
  const bool odd = p.z.steps % 2 != 0;
  s.h[0] = in_place || !odd ? p.h : scratch_like(l, p.h.dtype, p.h);
  s.h[1] = in_place || odd ? p.h : scratch_like(l, p.h.dtype, p.h);
  begin_state(l, p.h0, s.h[0]);
  if (p.c.present()) {
    s.c = p.c.dtype == DType::f32 ? p.c : scratch_like(l, DType::f32, p.c);
    begin_state(l, p.c0, s.c);
  }
  if (p.op->has_second())
    s.u = l.scratch(DType::f32, {p.z.directions, p.z.rows, 2, padded_to_fours(p.z.units)});
  return s;
}

void end_states(Lowering& l, const Problem& p, const States& s) {
  if (!p.c.present() || s.c.storage == p.c.storage) return;
  const View flat = View::contiguous({p.c.view.elements()});
  lower_convert(l, s.c.with_view(flat), p.c.with_view(flat));
}

// The first or second product of a step. Even steps read the first of the two states.
Launch step_launch(const Problem& p, const States& states, int64_t step, bool second) {
  const auto before = static_cast<size_t>(step % 2);
  const bool in_place = states.h[0].storage == states.h[1].storage;
  const bool two = p.op->has_second();
  Launch a{.first = !second,
           .second = second,
           .step = step,
           .step_end = step + 1,
           .gates = at_step(p, p.gates, step),
           .r = second ? Operand{} : p.r,
           .s = second ? p.s : Operand{},
           .extra = second ? Operand{} : p.extra,
           .lengths = p.lengths,
           .h0 = in_place ? Operand{} : states.h[before],
           .c0 = {},
           .y = two && !second ? Operand{} : at_step(p, p.y, step),
           .h = states.h[1 - before],
           .c = second ? Operand{} : states.c,
           .u = states.u};
  return a;
}

constexpr int64_t kStepTile = 64;  // fours of a row that a workgroup reads at once

int64_t step_bytes(const Problem& p, int64_t rows, int64_t line, int64_t parts) {
  const int64_t tile = std::min(kStepTile, std::max(fours(p.z.size), fours(p.z.units)));
  return 16 *
         (rows * (tile + 2 * line) + std::max<int64_t>((parts - 1) * p.op->first_gates() * rows * line, 1));
}

// Of kernels that make a step each.
int64_t launches_of(const Problem& p) { return p.z.steps * (p.op->has_second() ? 2 : 1); }

// A plan cannot have a dispatch for each step of a long sequence; the resident kernel has them all in one.
bool steps_apply(const Target& target, const Problem& p) {
  constexpr int64_t kMostLaunches = 4096;
  return launches_of(p) <= kMostLaunches || !resident_applies(target, p);
}

std::vector<Candidate> steps_candidates(const Target& target, const Problem& p) {
  const Rates r = rates_of(target.caps);
  const auto launches = static_cast<double>(launches_of(p));
  std::vector<Candidate> out;
  for_each_tile(target, p, [&](const Tile& t) {
    if (step_bytes(p, t.rows, t.line, t.parts) > target.caps.max_workgroup_bytes) return;
    const int64_t groups = p.z.directions * ceil_div(p.z.rows, t.rows) * ceil_div(width(p), t.line);
    out.push_back(candidate(launches * r.dispatch_ns + 1.2 * steps_ns(r, p, t, 1, groups), t));
  });
  return out;
}

bool make_steps(Lowering& l, const Problem& p, const Candidate& c) {
  const bool two = p.op->has_second();
  const auto dispatch = [&](const States& states, int64_t step, bool second) {
    Launch a = step_launch(p, states, step, second);
    a.rows = c.at("ROWS");
    a.line = c.at("LINE");
    a.parts = c.at("PARTS");
    a.h_tile = std::min(kStepTile, second ? fours(p.z.units) : fours(p.z.size));
    return make_dispatch(l, p, std::move(a));
  };
  // Memory that is not taken before it is known that all of this can be bound.
  int32_t next = std::numeric_limits<int32_t>::max();
  const auto unplaced = [&](DType dtype, const View& view) {
    return Operand{.storage = next--, .dtype = dtype, .view = view};
  };
  States like{.h = {two ? p.h : unplaced(p.h.dtype, p.h.view), p.h}, .c = {}, .u = {}};
  if (p.c.present()) like.c = unplaced(DType::f32, p.c.view);
  if (two)
    like.u =
        unplaced(DType::f32, View::contiguous({p.z.directions, p.z.rows, 2, padded_to_fours(p.z.units)}));
  check_dispatch_count(0, launches_of(p));
  for (int64_t step = 0; step < p.z.steps; ++step) {
    if (!fits(dispatch(like, step, false), l.caps())) return false;
    if (two && !fits(dispatch(like, step, true), l.caps())) return false;
  }
  const States states = begin_states(l, p, two);
  for (int64_t step = 0; step < p.z.steps; ++step) {
    l.emit(dispatch(states, step, false));
    if (two) l.emit(dispatch(states, step, true));
  }
  end_states(l, p, states);
  return true;
}

// --- Products of the engine, and a kernel for the rest ---

std::vector<Candidate> products_candidates(const Target& target, const Problem& p) {
  const Rates r = rates_of(target.caps);
  const auto launches = static_cast<double>(p.z.steps * (p.op->has_second() ? 4 : 2));
  return one_candidate(launches * r.dispatch_ns +
                       compute_ns(r, p.flops(), {.cpu = p.z.rows == 1 ? 0.15 : 0.5, .gpu = 0.1}));
}

// The part of a launch along an axis: 0 directions, 1 rows, 2 units.
Launch slice(Launch a, int64_t axis, int64_t begin, int64_t length) {
  const auto cut = [&](Operand& o, int64_t of) {
    if (o.present()) o.view = o.view.slice(of, begin, length);
  };
  const auto last = [](const Operand& o) { return o.view.rank() - 1; };
  for (Operand* o : {&a.gates, &a.r, &a.s, &a.y, &a.h, &a.c, &a.u}) cut(*o, axis < 2 ? axis : last(*o));
  if (axis != 1) cut(a.extra, axis == 0 ? 0 : last(a.extra));
  if (axis == 1) cut(a.lengths, 0);
  return a;
}

// Halves a launch that has its sums until it can be bound.
void emit_parts(Lowering& l, const Problem& p, const Launch& a) {
  const Dispatch d = make_dispatch(l, p, a);
  const View& lines = a.h.view;  // [D, rows, size]
  const int64_t fours_left = fours(a.first ? a.gates.view.dims.back() : lines.dims[2]);
  const int64_t axis = lines.dims[0] > 1 ? 0 : lines.dims[1] > 1 ? 1 : 2;
  if (fits(d, l.caps()) || (axis == 2 && fours_left == 1)) return l.emit(d);
  const int64_t length =
      axis < 2 ? lines.dims[static_cast<size_t>(axis)] : (a.first ? a.gates.view.dims.back() : lines.dims[2]);
  const int64_t half = axis < 2 ? length / 2 : 4 * (fours_left / 2);
  emit_parts(l, p, slice(a, axis, 0, half));
  emit_parts(l, p, slice(a, axis, half, length - half));
}

bool make_products(Lowering& l, const Problem& p, const Candidate&) {
  const bool two = p.op->has_second();
  const int64_t first_gates = p.op->first_gates();
  const States states = begin_states(l, p, true);
  const RecurrentSizes& z = p.z;
  const Operand first = l.scratch(DType::f32, {z.directions, z.rows, first_gates, padded_to_fours(z.units)});
  const Operand second =
      two ? l.scratch(DType::f32, {z.directions, z.rows, padded_to_fours(z.size)}) : Operand{};
  const auto columns = [](const Operand& o) {
    const Dims& d = o.view.dims;
    return o.with_view(View::contiguous({d[0], d[1], o.view.elements() / (d[0] * d[1])}));
  };
  // Without what was added to make it a multiple of four.
  const auto weights = [&](const Operand& o, int64_t k) {
    Operand w = columns(o);
    w.view.offset = o.view.offset;
    return w.with_view(w.view.slice(1, 0, k));
  };
  for (int64_t step = 0; step < z.steps; ++step) {
    lower_product(l, states.h[0], weights(p.r, z.size), columns(first));
    Launch a = step_launch(p, states, step, false);
    a.summed = true;
    a.r = first;
    emit_parts(l, p, a);
    if (!two) continue;
    const View u = states.u.view.slice(2, 0, 1).slice(3, 0, z.units);
    lower_product(
        l,
        states.u.with_view(
            View{{u.dims[0], u.dims[1], u.dims[3]}, {u.strides[0], u.strides[1], u.strides[3]}, u.offset}),
        weights(p.s, z.units), columns(second));
    a = step_launch(p, states, step, true);
    a.summed = true;
    a.s = second;
    emit_parts(l, p, a);
  }
  end_states(l, p, states);
  return true;
}

using Row = Variant<Problem, bool>;
constexpr Row kProducts{"products", always, products_candidates, make_products};
constexpr Row kVariants[] = {
    {"resident", resident_applies, resident_candidates, make_resident},
    {"steps", steps_apply, steps_candidates, make_steps},
    {"products", steps_apply, products_candidates, make_products},
};

}  // namespace

void Recurrence::lower(Lowering& l) const {
  if (l.out(1).view.elements() == 0) return;
  if (l.in(kGates).view.elements() == 0) {  // no steps, and rows without steps end with zeros
    lower_fill(l, l.out(1), 0);
    if (cell == RecurrentCell::lstm && l.out(2).view.elements() > 0) lower_fill(l, l.out(2), 0);
    return;
  }
  const Problem p = make_problem(*this, l);
  if (!l.choose(kName, kVariants, p).make(l, p)) l.choose(kName, kProducts, p).make(l, p);
}

std::vector<std::string> recurrence_variants() { return names_of(kVariants); }

}  // namespace rlx
