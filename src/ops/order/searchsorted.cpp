// Where values belong in rows that are in order.
#include <algorithm>
#include <cmath>

#include "ir/reference.h"
#include "kernels/binder.h"
#include "kernels/lowering.h"
#include "kernels/searchsorted.wgsl.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/rows.h"
#include "rlx/ops/order.h"

namespace rlx {
namespace {

struct SearchSorted final : OpOf<SearchSorted> {
  static constexpr auto kName = "searchsorted";
  bool right = false;

  void visit_attributes(AttributeVisitor& v) override { v("right", right, false); }

  std::vector<TensorType> infer(const InferArgs& in) const override {
    in.expect_count(2);
    in.expect_same_dtype(0, 1);
    in.expect_dtype(0, is_float(in.dtype(0)) || is_integer(in.dtype(0)), "a float or integer type");
    const Shape& sorted = in.shape(0);
    const Shape& values = in.shape(1);
    // One sorted vector serves values of any shape.
    bool agree = sorted.rank() == 1 || (sorted.rank() == values.rank() && sorted.rank() > 0);
    for (int64_t i = 0; agree && i + 1 < sorted.rank(); ++i) agree = sorted[i] == values[i];
    if (!agree) {
      fail(
          "searchsorted: the rows {} must be one vector, or agree with the values {} in all axes but the "
          "last",
          sorted.text(), values.text());
    }
    return {TensorType{DType::i64, values}};
  }

  void reference(RefContext& r) const override {
    const RefTensor& sorted = r.in(0);
    const int64_t length = sorted.dims.back();
    const int64_t count = values_per_row(sorted.dims, r.in(1).dims);
    sorted.visit([&](const auto& from) {
      using T = std::ranges::range_value_t<decltype(from)>;
      if constexpr (std::is_arithmetic_v<T>) {
        const auto less = [](T a, T b) {
          if constexpr (std::is_floating_point_v<T>) {
            if (std::isnan(a) || std::isnan(b)) return !std::isnan(a);
          }
          return a < b;
        };
        for (size_t i = 0; i < r.out().ints.size(); ++i) {
          const auto begin = from.begin() + static_cast<int64_t>(i) / count * length;
          T value = 0;
          r.in(1).visit([&](const auto& values) {
            if constexpr (std::is_arithmetic_v<std::ranges::range_value_t<decltype(values)>>)
              value = static_cast<T>(values[i]);
          });
          const auto at = right ? std::upper_bound(begin, begin + length, value, less)
                                : std::lower_bound(begin, begin + length, value, less);
          r.out().ints[i] = at - begin;
        }
      }
    });
  }

  void lower(Lowering& l) const override {
    if (l.out().view.elements() == 0) return;
    const Operand& sorted = l.in(0);
    const int64_t rank = sorted.view.rank();
    const Dims& values = l.in(1).view.dims;
    // Rows along one axis, so that they can be cut.
    const int64_t count = values_per_row(sorted.view.dims, values);
    const int64_t rows = product(values) / count;
    const auto flat = [&](const Operand& o, int64_t length) {
      const std::optional<View> view = o.view.reshape({rows, length});
      return view ? o.with_view(*view, 1) : Operand{};
    };
    const Operand table = flat(sorted, sorted.view.dims[static_cast<size_t>(rank - 1)]);
    check(table.present(), "reads_view asks for rows that lie evenly");
    search(l, table, flat(l.in(1), count), {}, flat(l.out(), count));
  }

  // Rows, and the values of each, must be one axis each.
  bool reads_view(int64_t, const View& view) const override { return view.is_contiguous(); }

 private:
  static int64_t values_per_row(const std::vector<int64_t>& sorted, const std::vector<int64_t>& values) {
    return std::max<int64_t>(1, sorted.size() == 1 ? product(values) : values.back());
  }

  void search(Lowering& l, const Operand& table, const Operand& values, const Operand& others,
              const Operand& y) const {
    // Half of the bindings for the table.
    const auto most =
        static_cast<int64_t>(l.caps().max_binding_bytes) * (l.caps().max_storage_buffers / 2 - 1);
    const int64_t rows = table.view.dims[0];
    const int64_t length = table.view.dims[1];
    if (reach_bytes(table) <= most || (rows == 1 && length == 1)) {
      l.flat<kernels::searchsorted>({.sorted = table, .values = values, .others = others, .y = y},
                                    {.length = to_u32(length), .count = to_u32(values.view.dims[1])},
                                    {.RIGHT = right, .FLOAT = is_float(table.dtype)});
      return;
    }
    const auto cut = [](const Operand& o, int64_t axis, int64_t begin, int64_t size) {
      return o.present() ? o.with_view(o.view.slice(axis, begin, size), 1) : o;
    };
    if (rows > 1) {
      const int64_t half = ceil_div(rows, 2);
      const auto part = [&](int64_t begin, int64_t size) {
        search(l, cut(table, 0, begin, size), cut(values, 0, begin, size), cut(others, 0, begin, size),
               cut(y, 0, begin, size));
      };
      part(0, half);
      part(half, rows - half);
      return;
    }
    // The elements of two halves add up.
    const int64_t half = ceil_div(length, 2);
    const Operand first = l.scratch(DType::i32, y.view.dims);
    search(l, cut(table, 1, 0, half), values, others, first.with_view(first.view, 1));
    search(l, cut(table, 1, half, length - half), values, first.with_view(first.view, 1), y);
  }
};

}  // namespace

Value searchsorted(Value sorted, Value values, bool right) {
  auto op = std::make_shared<SearchSorted>();
  op->right = right;
  return add_node(op, {sorted, values});
}

namespace ops {
void register_searchsorted(OpTable& table) {
  table.add<SearchSorted>(
      {.formula = "how many elements of each row of `sorted`, in ascending order, are less than each value "
                  "of the row; "
                  "right: not greater",
       .operands = "sorted: [.., n], rows in ascending order, or one vector for all values\n"
                   "values: [.., m], those of each row; of any shape if sorted is a vector",
       .attributes = "right: elements equal to a value count too",
       .outputs = "y (i64): of the shape of values, how many elements come before each",
       .types = "f32 f16 bf16 i32 u32 i64 i8 u8",
       .variants = {"searchsorted"},
       .samples = {"searchsorted(T[1], T[5])", "searchsorted(T[3,1], T[3,7]) {right=true}",
                   "searchsorted(T[1], T[2,3])", "searchsorted(T[0], T[3])", "searchsorted(T[4], T[0])",
                   "searchsorted(T[4] in 1..1, T[257] in 0..2)",
                   "searchsorted(T[2000,257] in 1..1, T[2000,3] in 0..2) {right=true}",
                   "searchsorted(T[300007] in 1..1, T[9] in 0..2)"}});
}
}  // namespace ops

}  // namespace rlx
