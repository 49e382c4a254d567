// All elements along an axis in order, or the first of them.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/reference.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/outputs.h"
#include "ops/machinery/rows.h"
#include "ops/order/row_order.h"
#include "ops/rearrange/contiguous.h"
#include "ops/rearrange/gather_elements.h"
#include "rlx/ops/order.h"

namespace rlx {
namespace {

// The values and indices of the first `count` elements of each row; stable.
void reference_order(RefContext& r, int64_t axis, bool descending, int64_t count) {
  const RefTensor& x = r.in(0);
  const auto along = static_cast<size_t>(normal_axis(axis, std::ssize(x.dims)));
  const int64_t length = x.dims[along];
  const int64_t stride = row_major_strides(x.dims)[along];
  visit_both(x, r.out(0), [&](const auto& from, auto& to) {
    using T = std::ranges::range_value_t<decltype(from)>;
    if constexpr (std::is_arithmetic_v<T>) {
      const auto less = [](T a, T b) {
        if constexpr (std::is_floating_point_v<T>) {
          if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
        }
        return a < b;
      };
      std::vector<int64_t> order(static_cast<size_t>(length));
      for (int64_t row = 0; length > 0 && row < x.elements() / length; ++row) {
        const auto value = [&](int64_t j) {
          return from[static_cast<size_t>(row / stride * stride * length + row % stride + j * stride)];
        };
        std::iota(order.begin(), order.end(), 0);
        std::ranges::stable_sort(order, [&](int64_t a, int64_t b) {
          return descending ? less(value(b), value(a)) : less(value(a), value(b));
        });
        for (int64_t j = 0; j < count; ++j) {
          const auto at = static_cast<size_t>(row / stride * stride * count + row % stride + j * stride);
          const int64_t index = order[static_cast<size_t>(j)];
          to[at] = value(index);
          r.out(1).ints[at] = index;
        }
      }
    }
  });
}

void lower_first(Lowering& l, std::string_view op, int64_t axis, bool descending, int64_t count) {
  const Operand& x = l.in(0);
  const Operand& indices = l.out(1);
  if (indices.view.elements() == 0) return;
  const int64_t along = normal_axis(axis, x.view.rank());
  const Operand rows = as_rows(x, {along});
  const int64_t length = row_length(rows);
  const Operand ordered = as_rows(indices, {along});
  const View dense = View::contiguous({row_count(rows), count});
  const bool in_place = ordered.view.is_contiguous();
  const Operand y = in_place ? indices : l.scratch(DType::i64, dense.dims);
  lower_order(l, {.op = op,
                  .ranks = lower_ranks(l, rows, descending, order_pitch(length, count)),
                  .rows = row_count(rows),
                  .length = length,
                  .count = count,
                  .bits = rank_bits(x.dtype),
                  .y = y.with_view({dense.dims, dense.strides, y.view.offset}, 1)});
  if (!in_place) lower_copy_into(l, y.with_view(View::contiguous(ordered.view.dims)), ordered);
  lower_gather_elements(l, x, indices, along, l.out(0));
}

std::vector<TensorType> infer_first(const InferArgs& in, int64_t axis, const std::optional<Dim>& count) {
  in.expect_count(1);
  in.expect_dtype(0, is_float(in.dtype(0)) || is_integer(in.dtype(0)), "a float or integer type");
  Shape y = in.shape(0);
  const int64_t along = in.axis(axis, y.rank());
  if (count) {
    const Dim left = y[along] - *count;
    if ((count->is_static() && count->value() < 0) || (left.is_static() && left.value() < 0))
      fail("{}: k is {}, but axis {} has {} elements", in.op(), count->text(), along, y[along].text());
    y[along] = *count;
  }
  return {TensorType{in.dtype(0), y}, TensorType{DType::i64, y}};
}

struct Sort final : OpOf<Sort> {
  static constexpr auto kName = "sort";
  int64_t axis = -1;
  bool descending = false;

  void visit_attributes(AttributeVisitor& v) override {
    v("axis", axis, -1);
    v("descending", descending, false);
  }
  std::vector<TensorType> infer(const InferArgs& in) const override {
    return infer_first(in, axis, std::nullopt);
  }
  void reference(RefContext& r) const override {
    const std::vector<int64_t>& dims = r.in(0).dims;
    reference_order(r, axis, descending, dims[static_cast<size_t>(normal_axis(axis, std::ssize(dims)))]);
  }
  void lower(Lowering& l) const override {
    const View& x = l.in(0).view;
    lower_first(l, kName, axis, descending, x.dims[static_cast<size_t>(normal_axis(axis, x.rank()))]);
  }
  Tolerance tolerance(std::span<const TensorType>) const override { return {.ulps = 0}; }
};

struct TopK final : OpOf<TopK> {
  static constexpr auto kName = "topk";
  Dim k = 1;
  int64_t axis = -1;
  bool largest = true;

  void visit_attributes(AttributeVisitor& v) override {
    v("k", k);
    v("axis", axis, -1);
    v("largest", largest, true);
  }
  std::vector<TensorType> infer(const InferArgs& in) const override { return infer_first(in, axis, k); }
  void reference(RefContext& r) const override { reference_order(r, axis, largest, k.value()); }
  void lower(Lowering& l) const override { lower_first(l, kName, axis, largest, k.value()); }
  Tolerance tolerance(std::span<const TensorType>) const override { return {.ulps = 0}; }
};

struct ArgSort final : OpOf<ArgSort> {
  static constexpr auto kName = "argsort";
  int64_t axis = -1;
  bool descending = false;

  void visit_attributes(AttributeVisitor& v) override {
    v("axis", axis, -1);
    v("descending", descending, false);
  }
  std::vector<TensorType> infer(const InferArgs& in) const override {
    return {infer_first(in, axis, std::nullopt)[1]};
  }
  void reference(RefContext& r) const override {
    const RefTensor& x = r.in(0);
    const TensorType types[] = {{x.dtype, Shape(x.dims)}, {DType::i64, Shape(x.dims)}};
    RefContext both({&x}, types);
    reference_order(both, axis, descending,
                    x.dims[static_cast<size_t>(normal_axis(axis, std::ssize(x.dims)))]);
    r.out() = both.out(1);
  }
  std::optional<std::vector<Value>> expand(const ExpandArgs& in) const override {
    return std::vector{sort(in[0], axis, descending).indices};
  }
};

}  // namespace

Ordered sort(Value x, int64_t axis, bool descending) {
  auto op = std::make_shared<Sort>();
  op->axis = axis;
  op->descending = descending;
  return named_outputs<Ordered>(add_node(op, {x}));
}

Value argsort(Value x, int64_t axis, bool descending) {
  auto op = std::make_shared<ArgSort>();
  op->axis = axis;
  op->descending = descending;
  return add_node(op, {x});
}

Ordered topk(Value x, Dim k, int64_t axis, bool largest) {
  auto op = std::make_shared<TopK>();
  op->k = std::move(k);
  op->axis = axis;
  op->largest = largest;
  return named_outputs<Ordered>(add_node(op, {x}));
}

namespace ops {
void register_sort(OpTable& table) {
  std::vector<std::string> all = names_of(kOrderVariants);
  constexpr std::string_view operands = "x: what is put in order";
  constexpr std::string_view attributes =
      "axis: along which elements are compared\n"
      "descending: the greatest first, instead of the smallest";
  constexpr std::string_view outputs =
      "values: the elements in their new order\n"
      "indices (i64): where each was along the axis";
  table.add<TopK>(
      {.formula = "the k largest elements along the axis in descending order, or the k smallest in ascending "
                  "order, and their indices; NaN is greatest, and equal elements stay in order",
       .operands = operands,
       .attributes = "k: how many\n"
                     "axis: along which elements are compared\n"
                     "largest: the k largest, instead of the k smallest",
       .outputs = outputs,
       .types = "f32 f16 bf16 i32 u32 i64 i8 u8",
       .variants = all,
       .samples = {"topk(T[3,17]) {k=5}", "topk(T[2,70,5]) {k=3, axis=1, largest=false}",
                   "topk(T[257] in 0..3) {k=257}", "topk(T[4,3]) {k=0}", "topk(T[0,3]) {k=2}",
                   "topk(T[1]) {k=1}", "topk(T[300,100] in -1..1) {k=8}", "topk(T[2049] in 0..9) {k=40}",
                   "topk(T[3,30001]) {k=50, largest=false}", "topk(T[300007] in -9..9) {k=7}",
                   "topk(T[5000,67]) {k=600, axis=0}"}});
  std::erase(all, "chunks");
  table.add<Sort>({.formula = "the elements along the axis in ascending or descending order, and their "
                              "indices; NaN is greatest, and equal elements stay in order",
                   .operands = operands,
                   .attributes = attributes,
                   .outputs = outputs,
                   .types = "f32 f16 bf16 i32 u32 i64 i8 u8",
                   .variants = all,
                   .samples = {"sort(T[3,17])", "sort(T[2,70,5] in 0..1) {axis=1, descending=true}",
                               "sort(T[257] in 0..3)", "sort(T[0,3])", "sort(T[3,0])", "sort(T[1])",
                               "sort(T[300,9]) {descending=true}", "sort(T[2049] in -1000000..1000000)",
                               "sort(T[3000,67]) {axis=0}", "sort(T[300007])"}});
  table.add<ArgSort>({.formula = "the indices along the axis in the order of their elements, as sort has it",
                      .operands = operands,
                      .attributes = attributes,
                      .outputs = "indices (i64): where the elements in order are along the axis",
                      .types = "f32 f16 bf16 i32 u32 i64 i8 u8",
                      .variants = {"expanded"},
                      .samples = {"argsort(T[3,17])", "argsort(T[2,70,5] in 0..1) {axis=1, descending=true}",
                                  "argsort(T[0,3])", "argsort(T[1])", "argsort(T[4099] in 0..9)"}});
}
}  // namespace ops

}  // namespace rlx
