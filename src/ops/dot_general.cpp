// Contraction over any pairs of axes: both operands are seen as [batch, outer, contracted] matrices and
// multiplied.
#include <algorithm>
#include <cmath>

#include "ir/reference.h"
#include "kernels/lowering.h"
#include "ops/copy.h"
#include "ops/matmul.h"
#include "ops/op_table.h"
#include "rlx/ops.h"

namespace rlx {
namespace {

// The axes of one operand by their part.
struct Axes {
  std::vector<int64_t> batch, outer, contracted;
};

struct DotGeneral final : OpOf<DotGeneral> {
  static constexpr auto kName = "dot_general";
  std::vector<int64_t> a_contracting, b_contracting, a_batch, b_batch;

  void visit_attributes(AttributeVisitor& v) override {
    v("a_contracting", a_contracting);
    v("b_contracting", b_contracting);
    v("a_batch", a_batch, {});
    v("b_batch", b_batch, {});
  }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
  Tolerance tolerance(std::span<const TensorType> inputs) const override;
};

Axes split_axes(const InferArgs* check, int64_t rank, const std::vector<int64_t>& batch,
                const std::vector<int64_t>& contracting) {
  Axes axes;
  const auto normal = [&](int64_t axis) { return check ? check->axis(axis, rank) : normal_axis(axis, rank); };
  for (int64_t a : batch) axes.batch.push_back(normal(a));
  for (int64_t a : contracting) axes.contracted.push_back(normal(a));
  for (int64_t a = 0; a < rank; ++a) {
    if (!std::ranges::contains(axes.batch, a) && !std::ranges::contains(axes.contracted, a))
      axes.outer.push_back(a);
  }
  if (static_cast<int64_t>(axes.batch.size() + axes.contracted.size() + axes.outer.size()) != rank) {
    fail("dot_general: an axis of an operand of rank {} is named twice", rank);
  }
  return axes;
}

std::vector<int64_t> pick(const std::vector<int64_t>& dims, const std::vector<int64_t>& axes) {
  std::vector<int64_t> out;
  for (int64_t a : axes) out.push_back(dims[static_cast<size_t>(a)]);
  return out;
}

// The operand as [batch, rows, cols], either outer x contracted or the other way round.
View as_matrices(const View& v, const Axes& axes, bool contracted_last, bool* needs_copy) {
  std::vector<int64_t> order = axes.batch;
  const std::vector<int64_t>& rows = contracted_last ? axes.outer : axes.contracted;
  const std::vector<int64_t>& cols = contracted_last ? axes.contracted : axes.outer;
  order.insert(order.end(), rows.begin(), rows.end());
  order.insert(order.end(), cols.begin(), cols.end());
  const View permuted = v.permute(order);
  const std::vector<int64_t> target = {product(pick(v.dims, axes.batch)), product(pick(v.dims, rows)),
                                       product(pick(v.dims, cols))};
  const auto flat = permuted.reshape(target);
  *needs_copy = !flat.has_value();
  return flat ? *flat : permuted;
}

std::vector<TensorType> DotGeneral::infer(const InferArgs& in) const {
  in.expect_count(2);
  in.expect_same_dtype(0, 1);
  in.expect_float(0);
  if (a_contracting.size() != b_contracting.size() || a_batch.size() != b_batch.size()) {
    fail(
        "dot_general: {} and {} contracting axes, {} and {} batch axes; both operands must name the same "
        "number",
        a_contracting.size(), b_contracting.size(), a_batch.size(), b_batch.size());
  }
  const Axes a = split_axes(&in, in.shape(0).rank(), a_batch, a_contracting);
  const Axes b = split_axes(&in, in.shape(1).rank(), b_batch, b_contracting);
  const auto same = [&](const std::vector<int64_t>& x, const std::vector<int64_t>& y) {
    for (size_t i = 0; i < x.size(); ++i) {
      if (!(in.shape(0)[x[i]] == in.shape(1)[y[i]])) {
        fail("dot_general: axis {} of {} and axis {} of {} differ in size", x[i], in.shape(0).text(), y[i],
             in.shape(1).text());
      }
    }
  };
  same(a.contracted, b.contracted);
  same(a.batch, b.batch);
  Shape out;
  for (int64_t axis : a.batch) out.push_back(in.shape(0)[axis]);
  for (int64_t axis : a.outer) out.push_back(in.shape(0)[axis]);
  for (int64_t axis : b.outer) out.push_back(in.shape(1)[axis]);
  return {TensorType{in.dtype(0), out}};
}

void DotGeneral::lower(Lowering& l) const {
  const auto operand = [&](int64_t i, const Axes& axes, bool contracted_last) {
    bool needs_copy = false;
    View view = as_matrices(l.in(i).view, axes, contracted_last, &needs_copy);
    if (!needs_copy) return l.in(i).with_view(std::move(view));
    // Several axes that strides cannot join: bring them together in memory first.
    const Operand copy = l.scratch(l.in(i).dtype, view.dims);
    lower_copy(l, l.in(i).with_view(view), copy);
    const std::vector<int64_t>& dims = l.in(i).view.dims;
    const int64_t rows = product(pick(dims, contracted_last ? axes.outer : axes.contracted));
    const int64_t cols = product(pick(dims, contracted_last ? axes.contracted : axes.outer));
    return copy.with_view(View::contiguous({product(pick(dims, axes.batch)), rows, cols}));
  };
  if (l.out().view.elements() == 0) return;
  const Operand a = operand(0, split_axes(nullptr, l.in(0).view.rank(), a_batch, a_contracting), true);
  const Operand b = operand(1, split_axes(nullptr, l.in(1).view.rank(), b_batch, b_contracting), false);
  const Operand y = l.out().with_view(View::contiguous({a.view.dims[0], a.view.dims[1], b.view.dims[2]}));
  lower_product(l, a, b, y);
}

void DotGeneral::reference(RefContext& r) const {
  const auto matrices = [&](int64_t i, const std::vector<int64_t>& batch,
                            const std::vector<int64_t>& contracting, bool contracted_last,
                            std::vector<int64_t>* dims) {
    const Axes axes = split_axes(nullptr, static_cast<int64_t>(r.in(i).dims.size()), batch, contracting);
    bool ignored = false;
    const View v = as_matrices(View::contiguous(r.in(i).dims), axes, contracted_last, &ignored);
    const int64_t outer = product(pick(r.in(i).dims, axes.outer));
    const int64_t depth = product(pick(r.in(i).dims, axes.contracted));
    *dims = {product(pick(r.in(i).dims, axes.batch)), contracted_last ? outer : depth,
             contracted_last ? depth : outer};
    return gather_view(r.in(i).real, v);
  };
  std::vector<int64_t> da, db;
  const std::vector<double> a = matrices(0, a_batch, a_contracting, true, &da);
  const std::vector<double> b = matrices(1, b_batch, b_contracting, false, &db);
  for (int64_t i = 0; i < da[0]; ++i) {
    multiply_reference(a.data() + i * da[1] * da[2], b.data() + i * db[1] * db[2],
                       r.out().real.data() + i * da[1] * db[2], da[1], db[2], da[2]);
  }
}

Tolerance DotGeneral::tolerance(std::span<const TensorType> inputs) const {
  double k = 1;
  for (int64_t axis : a_contracting) {
    k *= static_cast<double>(inputs[0].shape[normal_axis(axis, inputs[0].shape.rank())].value());
  }
  return {.ulps = 2, .terms = k, .scale = 4 * std::sqrt(std::max(k, 1.0))};
}

}  // namespace

Value dot_general(Value a, Value b, std::vector<int64_t> a_contracting, std::vector<int64_t> b_contracting,
                  std::vector<int64_t> a_batch, std::vector<int64_t> b_batch) {
  auto op = std::make_shared<DotGeneral>();
  op->a_contracting = std::move(a_contracting);
  op->b_contracting = std::move(b_contracting);
  op->a_batch = std::move(a_batch);
  op->b_batch = std::move(b_batch);
  return a.graph().add_value(op, {a, b});
}

namespace ops {
void register_dot_general(OpTable& table) {
  table.add<DotGeneral>(
      {.formula = "y[batch.., a outer.., b outer..] = sum over pairs of contracted axes of a * b",
       .types = "f32 f16 bf16",
       .variants = {"matmul"},
       .samples = {"dot_general(T[3,17], T[17,5]) {a_contracting=[1], b_contracting=[0]}",
                   "dot_general(T[17,3], T[5,17]) {a_contracting=[0], b_contracting=[-1]}",
                   "dot_general(T[2,3,4,5], T[4,2,5,6]) {a_contracting=[2,3], b_contracting=[0,2], "
                   "a_batch=[0], b_batch=[1]}",
                   "dot_general(T[4,3,2], T[2,5,4]) {a_contracting=[0,2], b_contracting=[2,0]}",
                   "dot_general(T[3], T[4]) {a_contracting=[], b_contracting=[]}",
                   "dot_general(T[0,3], T[3,2]) {a_contracting=[1], b_contracting=[0]}",
                   "dot_general(T[130,257], T[257,68]) {a_contracting=[1], b_contracting=[0]}"}});
}
}  // namespace ops

}  // namespace rlx
