#include <algorithm>

#include "kernels/scatter_nd_slots.wgsl.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/rearrange/scatter.h"

namespace rlx {
namespace {

constexpr int64_t kMostDepth = 8;

struct ScatterNd final : OpOf<ScatterNd> {
  static constexpr auto kName = "scatter_nd";
  ScatterReduction reduction = ScatterReduction::none;

  void visit_attributes(AttributeVisitor& v) override {
    v.choice("reduction", reduction, {"none", "add", "mul", "max", "min"},
             std::optional(ScatterReduction::none));
  }
  std::optional<ValueRange> sensible_values(int64_t input,
                                            std::span<const TensorType> inputs) const override {
    if (input != 1) return std::nullopt;
    const Shape& indices = inputs[1].shape;
    return index_range(inputs[0].shape, 0, indices[indices.rank() - 1].value());
  }

  std::vector<TensorType> infer(const InferArgs& in) const override {
    check_scatter(in, reduction);
    const Shape& x = in.shape(0);
    const Shape& indices = in.shape(1);
    const int64_t last = indices.rank() - 1;
    if (last < 0 || !indices[last].is_static())
      fail("scatter_nd: the last axis of the indices {} must be known", indices.text());
    const int64_t depth = indices[last].value();
    if (depth < 1 || depth > std::min(kMostDepth, x.rank())) {
      fail("scatter_nd: the indices {} have {} numbers for the {} axes of x {} (at most {})", indices.text(),
           depth, x.rank(), x.text(), kMostDepth);
    }
    Shape wanted;
    for (int64_t i = 0; i < last; ++i) wanted.push_back(indices[i]);
    for (int64_t i = depth; i < x.rank(); ++i) wanted.push_back(x[i]);
    if (in.shape(2) != wanted) {
      fail("scatter_nd: updates {} for indices {} and x {} must be {}", in.shape(2).text(), indices.text(),
           x.text(), wanted.text());
    }
    return {in[0]};
  }

  void reference(RefContext& r) const override {
    const std::vector<int64_t>& x = r.in(0).dims;
    const int64_t depth = r.in(1).dims.back();
    std::vector<int64_t> slots(r.in(1).ints.size() / static_cast<size_t>(depth), 0);
    for (size_t i = 0; i < r.in(1).ints.size(); ++i) {
      const int64_t length = x[i % static_cast<size_t>(depth)];
      const int64_t index = r.in(1).ints[i];
      int64_t& slot = slots[i / static_cast<size_t>(depth)];
      slot = slot * length + std::clamp<int64_t>(index < 0 ? index + length : index, 0, length - 1);
    }
    reference_scatter(r, reduction, slots, product({x.begin() + depth, x.end()}));
  }

  void lower(Lowering& l) const override {
    const Operand& indices = l.in(1);
    const Dims& x = l.in(0).view.dims;
    const int64_t depth = indices.view.dims.back();
    const int64_t count = indices.view.elements() / depth;
    const Operand slots = l.scratch(DType::u32, {count});
    kernels::scatter_nd_slots::Params params{.depth = to_u32(depth)};
    for (int64_t d = 0; d < depth; ++d)
      params.lengths[static_cast<size_t>(d)] = to_u32(to_i32(x[static_cast<size_t>(d)]));
    const Operand& updates = l.in(2);
    if (updates.view.elements() > 0) {
      l.flat<kernels::scatter_nd_slots>({.indices = indices, .y = slots}, params,
                                        {.SIGNED = is_signed_integer(indices.dtype)});
    }
    lower_scatter(l, {.reduction = reduction,
                      .x = l.in(0),
                      .slots = slots,
                      .updates = updates.with_view(updates.view, indices.view.rank() - 1),
                      .inner = product({x.begin() + depth, x.end()}),
                      .y = l.out()});
  }

  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    return scatter_tolerance(reduction, inputs[2]);
  }
};

}  // namespace

Value scatter_nd(Value x, Value indices, Value updates, ScatterReduction reduction) {
  auto op = std::make_shared<ScatterNd>();
  op->reduction = reduction;
  return add_node(op, {x, indices, updates});
}

namespace ops {
void register_scatter_nd(OpTable& table) {
  table.add<ScatterNd>(
      {.formula = "y = x, with y[indices[i, :], ...] joined with updates[i, ...]; without a reduction the "
                  "last update "
                  "counts; negative indices count from the end, those outside are clamped",
       .operands = "x (any): what is updated\n"
                   "indices (integer): [.., d], each d of them an index into the first d axes of x\n"
                   "updates (any): of the type of x, [.., the remaining axes of x]",
       .attributes =
           "reduction: how an update is joined with what is there; without one, the last update counts",
       .outputs = "y (any): of the type and shape of x",
       .types = "f32 f16 bf16 i32 u32 i64 i8 u8",
       .variants = {"scatter"},
       .samples = {"scatter_nd(T[5,7], i32[9,1] in -5..4, T[9,7]) {reduction=\"add\"}",
                   "scatter_nd(T[3,5,7], i64[2,4,2] in -9..9, T[2,4,7])",
                   "scatter_nd(T[3,5,7], i32[4,3] in 0..6, T[4]) {reduction=\"max\"}",
                   "scatter_nd(T[257], u8[300,1] in 0..255, T[300]) {reduction=\"min\"}",
                   "scatter_nd(T[40,3], i32[50,1] in 0..39, T[50,3]) {reduction=\"mul\"}",
                   "scatter_nd(T[4,3], i32[0,1], T[0,3])",
                   "scatter_nd(bool[9,4], i32[5,1] in 0..8, bool[5,4])",
                   "scatter_nd(T[131,257,3], u32[3001,2] in 0..130, T[3001,3]) {reduction=\"add\"}",
                   "scatter_nd(T[1031,257], i32[500,1] in 0..1030, T[500,257])"}});
}
}  // namespace ops

}  // namespace rlx
