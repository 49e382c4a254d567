#include "ops/reductions/softmax.h"

#include <cmath>

#include "ir/reference.h"
#include "kernels/softmax.wgsl.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/rows.h"
#include "ops/machinery/staged.h"
#include "rlx/ops/reductions.h"

namespace rlx {

std::vector<TensorType> Softmax::infer(const InferArgs& in) const {
  in.expect_count(1);
  in.expect_float(0);
  in.axis(axis, in.shape(0).rank());
  return {in[0]};
}

void Softmax::reference(RefContext& r) const {
  const RefTensor& x = r.in(0);
  const View view = View::contiguous(x.dims);
  const auto along = static_cast<size_t>(normal_axis(axis, view.rank()));
  const int64_t n = x.dims[along];
  const int64_t step = view.strides[along];
  for (int64_t start = 0; start < x.elements(); ++start) {
    if (start / step % n != 0) continue;
    const auto at = [&](int64_t j) { return static_cast<size_t>(start + j * step); };
    double maximum = -HUGE_VAL;
    for (int64_t j = 0; j < n; ++j)
      maximum = std::isnan(x.real[at(j)]) ? NAN : std::fmax(maximum, x.real[at(j)]);
    double sum = 0;
    for (int64_t j = 0; j < n; ++j) sum += std::exp(x.real[at(j)] - maximum);
    for (int64_t j = 0; j < n; ++j) {
      const double d = x.real[at(j)] - maximum;
      r.out().real[at(j)] = log ? d - std::log(sum) : std::exp(d) / sum;
    }
  }
}

// softmax: the difference d from the maximum and d * log2(e) are rounded, and so is log2(e): exp turns that
// into 1.2 |d| units; exp, sum and division add their own errors. log_softmax: differences of numbers as
// large as the inputs' range and log(n).
Tolerance Softmax::tolerance(std::span<const TensorType> inputs) const {
  const Shape& x = inputs[0].shape;
  const auto n = static_cast<double>(x[normal_axis(axis, x.rank())].value());
  constexpr double range = 40;  // of the sweep's inputs, at most
  if (log) return {.ulps = 4, .terms = n, .scale = 1};
  return {.ulps = 1.2 * range + 6, .terms = n};
}

namespace {

void lower_staged(Lowering& l, bool log, int64_t axis, const Operand& x, const Operand& y) {
  Staged staged(l, x.view.dims);
  const Operand wide = staged.f32(x);
  const Operand difference = staged.map("sub($0,$1)", {wide, staged.reduce(ReduceKind::max, wide, {axis})});
  const Operand e = staged.map("exp($0)", {difference});
  const Operand sum = staged.reduce(ReduceKind::sum, e, {axis});
  staged.store(
      log ? staged.map("t0=log($1); sub($0,t0)", {difference, sum}) : staged.map("div($0,$1)", {e, sum}), y);
}

}  // namespace

void lower_softmax(Lowering& l, bool log, int64_t axis, const Operand& x, const Operand& y) {
  if (y.view.elements() == 0) return;
  const Operand rows = as_rows(x, {axis});
  const RowProblem p = row_problem(rows, 3);
  if (!lower_rows<kernels::softmax>(l, Softmax(log).name(), p, {.x = rows, .y = as_rows(y, {axis})},
                                    {.length = to_u32(p.length)}, {.LOG = log})) {
    lower_staged(l, log, axis, x, y);
  }
}

void Softmax::lower(Lowering& l) const {
  lower_softmax(l, log, normal_axis(axis, l.out().view.rank()), l.in(0), l.out());
}

namespace {
Value softmax_value(bool log, Value x, int64_t axis) {
  auto op = std::make_shared<Softmax>(log);
  op->axis = axis;
  return add_node(op, {x});
}
}  // namespace

Value softmax(Value x, int64_t axis) { return softmax_value(false, x, axis); }
Value log_softmax(Value x, int64_t axis) { return softmax_value(true, x, axis); }

namespace ops {

void register_softmax(OpTable& table) {
  for (const bool log : {false, true}) {
    OpInfo info;
    info.name = log ? "log_softmax" : "softmax";
    info.formula = log ? "x - max - log(sum(exp(x - max))) along the axis"
                       : "exp(x - max) / sum(exp(x - max)) along the axis; NaN for a row of -inf";
    info.operands = "x: logits";
    info.attributes = "axis: along which the probabilities add up to 1";
    info.outputs =
        log ? "y: logarithms of probabilities, of the shape of x" : "y: probabilities, of the shape of x";
    info.types = "f32 f16 bf16";
    info.variants = names_of(kHoldingRows);
    const std::string op = info.name;
    info.samples = {op + "(T[3,17])",
                    op + "(T[3,17] in -20..20) {axis=0}",
                    op + "(T[2,3,5]) {axis=1}",
                    op + "(T[257])",
                    op + "(T[8,256] in -10..10) {axis=-1}",
                    op + "(T[4,1])",
                    op + "(T[0,4])",
                    op + "(T[4,0])",
                    op + "(T[1031,257])",
                    op + "(T[65537])",
                    op + "(T[257,300]) {axis=-2}",
                    op + "(T[130,100] in -10..10)"};
    info.make = [log] { return std::make_shared<Softmax>(log); };
    table.add(std::move(info));
  }
}

}  // namespace ops
}  // namespace rlx
