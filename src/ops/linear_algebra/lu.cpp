// LU factorisation with partial pivoting: an invocation for each matrix if they are small and many, else a
// workgroup; large ones in panels of columns, between which the rest is updated by products.
#include <algorithm>
#include <bit>
#include <cmath>

#include "base/format.h"
#include "kernels/exchange_rows.wgsl.h"
#include "kernels/lu_each.wgsl.h"
#include "kernels/lu_panel.wgsl.h"
#include "kernels/rates.h"
#include "ops/linear_algebra/matrices.h"
#include "ops/machinery/fill.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/outputs.h"
#include "rlx/ops/linear_algebra.h"

namespace rlx {
namespace {

struct LuProblem {
  LuFactors f;
  int64_t count = 0, rows = 0, columns = 0;

  int64_t steps() const { return std::min(rows, columns); }
  double work() const { return static_cast<double>(rows) * static_cast<double>(columns * steps()); }
  std::string key() const { return formatted("count{} {} x {}", size_class(count), rows, columns); }
};

// The matrices [begin, begin + length) of an operand.
Operand some(const Operand& o, int64_t begin, int64_t length) {
  return o.with_view(o.view.slice(0, begin, length));
}

// The factors here and below were measured with lavapipe.
std::vector<Candidate> each_candidates(const Target& target, const LuProblem& p) {
  const Rates r = rates_of(target.caps);
  const double each = 0.4 * p.work() * r.far_step_ns;
  return one_candidate(r.dispatch_ns + each * std::max(1.0, static_cast<double>(p.count) / r.lanes));
}

bool run_each(Lowering& l, const LuProblem& p, const Candidate&) {
  l.split(p.count, 1, [&](int64_t begin, int64_t length) {
    return l.make<kernels::lu_each>(
        {.matrix = some(p.f.matrix, begin, length),
         .pivots = some(p.f.pivots, begin, length),
         .info = some(p.f.info, begin, length)},
        {.count = to_u32(length), .rows = to_u32(p.rows), .columns = to_u32(p.columns)},
        ceil_div(length, int64_t{kernels::lu_each::GROUP}));
  });
  return true;
}

std::vector<Candidate> panel_candidates(const Target& target, const LuProblem& p) {
  const Rates r = rates_of(target.caps);
  const auto lanes = static_cast<double>(matrix_group(target.caps, p.rows));
  const double turns = std::max(1.0, lanes / r.lanes);
  // For each column: the pivot, an exchange of rows, and three meetings.
  const double between = static_cast<double>(p.steps()) * (12 * turns + 3 * r.barrier_steps);
  const double each = r.group_ns + r.step_ns * (0.4 * p.work() / lanes * turns + between);
  const double at_once = std::max(1.0, r.lanes / lanes);
  return one_candidate(r.dispatch_ns + each * std::max(1.0, static_cast<double>(p.count) / at_once));
}

// How many floats of workgroup memory to take for a panel, one of two sizes so that there are few shaders; 0
// if it does not fit.
int64_t held_floats(const Caps& caps, int64_t rows, int64_t width, int64_t group) {
  const int64_t needed = rows * (width | 1);
  for (const int64_t side : {kMatrixBlock, kWholeMatrix}) {
    const int64_t floats = side * (side + 1);
    const int64_t bytes = 4 * (floats + 2 * group + int64_t{kernels::lu_panel::WIDEST});
    if (needed <= floats && bytes <= int64_t{caps.max_workgroup_bytes}) return floats;
  }
  return 0;
}

static_assert(kernels::lu_panel::WIDEST == kWholeMatrix);

// Factors the columns [first, last) of all matrices.
void lower_panel(Lowering& l, const LuProblem& p, int64_t first, int64_t last) {
  const int64_t group = matrix_group(l.caps(), p.rows - first);
  const int64_t held = held_floats(l.caps(), p.rows - first, last - first, group);
  const auto side = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(last - first)));
  l.split(p.count, 1, [&](int64_t begin, int64_t length) {
    return l.make<kernels::lu_panel>(
        {.matrix = some(p.f.matrix, begin, length),
         .pivots = some(p.f.pivots, begin, length),
         .info = some(p.f.info, begin, length)},
        {.count = to_u32(length),
         .rows = to_u32(p.rows),
         .columns = to_u32(p.columns),
         .first = to_u32(first),
         .last = to_u32(last)},
        length,
        {.GROUP = to_u32(group),
         .ACROSS = to_u32(std::clamp<int64_t>(side, 16, std::min<int64_t>(group, 64))),
         .HOLDS = held > 0,
         .HELD = to_u32(std::max<int64_t>(held, 1))});
  });
}

bool run_panels(Lowering& l, const LuProblem& p, const Candidate&) {
  const int64_t width = p.steps() <= kWholeMatrix ? p.steps() : kMatrixBlock;
  for (int64_t first = 0; first < p.steps(); first += width) {
    const int64_t last = std::min(first + width, p.steps());
    lower_panel(l, p, first, last);
    const int64_t right = p.columns - last;
    if (right == 0) break;
    const Operand above = block(p.f.matrix, first, last - first, last, right);
    lower_triangular_solve(l, block(p.f.matrix, first, last - first, first, last - first), above,
                           {.unit = true});
    lower_subtract_product(l, block(p.f.matrix, last, p.rows - last, first, last - first), above,
                           block(p.f.matrix, last, p.rows - last, last, right));
  }
  return true;
}

constexpr Variant<LuProblem, bool> kVariants[] = {
    {"each", always, each_candidates, run_each},
    {"panels", always, panel_candidates, run_panels},
};

struct Lu final : OpOf<Lu> {
  static constexpr auto kName = "lu";

  std::vector<TensorType> infer(const InferArgs& in) const override {
    in.expect_count(1);
    expect_matrices(in, 0);
    const Shape& x = in.shape(0);
    const Dim steps = Dim::min(x[x.rank() - 2], x[x.rank() - 1]);
    return {in[0], {DType::i32, with_axes(batch_of(x), {steps})}, {DType::i32, batch_of(x)}};
  }
  void reference(RefContext& r) const override {
    const RefTensor& x = r.in(0);
    const int64_t rows = x.dims[x.dims.size() - 2];
    const int64_t columns = x.dims.back();
    const auto steps = static_cast<size_t>(std::min(rows, columns));
    for (size_t i = 0; i < r.out(2).ints.size() && steps > 0; ++i) {
      const LuReference f = factor_lu(matrix_of(x, static_cast<int64_t>(i)), rows, columns);
      std::ranges::copy(f.matrix, r.out(0).real.begin() + static_cast<std::ptrdiff_t>(i) * rows * columns);
      for (size_t k = 0; k < steps; ++k) r.out(1).ints[i * steps + k] = f.pivots[k] + 1;
      r.out(2).ints[i] = f.info;
    }
  }
  void lower(Lowering& l) const override;
  // Rows are combined as often as there are pivots. Factors are at most 1, and what they are multiplied with
  // grows little; what is small is divided by a pivot that may itself be small, with its error.
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    const Shape& x = inputs[0].shape;
    const auto steps = static_cast<double>(Dim::min(x[x.rank() - 2], x[x.rank() - 1]).value());
    return {.ulps = 64 * steps, .scale = 8};
  }
};

void Lu::lower(Lowering& l) const {
  const Operand& x = l.in(0);
  if (x.view.elements() == 0) return lower_fill(l, l.out(2), 0);
  const Operand matrix = output_memory(l, l.out(0));
  lower_convert(l, x, matrix.with_view(View::contiguous(x.view.dims)));
  const int64_t count = matrix.view.dims[0];
  lower_lu(l, kName,
           {.matrix = matrix,
            .pivots = l.out(1).with_view(View::contiguous({count, l.out(1).view.elements() / count})),
            .info = l.out(2).with_view(View::contiguous({count}))});
  lower_output(l, matrix, l.out(0));
}

}  // namespace

void lower_lu(Lowering& l, std::string_view op, const LuFactors& f) {
  const Dims& dims = f.matrix.view.dims;
  const LuProblem p{.f = f, .count = dims[0], .rows = dims[1], .columns = dims[2]};
  l.choose(op, kVariants, p).make(l, p);
}

std::vector<std::string> lu_variants() { return names_of(kVariants); }

LuFactors lu_scratch(Lowering& l, const Operand& x) {
  const Operand work = l.scratch(DType::f32, x.view.dims);
  lower_convert(l, x, work);
  const int64_t rows = x.view.dims[x.view.dims.size() - 2];
  const int64_t columns = x.view.dims.back();
  const int64_t count = x.view.elements() / (rows * columns);
  return {.matrix = work.with_view(View::contiguous({count, rows, columns})),
          .pivots = l.scratch(DType::i32, {count, std::min(rows, columns)}),
          .info = l.scratch(DType::i32, {count})};
}

void lower_lu_solve(Lowering& l, const LuFactors& f, const Operand& x) {
  const int64_t n = x.view.dims[1];
  const int64_t columns = x.view.dims[2];
  l.split(x.view.dims[0], 1, [&](int64_t begin, int64_t length) {
    return l.make<kernels::exchange_rows>(
        {.pivots = some(f.pivots, begin, length),
         .info = some(f.info, begin, length),
         .x = some(x, begin, length)},
        {.count = to_u32(length), .rows = to_u32(n), .columns = to_u32(columns)},
        ceil_div(length * columns, int64_t{kernels::exchange_rows::GROUP}));
  });
  lower_triangular_solve(l, f.matrix, x, {.unit = true});
  lower_triangular_solve(l, f.matrix, x, {.upper = true});
}

LuDecomposition lu(Value x) { return named_outputs<LuDecomposition>(add_node(std::make_shared<Lu>(), {x})); }

namespace ops {
void register_lu(OpTable& table) {
  table.add<Lu>(
      {.formula = "{lu, pivots, info}: P x = L U, packed; info: the first zero pivot, from 1 on, or 0",
       .operands = "x: matrices [.., m, n]",
       .outputs = "lu: [.., m, n], U and, below the diagonal, L without the ones on its diagonal\n"
                  "pivots (i32): [.., min(m, n)], the row, from 1 on, that each row was "
                  "exchanged with\n"
                  "info (i32): [..], the first pivot that is zero, from 1 on, or 0",
       .types = "f32 f16 bf16",
       .variants = names_of(kVariants),
       .samples = {"lu(T[3,3])", "lu(T[2,3,17,17])", "lu(T[5,3])", "lu(T[2,3,5])", "lu(T[1,1])",
                   "lu(T[0,3,3])", "lu(T[2,0,0])", "lu(T[30001,3,3])", "lu(T[70,40])", "lu(T[2,65,97])"}});
}
}  // namespace ops

}  // namespace rlx
