#include "ops/rearrange/gather_elements.h"

#include <algorithm>

#include "ir/reference.h"
#include "kernels/gather_elements.wgsl.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "rlx/ops/rearrange.h"

namespace rlx {
namespace {

struct GatherElements final : OpOf<GatherElements> {
  static constexpr auto kName = "gather_elements";
  int64_t axis = 0;

  void visit_attributes(AttributeVisitor& v) override { v("axis", axis, 0); }
  std::optional<ValueRange> sensible_values(int64_t input,
                                            std::span<const TensorType> inputs) const override {
    return input == 1 ? values_between(0, inputs[0].shape[normal_axis(axis, inputs[0].shape.rank())] - 1)
                      : std::nullopt;
  }

  std::vector<TensorType> infer(const InferArgs& in) const override {
    in.expect_count(2);
    in.expect_dtype(1, is_integer(in.dtype(1)), "an integer type");
    const Shape& x = in.shape(0);
    const Shape& indices = in.shape(1);
    const int64_t along = in.axis(axis, x.rank());
    if (indices.rank() != x.rank())
      fail("gather_elements: x {} and the indices {} have different ranks", x.text(), indices.text());
    for (int64_t i = 0; i < x.rank(); ++i) {
      const bool known = x[i].is_static() && indices[i].is_static();
      if (i != along && known && indices[i].value() > x[i].value()) {
        fail("gather_elements: axis {} of the indices {} is longer than that of x {}", i, indices.text(),
             x.text());
      }
    }
    if (x[along].is(0) && !indices.elements().is(0))
      fail("gather_elements: axis {} of x {} has no elements to take", along, x.text());
    return {TensorType{in.dtype(0), indices}};
  }

  void reference(RefContext& r) const override {
    const RefTensor& x = r.in(0);
    const RefTensor& indices = r.in(1);
    const auto along = static_cast<size_t>(normal_axis(axis, std::ssize(x.dims)));
    const std::vector<int64_t> from = row_major_strides(x.dims);
    const std::vector<int64_t> strides = row_major_strides(indices.dims);
    visit_both(x, r.out(), [&](const auto& source, auto& out) {
      for (size_t i = 0; i < out.size(); ++i) {
        int64_t at = 0;
        for (size_t a = 0; a < x.dims.size(); ++a) {
          int64_t index = static_cast<int64_t>(i) / strides[a] % indices.dims[a];
          if (a == along) {
            index = indices.ints[i];
            index = std::clamp<int64_t>(index < 0 ? index + x.dims[a] : index, 0, x.dims[a] - 1);
          }
          at += index * from[a];
        }
        out[i] = source[static_cast<size_t>(at)];
      }
    });
  }

  void lower(Lowering& l) const override {
    lower_gather_elements(l, l.in(0), l.in(1), normal_axis(axis, l.in(0).view.rank()), l.out());
  }
};

}  // namespace

void lower_gather_elements(Lowering& l, const Operand& x, const Operand& indices, int64_t axis,
                           const Operand& y) {
  if (y.view.elements() == 0) return;
  const Dims& dims = indices.view.dims;
  View from = x.view;
  for (int64_t i = 0; i < from.rank(); ++i) {
    if (i != axis) from = from.slice(i, 0, dims[static_cast<size_t>(i)]);
  }
  l.flat<kernels::gather_elements>({.x = x.with_view(from), .indices = indices, .y = y},
                                   {.count = to_u32(dims[static_cast<size_t>(axis)]),
                                    .length = to_u32(to_i32(from.dims[static_cast<size_t>(axis)])),
                                    .inner = to_u32(product({dims.begin() + axis + 1, dims.end()}))},
                                   {.SIGNED = is_signed_integer(indices.dtype)});
}

Value gather_elements(Value x, Value indices, int64_t axis) {
  auto op = std::make_shared<GatherElements>();
  op->axis = axis;
  return add_node(op, {x, indices});
}

namespace ops {
void register_gather_elements(OpTable& table) {
  table.add<GatherElements>(
      {.formula = "y[o, j, k] = x[o, indices[o, j, k], k] along axis; negative indices count from the end, "
                  "those outside are clamped",
       .operands = "x: what elements are taken from\n"
                   "indices (integer): of the rank of x, and no longer than it along other "
                   "axes; negative ones count from the end, those outside are clamped",
       .attributes = "axis: the axis of x that indices refer to",
       .outputs = "y: as indices",
       .types = "f32 f16 bf16 i32 u32 i64 bool i8 u8 c64",
       .variants = {"gather_elements"},
       .samples = {"gather_elements(T[3,17], i32[5,17] in -3..2)",
                   "gather_elements(T[3,17], i64[2,5] in -30..30) {axis=-1}",
                   "gather_elements(T[2,7,5], u32[1,9,4] in 0..9) {axis=1}",
                   "gather_elements(T[257], i8[3] in -128..127)", "gather_elements(T[0,3], i32[0,3])",
                   "gather_elements(T[4,3], u8[0,3])",
                   "gather_elements(T[131,257], i32[131,200] in -9..999) {axis=1}",
                   "gather_elements(T[300007], i32[100003] in 0..300006)"}});
}
}  // namespace ops

}  // namespace rlx
