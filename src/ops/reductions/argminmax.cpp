// The index of the largest or smallest element along an axis.
#include "ops/reductions/argminmax.h"

#include <algorithm>
#include <cmath>

#include "ir/reference.h"
#include "kernels/argminmax.wgsl.h"
#include "ops/machinery/fill.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/rows.h"
#include "rlx/ops/reductions.h"

namespace rlx {

std::vector<TensorType> ArgMinMax::infer(const InferArgs& in) const {
  in.expect_count(1);
  in.expect_dtype(0, is_float(in.dtype(0)) || is_integer(in.dtype(0)), "a float or integer type");
  const Shape& x = in.shape(0);
  const int64_t along = in.axis(axis, x.rank());
  if (x[along].is(0) && !or_none)
    fail("{}: axis {} has length 0, so there is no index to return", name(), along);
  Shape y;
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (i != along) {
      y.push_back(x[i]);
    } else if (keepdims) {
      y.push_back(1);
    }
  }
  return {TensorType{DType::i64, y}};
}

namespace {

template <class T>
bool better(bool largest, T a, T than) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(than)) return false;
    if (std::isnan(a)) return true;
  }
  return largest ? a > than : a < than;
}

}  // namespace

void ArgMinMax::reference(RefContext& r) const {
  const RefTensor& x = r.in(0);
  Operand source;
  source.view = View::contiguous(x.dims);
  const Operand rows = as_rows(source, {normal_axis(axis, source.view.rank())});
  const auto length = static_cast<size_t>(row_length(rows));
  if (length == 0) {
    std::ranges::fill(r.out().ints, -1);
    return;
  }
  const auto run = [&](const auto& values) {
    const auto gathered = gather_view(values, rows.view);
    for (size_t row = 0; row < r.out().ints.size(); ++row) {
      size_t best = 0;
      for (size_t j = 1; j < length; ++j) {
        if (better(largest, gathered[row * length + j], gathered[row * length + best])) best = j;
      }
      r.out().ints[row] = static_cast<int64_t>(best);
    }
  };
  if (is_float(x.dtype)) {
    run(x.real);
  } else {
    run(x.ints);
  }
}

void ArgMinMax::lower(Lowering& l) const {
  const Operand& y = l.out();
  if (y.view.elements() == 0) return;
  const Operand x = as_rows(l.in(0), {normal_axis(axis, l.in(0).view.rank())});
  const int64_t length = row_length(x);
  if (length == 0) return lower_fill(l, y, -1);
  Operand carry;
  // Elements [begin, end) of each row.
  const auto piece = [&](int64_t begin, int64_t end) {
    const Operand part = x.with_view(x.view.slice(x.outer_rank, begin, end - begin), x.outer_rank);
    return lower_rows<kernels::argminmax>(
        l, name(), row_problem(part, 1), {.x = part, .y = y.with_view(y.view, y.view.rank()), .carry = carry},
        {.length = to_u32(end - begin), .index = to_u32(begin)},
        {.LARGEST = largest,
         .FLOAT = is_float(x.dtype),
         .SIGNED = is_signed_integer(x.dtype),
         .CONTINUES = begin > 0,
         .CARRIES = end < length});
  };
  if (piece(0, length)) return;
  carry = l.scratch(DType::u32, {row_count(x), 2});
  carry.outer_rank = 1;
  int64_t step = length;
  for (int64_t begin = 0; begin < length;) {
    if (piece(begin, std::min(length, begin + step))) {
      begin += step;
    } else {
      if (step == 1) fail_to_bind(l.caps());
      step = ceil_div(step, 2);
    }
  }
}

namespace {
Value arg_min_max(bool largest, Value x, int64_t axis, bool keepdims) {
  auto op = std::make_shared<ArgMinMax>(largest);
  op->axis = axis;
  op->keepdims = keepdims;
  return add_node(op, {x});
}
}  // namespace

Value argmax(Value x, int64_t axis, bool keepdims) { return arg_min_max(true, x, axis, keepdims); }
Value argmin(Value x, int64_t axis, bool keepdims) { return arg_min_max(false, x, axis, keepdims); }

namespace ops {

void register_argminmax(OpTable& table) {
  for (const bool largest : {true, false}) {
    OpInfo info;
    info.name = largest ? "argmax" : "argmin";
    info.formula =
        std::string("index of the first ") + (largest ? "largest" : "smallest") +
        " element along the axis; of the first NaN if there is one; or_none: -1 if the axis has no "
        "elements, which is else an error";
    info.operands = "x: what is searched";
    info.attributes =
        "axis: along which to search\n"
        "keepdims: the axis stays, with length 1\n"
        "or_none: an axis of length 0 gives -1, instead of an error";
    info.outputs = "indices (i64): where along the axis it was found";
    info.types = "f32 f16 bf16 i32 u32 i64 i8 u8";
    info.variants = names_of(kRowVariants);
    info.samples = {info.name + "(T[3,17])",
                    info.name + "(T[3,17]) {axis=0, keepdims=true}",
                    info.name + "(T[2,5,7] in -2..2) {axis=1}",
                    info.name + "(T[257])",
                    info.name + "(T[8,256] in 0..3) {axis=-1}",
                    info.name + "(T[0,4])",
                    info.name + "(T[3,0]) {or_none=true}",
                    info.name + "(T[65537])",
                    info.name + "(T[1031,257]) {axis=0}",
                    info.name + "(T[600001] in -1000000..1000000)",
                    info.name + "(T[4,1])"};
    info.make = [largest] { return std::make_shared<ArgMinMax>(largest); };
    table.add(std::move(info));
  }
}

}  // namespace ops
}  // namespace rlx
