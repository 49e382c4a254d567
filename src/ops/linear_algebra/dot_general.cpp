// Contraction over any pairs of axes: a product of a as [batch.., outer.., contracted..] with b as [batch..,
// outer.., contracted..].
#include <algorithm>
#include <cmath>

#include "ir/reference.h"
#include "ops/linear_algebra/matmul.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/products/epilogue.h"
#include "ops/products/load_strided.h"
#include "ops/products/store_strided.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/rearrange.h"

namespace rlx {
namespace {

// The axes of one operand by their role.
struct Axes {
  std::vector<int64_t> batch, outer, contracted;
};

struct DotGeneral final : ProductOpOf<DotGeneral> {
  static constexpr auto kName = "dot_general";
  std::vector<int64_t> a_contracting, b_contracting, a_batch, b_batch;

  void visit_attributes(AttributeVisitor& v) override {
    v("a_contracting", a_contracting);
    v("b_contracting", b_contracting);
    v("a_batch", a_batch, {});
    v("b_batch", b_batch, {});
    v("epilogue", epilogue, {});
  }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  std::optional<std::vector<Value>> expand(const ExpandArgs& in) const override;
  void lower(Lowering& l) const override;
  Tolerance tolerance(std::span<const TensorType> inputs) const override;

  int64_t own_inputs() const override { return 2; }
  DType product_type(std::span<const DType> inputs) const override { return inputs[0]; }
  double terms(std::span<const TensorType> inputs) const override;
  std::shared_ptr<Op> with_epilogue(ExprAttr other) const override {
    auto op = std::make_shared<DotGeneral>(*this);
    op->epilogue = std::move(other);
    return op;
  }
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

using AxisList = std::vector<int64_t>;

AxisList side_by_side(AxisList a, const AxisList& b, const AxisList& c) {
  a.insert(a.end(), b.begin(), b.end());
  a.insert(a.end(), c.begin(), c.end());
  return a;
}

Shape pick(const Shape& shape, const AxisList& axes) {
  Shape out;
  for (int64_t axis : axes) out.push_back(shape[axis]);
  return out;
}

Shape result_shape(const Shape& a, const Axes& a_axes, const Shape& b, const Axes& b_axes) {
  Shape out = pick(a, side_by_side(a_axes.batch, a_axes.outer, {}));
  for (int64_t axis : b_axes.outer) out.push_back(b[axis]);
  return out;
}

// x as [batch.., rows, cols].
Value matrices(const Value& x, const AxisList& batch, const AxisList& rows, const AxisList& cols) {
  Shape shape = pick(x.shape(), batch);
  shape.push_back(pick(x.shape(), rows).elements());
  shape.push_back(pick(x.shape(), cols).elements());
  return reshape(transpose(x, side_by_side(batch, rows, cols)), shape);
}

std::vector<TensorType> DotGeneral::infer(const InferArgs& in) const {
  if (in.count() < 2) fail("dot_general: takes 2 inputs and those of its epilogue, not {}", in.count());
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
  const Shape out = result_shape(in.shape(0), a, in.shape(1), b);
  return {TensorType{epilogue_type(in, out), out}};
}

std::optional<std::vector<Value>> DotGeneral::expand(const ExpandArgs& in) const {
  const Axes a = split_axes(nullptr, in[0].shape().rank(), a_batch, a_contracting);
  const Axes b = split_axes(nullptr, in[1].shape().rank(), b_batch, b_contracting);
  if (!epilogue.empty()) return std::nullopt;
  // Several axes as one would be a copy of what does not lie in that order: such products are lowered as they
  // are.
  for (const AxisList* axes : {&a.outer, &a.contracted, &b.outer}) {
    if (axes->size() > 1) return std::nullopt;
  }
  const Value y = matmul(matrices(in[0], a.batch, a.outer, a.contracted),
                         matrices(in[1], b.batch, b.contracted, b.outer));
  const Shape shape = result_shape(in[0].shape(), a, in[1].shape(), b);
  return std::vector{y.shape() == shape ? y : reshape(y, shape)};
}

// How many of the innermost contracted elements lie evenly in both operands.
int64_t common_run(const View& a, const View& b) {
  int64_t run = 1;
  std::optional<size_t> inner;  // the axis before which others can be joined to the run
  for (size_t axis = a.dims.size(); axis-- > 0;) {
    if (a.dims[axis] == 1) continue;
    if (inner && (a.strides[axis] != a.strides[*inner] * a.dims[*inner] ||
                  b.strides[axis] != b.strides[*inner] * b.dims[*inner])) {
      break;
    }
    run *= a.dims[axis];
    inner = axis;
  }
  return run;
}

void DotGeneral::lower(Lowering& l) const {
  if (l.out().view.elements() == 0) return;
  const Axes a = split_axes(nullptr, l.in(0).view.rank(), a_batch, a_contracting);
  const Axes b = split_axes(nullptr, l.in(1).view.rank(), b_batch, b_contracting);
  const auto grouped = [](const Operand& o, const Axes& axes) {
    return products::Grouped{
        o.with_view(o.view.permute(side_by_side(axes.batch, axes.outer, axes.contracted))),
        std::ssize(axes.batch), std::ssize(axes.outer)};
  };
  const products::Grouped left = grouped(l.in(0), a);
  const products::Grouped right = grouped(l.in(1), b);
  products::Product p;
  p.size = {left.group(0).elements(), left.group(1).elements(), right.group(1).elements(),
            left.group(2).elements()};
  const int64_t run = common_run(left.group(2), right.group(2));
  p.run = run < p.size.k ? run : 0;
  std::vector<DType> types;
  for (const Operand& in : l.inputs()) types.push_back(in.dtype);
  p.expr = typed_epilogue(types);
  for (int64_t i = own_inputs(); i < l.input_count(); ++i) {
    p.extra.push_back({l.in(i).with_view(l.in(i).view.broadcast_to(l.out().view.dims)), std::ssize(a.batch),
                       std::ssize(a.outer)});
  }
  p.a = std::make_shared<products::LoadStrided>(left);
  p.b = std::make_shared<products::LoadStrided>(right);
  p.y = std::make_shared<products::StoreStrided>(
      products::Grouped{l.out(), std::ssize(a.batch), std::ssize(a.outer)});
  products::lower(l, kName, std::move(p));
}

void DotGeneral::reference(RefContext& r) const {
  const RefTensor& x = r.in(0);
  const RefTensor& w = r.in(1);
  const Axes a = split_axes(nullptr, std::ssize(x.dims), a_batch, a_contracting);
  const Axes b = split_axes(nullptr, std::ssize(w.dims), b_batch, b_contracting);
  const auto dense = [](const RefTensor& t, const AxisList& order) {
    return gather_view(t.real, View::contiguous(t.dims).permute(order));
  };
  const auto count = [](const RefTensor& t, const AxisList& axes) {
    return pick(Shape(t.dims), axes).elements().value();
  };
  const std::vector<double> left = dense(x, side_by_side(a.batch, a.outer, a.contracted));
  const std::vector<double> right = dense(w, side_by_side(b.batch, b.contracted, b.outer));
  const int64_t m = count(x, a.outer);
  const int64_t k = count(x, a.contracted);
  const int64_t n = count(w, b.outer);
  RefTensor y = RefTensor::zeros(x.dtype, r.out().dims);
  for (int64_t i = 0; i < count(x, a.batch); ++i)
    multiply_reference(left.data() + i * m * k, right.data() + i * k * n, y.real.data() + i * m * n, m, n, k);
  std::vector<DType> types;
  for (int64_t i = 0; i < r.input_count(); ++i) types.push_back(r.in(i).dtype);
  reference_epilogue(typed_epilogue(types), std::move(y), own_inputs(), r);
}

double DotGeneral::terms(std::span<const TensorType> inputs) const {
  double k = 1;
  for (int64_t axis : a_contracting) {
    k *= static_cast<double>(inputs[0].shape[normal_axis(axis, inputs[0].shape.rank())].value());
  }
  return k;
}

Tolerance DotGeneral::tolerance(std::span<const TensorType> inputs) const {
  const double k = terms(inputs);
  const Expr tail = typed_epilogue(input_dtypes(inputs));
  const double rounding = tail.steps.empty() ? 0 : epsilon(inputs[0].dtype) / epsilon(DType::f32);
  return {.ulps = 2 + rounding + tail.ulps(), .terms = k, .scale = 4 * std::sqrt(std::max(k, 1.0))};
}

}  // namespace

Value dot_general(Value a, Value b, std::vector<int64_t> a_contracting, std::vector<int64_t> b_contracting,
                  std::vector<int64_t> a_batch, std::vector<int64_t> b_batch) {
  auto op = std::make_shared<DotGeneral>();
  op->a_contracting = std::move(a_contracting);
  op->b_contracting = std::move(b_contracting);
  op->a_batch = std::move(a_batch);
  op->b_batch = std::move(b_batch);
  return add_node(op, {a, b});
}

namespace ops {
void register_dot_general(OpTable& table) {
  table.add<DotGeneral>(
      {.formula = "y[batch.., a outer.., b outer..] = epilogue(sum over pairs of contracted axes of a * b)",
       .operands = "a: the first factor\n"
                   "b: the second\n"
                   "extra... (any): further inputs of the epilogue, which broadcast to the result",
       .attributes = "a_contracting: the axes of a that are summed over\n"
                     "b_contracting: those of b that they are paired with, in this order\n"
                     "a_batch: the axes of a that count batches\n"
                     "b_batch: those of b that they are paired with, in this order\n"
                     "epilogue: a scalar expression of the result $0 and the extra inputs $1, "
                     "$2, ..; empty: none",
       .outputs = "y (any): [batch.., other axes of a.., other axes of b..]; of the type of "
                  "a, or of the epilogue",
       .types = "f32 f16 bf16",
       .variants = products::variant_names(),
       .samples = {"dot_general(T[3,17], T[17,5]) {a_contracting=[1], b_contracting=[0]}",
                   "dot_general(T[17,3], T[5,17]) {a_contracting=[0], b_contracting=[-1]}",
                   "dot_general(T[2,3,4,5], T[4,2,5,6]) {a_contracting=[2,3], b_contracting=[0,2], "
                   "a_batch=[0], b_batch=[1]}",
                   "dot_general(T[4,3,2], T[2,5,4]) {a_contracting=[0,2], b_contracting=[2,0]}",
                   "dot_general(T[3,4,5], T[5,4,6], T[6]) {a_contracting=[1,2], b_contracting=[1,0], "
                   "epilogue=\"t0=add($0,$1); relu(t0)\"}",
                   "dot_general(T[3], T[4]) {a_contracting=[], b_contracting=[]}",
                   "dot_general(T[0,3], T[3,2]) {a_contracting=[1], b_contracting=[0]}",
                   "dot_general(T[130,257], T[257,68]) {a_contracting=[1], b_contracting=[0]}"}});
}
}  // namespace ops

}  // namespace rlx
