// Slices at tuples of indices.
#include <algorithm>

#include "ir/reference.h"
#include "kernels/gather_nd.wgsl.h"
#include "kernels/lowering.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/rearrange/contiguous.h"
#include "rlx/ops/rearrange.h"

namespace rlx {
namespace {

constexpr int64_t kMostDepth = 8;

// x as [batch, gathered..., inner], the indices as [batch, tuples, depth].
struct Sizes {
  int64_t batch, tuples, depth, inner;
  std::vector<int64_t> lengths;  // of the gathered axes
};

Sizes sizes(int64_t batch_axes, const std::vector<int64_t>& x, const std::vector<int64_t>& indices) {
  const auto b = static_cast<std::ptrdiff_t>(batch_axes);
  const int64_t depth = indices.back();
  const auto gathered = x.begin() + b;
  return {product({x.begin(), gathered}),
          product({indices.begin() + b, indices.end() - 1}),
          depth,
          product({gathered + depth, x.end()}),
          {gathered, gathered + depth}};
}

struct GatherNd final : OpOf<GatherNd> {
  static constexpr auto kName = "gather_nd";
  int64_t batch_axes = 0;

  void visit_attributes(AttributeVisitor& v) override { v("batch_axes", batch_axes, 0); }
  std::optional<ValueRange> sensible_values(int64_t input,
                                            std::span<const TensorType> inputs) const override {
    if (input != 1) return std::nullopt;
    const Shape& indices = inputs[1].shape;
    return index_range(inputs[0].shape, batch_axes, indices[indices.rank() - 1].value());
  }

  std::vector<TensorType> infer(const InferArgs& in) const override {
    in.expect_count(2);
    in.expect_dtype(1, is_integer(in.dtype(1)), "an integer type");
    const Shape& x = in.shape(0);
    const Shape& indices = in.shape(1);
    const int64_t last = indices.rank() - 1;
    if (last < 0)
      fail("gather_nd: the indices are a scalar; their last axis has an index for each axis of x");
    if (batch_axes < 0 || batch_axes > std::min(x.rank(), last))
      fail("gather_nd: there are {} batch axes in x {} and indices {}", batch_axes, x.text(), indices.text());
    for (int64_t i = 0; i < batch_axes; ++i) {
      if (x[i] != indices[i])
        fail("gather_nd: batch axis {} of x {} and of the indices {} differ", i, x.text(), indices.text());
    }
    if (!indices[last].is_static())
      fail("gather_nd: the last axis of the indices {} must be known", indices.text());
    const int64_t depth = indices[last].value();
    if (depth < 1 || depth > std::min(kMostDepth, x.rank() - batch_axes))
      fail("gather_nd: the indices {} have {} numbers for the {} axes of x {} (at most {})", indices.text(),
           depth, x.rank() - batch_axes, x.text(), kMostDepth);
    Shape y;
    for (int64_t i = 0; i < last; ++i) y.push_back(indices[i]);
    bool empty = false;
    for (int64_t i = batch_axes; i < x.rank(); ++i) {
      if (i < batch_axes + depth) {
        empty |= x[i].is(0);
      } else {
        y.push_back(x[i]);
      }
    }
    if (empty && !y.elements().is(0)) fail("gather_nd: x {} has no elements to take", x.text());
    return {TensorType{in.dtype(0), y}};
  }

  void reference(RefContext& r) const override {
    const RefTensor& x = r.in(0);
    const std::vector<int64_t>& indices = r.in(1).ints;
    if (r.out().elements() == 0) return;
    const Sizes s = sizes(batch_axes, x.dims, r.in(1).dims);
    visit_both(x, r.out(), [&](const auto& from, auto& to) {
      auto out = to.begin();
      for (int64_t tuple = 0; tuple < s.batch * s.tuples; ++tuple) {
        int64_t at = tuple / s.tuples;
        for (int64_t d = 0; d < s.depth; ++d) {
          const int64_t length = s.lengths[static_cast<size_t>(d)];
          const int64_t index = indices[static_cast<size_t>(tuple * s.depth + d)];
          at = at * length + std::clamp<int64_t>(index < 0 ? index + length : index, 0, length - 1);
        }
        out = std::copy_n(from.begin() + at * s.inner, s.inner, out);
      }
    });
  }

  void lower(Lowering& l) const override {
    if (l.out().view.elements() == 0) return;
    const Sizes s = sizes(batch_axes, l.in(0).view.dims, l.in(1).view.dims);
    kernels::gather_nd::Params params{
        .tuples = to_u32(s.tuples), .inner = to_u32(s.inner), .depth = to_u32(s.depth)};
    for (size_t d = 0; d < s.lengths.size(); ++d) params.lengths[d] = to_u32(to_i32(s.lengths[d]));
    const kernels::gather_nd::Operands operands{.x = l.in(0), .indices = l.in(1), .y = l.out()};
    l.flat<kernels::gather_nd>(operands, params, {.SIGNED = is_signed_integer(l.in(1).dtype)});
  }
};

}  // namespace

Value gather_nd(Value x, Value indices, int64_t batch_axes) {
  auto op = std::make_shared<GatherNd>();
  op->batch_axes = batch_axes;
  return add_node(op, {x, indices});
}

namespace ops {
void register_gather_nd(OpTable& table) {
  table.add<GatherNd>(
      {.formula = "y[b, i, ...] = x[b, indices[b, i, :], ...]; negative indices count from the end, those "
                  "outside are clamped",
       .operands = "x: [batch.., indexed axes.., rest..]\n"
                   "indices (integer): [batch.., tuples.., number of indexed axes]; negative "
                   "ones count from the end, those outside are clamped",
       .attributes = "batch_axes: how many leading axes x and indices have in common",
       .outputs = "y: [batch.., tuples.., rest..]",
       .types = "f32 f16 bf16 i32 u32 i64 bool i8 u8 c64",
       .variants = {"gather_nd"},
       .samples = {"gather_nd(T[3,17], i32[5,2] in -3..2)",
                   "gather_nd(T[3,5,7], i64[3,4,1] in -9..9) {batch_axes=1}",
                   "gather_nd(T[2,3,5,7], i32[2,3,2] in 0..6) {batch_axes=2}",
                   "gather_nd(T[257], u8[1] in 0..255)", "gather_nd(T[4,3], i32[0,1])",
                   "gather_nd(T[0,3], i32[0,2])", "gather_nd(T[131,257,3], u32[3001,2] in 0..130)",
                   "gather_nd(T[300007], i32[100003,1] in 0..300006)"}});
}
}  // namespace ops

}  // namespace rlx
