#include <algorithm>

#include "kernels/scatter_slots.wgsl.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/rearrange/scatter.h"

namespace rlx {
namespace {

constexpr int64_t kMostAxes = 8;  // that the kernel walks

struct ScatterElements final : OpOf<ScatterElements> {
  static constexpr auto kName = "scatter_elements";
  int64_t axis = 0;
  ScatterReduction reduction = ScatterReduction::none;

  void visit_attributes(AttributeVisitor& v) override {
    v("axis", axis, 0);
    v.choice("reduction", reduction, {"none", "add", "mul", "max", "min"},
             std::optional(ScatterReduction::none));
  }
  std::optional<ValueRange> sensible_values(int64_t input,
                                            std::span<const TensorType> inputs) const override {
    return input == 1 ? values_between(0, inputs[0].shape[normal_axis(axis, inputs[0].shape.rank())] - 1)
                      : std::nullopt;
  }

  std::vector<TensorType> infer(const InferArgs& in) const override {
    check_scatter(in, reduction);
    const Shape& x = in.shape(0);
    const Shape& updates = in.shape(2);
    const int64_t along = in.axis(axis, x.rank());
    if (updates != in.shape(1) || updates.rank() != x.rank()) {
      fail(
          "scatter_elements: the indices {} and the updates {} must have the same dims, and the rank of x {}",
          in.shape(1).text(), updates.text(), x.text());
    }
    for (int64_t i = 0; i < x.rank(); ++i) {
      const bool known = x[i].is_static() && updates[i].is_static();
      if (i != along && known && updates[i].value() > x[i].value())
        fail("scatter_elements: axis {} of the updates {} is longer than that of x {}", i, updates.text(),
             x.text());
    }
    return {in[0]};
  }

  void reference(RefContext& r) const override {
    const std::vector<int64_t>& x = r.in(0).dims;
    const std::vector<int64_t>& dims = r.in(2).dims;
    const auto along = static_cast<size_t>(normal_axis(axis, std::ssize(x)));
    const std::vector<int64_t> to = row_major_strides(x);
    const std::vector<int64_t> from = row_major_strides(dims);
    std::vector<int64_t> slots = r.in(1).ints;
    for (size_t i = 0; i < slots.size(); ++i) {
      const int64_t index = slots[i];
      int64_t at = std::clamp<int64_t>(index < 0 ? index + x[along] : index, 0, x[along] - 1) * to[along];
      for (size_t a = 0; a < x.size(); ++a) {
        if (a != along) at += static_cast<int64_t>(i) / from[a] % dims[a] * to[a];
      }
      slots[i] = at;
    }
    reference_scatter(r, reduction, slots, 1);
  }

  void lower(Lowering& l) const override {
    const Operand& updates = l.in(2);
    const int64_t count = updates.view.elements();
    const Operand slots = l.scratch(DType::u32, {count});
    if (count > 0) lower_slots(l, slots);
    lower_scatter(l, {.reduction = reduction,
                      .x = l.in(0),
                      .slots = slots,
                      .updates = updates.with_view(updates.view, updates.view.rank()),
                      .y = l.out()});
  }

  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    return scatter_tolerance(reduction, inputs[2]);
  }

 private:
  void lower_slots(Lowering& l, const Operand& slots) const {
    const Operand& indices = l.in(1);
    const Dims& x = l.in(0).view.dims;
    const int64_t rank = indices.view.rank();
    const int64_t along = normal_axis(axis, rank);
    const View all{indices.view.dims, row_major_strides(x)};
    const View outer = all.slice_axes(0, along).coalesced();
    const View inner = all.slice_axes(along + 1, rank).coalesced();
    View walk = outer;
    const auto append = [&](int64_t dim, int64_t stride) {
      walk.dims.push_back(dim);
      walk.strides.push_back(stride);
    };
    append(all.dims[static_cast<size_t>(along)], all.strides[static_cast<size_t>(along)]);
    for (size_t i = 0; i < inner.dims.size(); ++i) append(inner.dims[i], inner.strides[i]);
    if (walk.rank() > kMostAxes) {
      fail(ErrorKind::unsupported,
           "updates with {} axes that cannot be joined are more than the {} of the kernel", walk.rank(),
           kMostAxes);
    }
    kernels::scatter_slots::Params params{.rank = to_u32(walk.rank()),
                                          .axis = to_u32(outer.rank()),
                                          .length = to_u32(to_i32(x[static_cast<size_t>(along)]))};
    for (size_t i = 0; i < walk.dims.size(); ++i) {
      params.dims[i] = to_u32(walk.dims[i]);
      params.strides[i] = to_u32(walk.strides[i]);
    }
    l.flat<kernels::scatter_slots>({.indices = indices, .y = slots}, params,
                                   {.SIGNED = is_signed_integer(indices.dtype)});
  }
};

}  // namespace

Value scatter_elements(Value x, Value indices, Value updates, int64_t axis, ScatterReduction reduction) {
  auto op = std::make_shared<ScatterElements>();
  op->axis = axis;
  op->reduction = reduction;
  return add_node(op, {x, indices, updates});
}

namespace ops {
void register_scatter_elements(OpTable& table) {
  table.add<ScatterElements>(
      {.formula =
           "y = x, with y[o, indices[o, j, k], k] joined with updates[o, j, k] along axis; without a "
           "reduction the last update counts; negative indices count from the end, those outside are clamped",
       .operands = "x (any): what is updated\n"
                   "indices (integer): of the shape of updates, where each goes along the axis\n"
                   "updates (any): of the type and rank of x",
       .attributes =
           "axis: along which the indices count\n"
           "reduction: how an update is joined with what is there; without one, the last update counts",
       .outputs = "y (any): of the type and shape of x",
       .types = "f32 f16 bf16 i32 u32 i64 i8 u8",
       .variants = {"scatter"},
       .samples = {
           "scatter_elements(T[3,17], i32[5,17] in -3..2, T[5,17]) {reduction=\"add\"}",
           "scatter_elements(T[3,17], i64[2,5] in -30..30, T[2,5]) {axis=-1}",
           "scatter_elements(T[2,7,5], u32[1,9,4] in 0..9, T[1,9,4]) {axis=1, reduction=\"max\"}",
           "scatter_elements(T[257], i8[300] in -128..127, T[300]) {reduction=\"min\"}",
           "scatter_elements(T[40,3], u8[50,3] in 0..39, T[50,3]) {reduction=\"mul\"}",
           "scatter_elements(i32[9], i32[300] in 0..8, i32[300] in 0..2000000000) {reduction=\"add\"}",
           "scatter_elements(i32[9], i32[300] in 0..8, i32[300] in 0..2000000000) {reduction=\"mul\"}",
           "scatter_elements(T[4,3], i32[0,3], T[0,3]) {reduction=\"add\"}",
           "scatter_elements(T[0,3], i32[0,3], T[0,3])",
           "scatter_elements(bool[17], i32[5] in 0..16, bool[5])",
           "scatter_elements(c64[17], i32[5] in 0..16, c64[5])",
           "scatter_elements(T[131,257], i32[131,200] in -9..999, T[131,200]) {axis=1}",
           "scatter_elements(T[50003], i32[200003] in 0..50002, T[200003]) {reduction=\"add\"}",
           "scatter_elements(T[300007], i32[100003] in 0..9, T[100003]) {reduction=\"max\"}"}});
}
}  // namespace ops

}  // namespace rlx
