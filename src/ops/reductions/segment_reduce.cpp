// Slices that share a number, reduced together: a scatter into a tensor with a slice for each number and one
// more, in which what belongs nowhere is collected and cut off.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/reference.h"
#include "ops/machinery/integer_range.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/rows.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"

namespace rlx {
namespace {

double identity(SegmentReduction reduction, DType dtype) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  const IntegerRange range = integer_range(dtype);
  switch (reduction) {
    case SegmentReduction::prod:
      return 1;
    case SegmentReduction::max:
      return is_float(dtype) ? -inf : static_cast<double>(range.low);
    case SegmentReduction::min:
      return is_float(dtype) ? inf : static_cast<double>(range.high);
    default:
      return 0;
  }
}

template <class T>
T joined(SegmentReduction reduction, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return NAN;
  }
  switch (reduction) {
    case SegmentReduction::prod:
      return a * b;
    case SegmentReduction::max:
      return std::max(a, b);
    case SegmentReduction::min:
      return std::min(a, b);
    default:
      return a + b;
  }
}

ScatterReduction scattered(SegmentReduction reduction) {
  switch (reduction) {
    case SegmentReduction::prod:
      return ScatterReduction::mul;
    case SegmentReduction::max:
      return ScatterReduction::max;
    case SegmentReduction::min:
      return ScatterReduction::min;
    default:
      return ScatterReduction::add;
  }
}

struct SegmentReduce final : OpOf<SegmentReduce> {
  static constexpr auto kName = "segment_reduce";
  Dim segments;
  SegmentReduction reduction = SegmentReduction::sum;
  int64_t axis = 0;

  void visit_attributes(AttributeVisitor& v) override {
    v("segments", segments);
    v.choice("reduction", reduction, {"sum", "mean", "max", "min", "prod"},
             std::optional(SegmentReduction::sum));
    v("axis", axis, 0);
  }
  std::optional<ValueRange> sensible_values(int64_t input, std::span<const TensorType>) const override {
    return input == 1 ? values_between(0, segments - 1) : std::nullopt;
  }

  std::vector<TensorType> infer(const InferArgs& in) const override {
    in.expect_count(2);
    const DType t = in.dtype(0);
    if (reduction == SegmentReduction::mean) in.expect_float(0);
    in.expect_dtype(0, is_float(t) || is_integer(t), "a float or integer type");
    in.expect_dtype(1, is_integer(in.dtype(1)), "an integer type");
    if (segments.is_static() && segments.value() < 0)
      fail("segment_reduce: the number of segments is {}", segments.value());
    Shape y = in.shape(0);
    const int64_t along = in.axis(axis, y.rank());
    const Shape& ids = in.shape(1);
    if (ids.rank() != 1 || ids[0] != y[along])
      fail("segment_reduce: the ids {} must be a vector with a number for each of the {} slices of x {}",
           ids.text(), y[along].text(), y.text());
    y[along] = segments;
    return {{t, y}};
  }

  void reference(RefContext& r) const override {
    const RefTensor& x = r.in(0);
    const auto along = static_cast<size_t>(normal_axis(axis, std::ssize(x.dims)));
    const int64_t length = x.dims[along];
    const int64_t inner = row_major_strides(x.dims)[along];
    const int64_t count = segments.value();
    std::vector<double> members(static_cast<size_t>(count));
    for (const int64_t id : r.in(1).ints) {
      if (id >= 0 && id < count) ++members[static_cast<size_t>(id)];
    }
    visit_both(x, r.out(), [&](const auto& from, auto& to) {
      using T = std::ranges::range_value_t<decltype(from)>;
      if constexpr (std::is_arithmetic_v<T>) {
        std::ranges::fill(to, static_cast<T>(identity(reduction, x.dtype)));
        for (size_t i = 0; i < from.size(); ++i) {
          const auto at = static_cast<int64_t>(i);
          const int64_t id = r.in(1).ints[static_cast<size_t>(at / inner % length)];
          if (id < 0 || id >= count) continue;
          T& y = to[static_cast<size_t>((at / inner / length * count + id) * inner + at % inner)];
          y = joined(reduction, y, from[i]);
          if constexpr (std::is_integral_v<T>) y = wrapped(y, x.dtype);
        }
        if constexpr (std::is_floating_point_v<T>) {
          for (size_t i = 0; reduction == SegmentReduction::mean && i < to.size(); ++i)
            to[i] /= members[static_cast<size_t>(static_cast<int64_t>(i) / inner % count)];
        }
      }
    });
  }

  std::optional<std::vector<Value>> expand(const ExpandArgs& in) const override {
    const bool mean = reduction == SegmentReduction::mean;
    const int64_t rank = in[0].shape().rank();
    std::vector<int64_t> order = {normal_axis(axis, rank)};  // swaps the axis with the first
    for (int64_t a = 1; a < rank; ++a) order.push_back(a == order[0] ? 0 : a);
    // Sums of many small numbers are wide until they are divided.
    const Value x = transpose(mean ? cast(in[0], DType::f32) : in[0], order);

    const Value ids = cast(in[1], DType::i32);
    const Value end = reshape(range(in.graph, 1, segments, 1, DType::i32), {});
    const Value inside = logical_and(greater_equal(ids, 0), less(ids, end));
    const Value slots = reshape(where(inside, ids, end), {ids.shape()[0], 1});
    const auto reduce = [&](Value slices, double start) {
      Shape dims = slices.shape();
      dims[0] = segments + 1;
      const Tensor first =
          Tensor::full(slices.dtype(), std::vector<int64_t>(static_cast<size_t>(dims.rank()), 1), start);
      const Value base = rlx::expand(in.graph.constant(first), dims);
      return slice(scatter_nd(base, slots, slices, scattered(reduction)), 0, 0, segments);
    };
    Value y = reduce(x, identity(reduction, x.dtype()));
    if (mean) {
      Shape dims(std::vector<Dim>(static_cast<size_t>(rank), Dim(1)));
      dims[0] = ids.shape()[0];
      const Value one =
          in.graph.constant(Tensor::full(DType::i32, std::vector<int64_t>(static_cast<size_t>(rank), 1), 1));
      y = cast(y / cast(reduce(rlx::expand(one, dims), 0), DType::f32), in[0].dtype());
    }
    return std::vector{transpose(y, order)};
  }

  // All slices may belong to one segment.
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    const Shape& x = inputs[0].shape;
    const auto n = static_cast<double>(x[normal_axis(axis, x.rank())].value());
    constexpr double magnitude = 2;  // of the sweep's inputs
    switch (reduction) {
      case SegmentReduction::sum:
        return {.ulps = 1, .terms = n, .scale = magnitude * std::sqrt(n)};
      case SegmentReduction::mean:
        return {.ulps = 4, .terms = n, .scale = magnitude};
      case SegmentReduction::prod:
        return {.ulps = 1, .terms = n};
      default:
        return {.ulps = 0};
    }
  }
};

}  // namespace

Value segment_reduce(Value x, Value ids, Dim segments, SegmentReduction reduction, int64_t axis) {
  auto op = std::make_shared<SegmentReduce>();
  op->segments = std::move(segments);
  op->reduction = reduction;
  op->axis = axis;
  return add_node(op, {x, ids});
}

namespace ops {
void register_segment_reduce(OpTable& table) {
  table.add<SegmentReduce>(
      {.formula = "y[s] = the reduction of the slices x[i] along the axis with ids[i] = s, for s < segments; "
                  "other ids count nowhere; without slices 0 (sum), 1 (prod), NaN (mean), or the end of the "
                  "range (max, min)",
       .operands = "x (float integer): what is reduced\n"
                   "ids (integer): a vector, the segment of each slice of x along the axis",
       .attributes = "segments: how many segments there are\n"
                     "reduction: how the slices of a segment are joined; only floats have a mean\n"
                     "axis: along which x is cut into slices",
       .outputs = "y (float integer): in the type of x, with the segments along the axis",
       .types = "f32 f16 bf16 i32 u32 i64 i8 u8",
       .variants = {"expanded"},
       .samples = {"segment_reduce(T[17,3], i32[17] in -1..5) {segments=5}",
                   "segment_reduce(f32[3,17,2], i64[17] in 0..9) {segments=4, reduction=\"mean\", axis=1}",
                   "segment_reduce(bf16[40,3], u8[40] in 0..3) {segments=5, reduction=\"mean\"}",
                   "segment_reduce(T[5,70], i8[70] in -3..9) {segments=8, reduction=\"max\", axis=-1}",
                   "segment_reduce(T[257], u32[257] in 0..40) {segments=39, reduction=\"min\"}",
                   "segment_reduce(T[40,2], i32[40] in 0..9) {segments=10, reduction=\"prod\"}",
                   "segment_reduce(T[0,3], i32[0]) {segments=2}",
                   "segment_reduce(T[4,0], i32[4]) {segments=2}",
                   "segment_reduce(T[1], i32[1] in 0..0) {segments=1}",
                   "segment_reduce(i32[300] in 0..2000000000, i32[300] in 0..8) {segments=9}",
                   "segment_reduce(T[20011,13], i32[20011] in 0..1000) {segments=1000}"}});
}
}  // namespace ops

}  // namespace rlx
