// Tensors as bytes, for the range of their elements (ONNX's DynamicQuantizeLinear).
#include <algorithm>

#include "base/checked.h"
#include "ir/reference.h"
#include "kernels/binder.h"
#include "kernels/dynamic_quantize.wgsl.h"
#include "ops/elementwise/elementwise.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/outputs.h"
#include "ops/machinery/rows.h"
#include "ops/quantization/quantize.h"
#include "ops/rearrange/contiguous.h"
#include "ops/reductions/reduce.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/reductions.h"

namespace rlx {

std::vector<TensorType> DynamicQuantizeRows::infer(const InferArgs& in) const {
  in.expect_count(1);
  in.expect_dtype(0, in.dtype(0) == DType::f32, "f32");
  std::vector<TensorType> out = {
      {less_128 ? DType::i8 : DType::u8, in.shape(0)}, {DType::f32, {}}, {DType::u8, {}}};
  if (!sums) return out;
  Shape rows = in.shape(0);
  if (rows.rank() == 0) fail("dynamic_quantize_rows: x is a scalar, which has no rows to sum");
  rows[rows.rank() - 1] = 1;
  out.push_back({DType::i32, rows});
  return out;
}

void DynamicQuantizeRows::reference(RefContext& r) const {
  const ByteScaling to = byte_scaling(r.in(0));
  const int64_t less = less_128 ? 128 : 0;
  for (size_t i = 0; i < r.in(0).real.size(); ++i)
    r.out(0).ints[i] = static_cast<int64_t>(to.byte(r.in(0).real[i])) - less;
  r.out(1).real[0] = static_cast<double>(to.scale);
  r.out(2).ints[0] = static_cast<int64_t>(to.zero);
  if (!sums) return;
  const auto row = static_cast<size_t>(r.in(0).dims.back());
  for (size_t i = 0; i < r.out(0).ints.size(); ++i) r.out(3).ints[i / row] += r.out(0).ints[i];
}

bool DynamicQuantizeRows::has_kernel(const Shape& x) {
  // Sums of a row are exact in f32, in which lanes exchange them.
  constexpr int64_t kLongest = (1 << 24) / 255;
  if (x.rank() == 0 || !x[x.rank() - 1].is_static()) return false;
  const int64_t row = x[x.rank() - 1].value();
  return row > 0 && row % 4 == 0 && row <= kLongest;
}

std::optional<std::vector<Value>> DynamicQuantizeRows::expand(const ExpandArgs& in) const {
  if (has_kernel(in[0].shape())) return std::nullopt;
  const auto [scale, zero] = dynamic_scale(in[0]);
  Value y = cast(round_to_u8(in[0], scale, cast(zero, DType::f32)), DType::u8);
  if (less_128) y = bitcast(bitwise_xor(y, 128), DType::i8);
  std::vector<Value> out = {y, scale, zero};
  if (sums) out.push_back(sum(cast(y, DType::i32), {-1}, true));
  return out;
}

namespace {

using Kernel = kernels::dynamic_quantize;

class QuantizeLowering {
 public:
  QuantizeLowering(Lowering& l, std::string_view op, bool less_128, bool sums)
      : l_(l), op_(op), less_128_(less_128), x_(in_one_row(l.in(0))), p_(row_problem(x_, 2)) {
    if (sums) sums_ = l.out(3);
    row_ = sums ? l.in(0).view.dims.back() : std::max<int64_t>(split_chunk(l.caps(), p_), 4);
  }

  void run() {
    if (!rows_by_four(x_)) x_ = in_one_row(lower_contiguous(l_, l_.in(0)));
    p_.run = [&](const Team& team) { return emit(team, Kernel::WHOLE, 1, p_.length, 1, {}); };
    p_.split = [&] { return in_parts(); };
    if (!emit_rows(l_, op_, p_)) in_steps();
  }

 private:
  static Operand in_one_row(const Operand& x) { return as_rows(x, axes_from(0, x.view.rank())); }
  int64_t rows() const { return ceil_div(p_.length, row_); }

  // Of APPLY, tasks have so many rows each.
  bool emit(const Team& team, uint32_t phase, int64_t tasks, int64_t chunk, int64_t parts,
            const Operand& ranges, int64_t task_rows = INT32_MAX) {
    const bool finds = phase == Kernel::PARTS;
    Kernel::Operands operands{.x = x_, .ranges = ranges};
    if (!finds) {
      operands.y = in_one_row(l_.out(0));
      operands.scale = l_.out(1);
      operands.zero = l_.out(2);
      operands.sums = sums_;
    }
    Dispatch d = row_dispatch<Kernel>(l_, team, tasks, operands,
                                      {.length = to_u32(p_.length),
                                       .chunk = to_u32(chunk),
                                       .parts = to_u32(parts),
                                       .row = to_u32(row_),
                                       .rows = to_u32(rows()),
                                       .task_rows = to_u32(task_rows)},
                                      {.PHASE = phase, .SIGNED = less_128_});
    if (finds) d.variant = {.row = kSplitRows.name};  // whichever team it has
    if (!fits(d, l_.caps())) return false;
    l_.emit(std::move(d));
    return true;
  }

  // False, and nothing emitted, if the device cannot bind all of x and y at once.
  bool in_parts() {
    const int64_t chunk = split_chunk(l_.caps(), p_);
    RowProblem parts = p_;
    parts.rows = ceil_div(p_.length, chunk);
    parts.length = chunk;
    parts.split = nullptr;
    const Operand ranges = l_.scratch(DType::f32, {parts.rows, 2});
    const int64_t task_rows = std::max<int64_t>(chunk / row_, 1);
    const int64_t tasks = ceil_div(rows(), task_rows);
    parts.run = [&](const Team& team) {
      return emit(team, Kernel::PARTS, parts.rows, chunk, 0, ranges) &&
             emit(team, Kernel::APPLY, tasks, chunk, parts.rows, ranges, task_rows);
    };
    return l_.choose(op_, kRowVariants, parts).make(l_, parts);
  }

  // By reductions and element by element, which cut what cannot be bound.
  void in_steps() {
    const Operand ranges = l_.scratch(DType::f32, {2});
    const std::vector<int64_t> axes = axes_from(0, l_.in(0).view.rank());
    for (const int64_t i : {0, 1}) {
      const View one = ranges.view.slice(0, i, 1);
      lower_reduce(l_, i == 0 ? ReduceKind::min : ReduceKind::max, l_.in(0), axes, ranges.with_view(one, 1));
    }
    scale_of(ranges);
    Expr e;
    e.inputs = {DType::f32, DType::f32, DType::u8};
    const Expr::Arg zero = e.cast(Expr::input(2), DType::f32);
    const Expr::Arg whole = e.apply(*find_scalar("round_to_u8"), {Expr::input(0), Expr::input(1), zero});
    const Expr::Arg less = e.apply(*find_scalar("sub"), {whole, Expr::constant(less_128_ ? 128 : 0)});
    e.cast(less, l_.out(0).dtype);
    lower_expr(l_, e, {l_.in(0), l_.out(1), l_.out(2)}, l_.out(0));
    if (!sums_.present()) return;
    const Operand wide = l_.scratch(DType::i32, l_.out(0).view.dims);
    Expr widen;
    widen.inputs = {l_.out(0).dtype};
    widen.cast(Expr::input(0), DType::i32);
    lower_expr(l_, widen, {l_.out(0)}, wide);
    lower_reduce(l_, ReduceKind::sum, wide, {wide.view.rank() - 1}, sums_);
  }

  // Scale and zero point of one range: APPLY of no rows.
  void scale_of(const Operand& ranges) {
    RowProblem p{.rows = 1, .length = 1};
    p.run = [&](const Team& team) {
      Dispatch d =
          row_dispatch<Kernel>(l_, team, 1, {.ranges = ranges, .scale = l_.out(1), .zero = l_.out(2)},
                               {.parts = 1}, {.PHASE = Kernel::APPLY});
      if (!fits(d, l_.caps())) return false;
      l_.emit(std::move(d));
      return true;
    };
    if (!emit_rows(l_, op_, p)) fail_to_bind(l_.caps());
  }

  Lowering& l_;
  std::string_view op_;
  bool less_128_;
  Operand x_, sums_;
  RowProblem p_;
  int64_t row_ = 4;
};

}  // namespace

void DynamicQuantizeRows::lower(Lowering& l) const { QuantizeLowering(l, kName, less_128, sums).run(); }
void DynamicQuantize::lower(Lowering& l) const { QuantizeLowering(l, kName, false, false).run(); }

DynamicQuantized dynamic_quantize(Value x) {
  return named_outputs<DynamicQuantized>(add_node(std::make_shared<DynamicQuantize>(), {x}));
}

namespace ops {
void register_dynamic_quantize(OpTable& table) {
  table.add<DynamicQuantize>(
      {.formula = "x as u8 for the range of its elements and 0, the scale, and the zero point",
       .operands = "x: what is quantised",
       .outputs = "y (u8): of the shape of x\n"
                  "scale (f32): [], how much of x one step of y is\n"
                  "zero_point (u8): [], the y that stands for 0",
       .types = "f32",
       .variants = names_of(kSplittableRows),
       .samples = {"dynamic_quantize(f32[3,17])", "dynamic_quantize(f32[257] in 1..3)",
                   "dynamic_quantize(f32[5] in 0..0)", "dynamic_quantize(f32[3,20])",
                   "dynamic_quantize(f32[4] in 0..0)", "dynamic_quantize(f32[0,4])",
                   "dynamic_quantize(f32[16388] in -9..2)"}});
  table.add<DynamicQuantizeRows>(
      {.formula = "dynamic_quantize with bytes that have a sign, or with the sums of rows of bytes",
       .operands = "x: what is quantised",
       .attributes = "less_128: y is less 128, in i8\n"
                     "sums: whether there are sums",
       .outputs = "y (i8 u8): of the shape of x\n"
                  "scale (f32): [], how much of x one step of y is\n"
                  "zero_point (u8): [], the step that stands for 0\n"
                  "sums... (i32): of y along the last axis, [.., 1]",
       .types = "f32",
       .variants = names_of(kSplittableRows),
       .samples = {"dynamic_quantize_rows(f32[5,12] in 1..3) {less_128=true, sums=true}",
                   "dynamic_quantize_rows(f32[2,3,8] in -3..-1) {sums=true}",
                   "dynamic_quantize_rows(f32[3,5] in -3..9) {less_128=true, sums=true}",
                   "dynamic_quantize_rows(f32[0,4]) {sums=true}",
                   "dynamic_quantize_rows(f32[65,260] in -3..9) {sums=true}",
                   "dynamic_quantize_rows(f32[16388] in -9..2) {less_128=true}"},
       .internal = true});
}
}  // namespace ops

}  // namespace rlx
