#include "ops/reductions/mapped_reduce.h"

#include "ir/reference.h"
#include "ops/elementwise/elementwise.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/rows.h"

namespace rlx {

namespace {
template <class Sizes>
Dims joint(const Dims& all, const Sizes& other) {
  return broadcast(Shape(all), Shape(Dims(other.begin(), other.end())), MappedReduce::kName).values();
}
}  // namespace

Expr MappedReduce::expr(const std::vector<DType>& inputs) const {
  if (expression.empty()) fail("mapped_reduce: the expression is empty");
  return typed(expression, inputs);
}

Reduce MappedReduce::reduction() const {
  Reduce out(kind);
  out.axes = axes;
  out.keepdims = keepdims;
  return out;
}

std::vector<TensorType> MappedReduce::infer(const InferArgs& in) const {
  std::vector<DType> types;
  Shape shape;
  for (int64_t i = 0; i < in.count(); ++i) {
    types.push_back(in.dtype(i));
    shape = i == 0 ? in.shape(0) : broadcast(shape, in.shape(i), name());
  }
  const TensorType mapped{expr(types).result_type(), shape};
  if (!is_float(mapped.dtype)) fail("mapped_reduce: the expression is {}; it must be a float", mapped.text());
  return reduction().infer(InferArgs(*this, std::span(&mapped, 1)));
}

void MappedReduce::reference(RefContext& r) const {
  std::vector<DType> types;
  std::vector<const RefTensor*> inputs;
  Dims dims;
  for (int64_t i = 0; i < r.input_count(); ++i) {
    types.push_back(r.in(i).dtype);
    inputs.push_back(&r.in(i));
    dims = joint(dims, r.in(i).dims);
  }
  const Expr mapped = expr(types);
  const TensorType type{mapped.result_type(), Shape(dims)};
  RefContext inner(inputs, std::span(&type, 1));
  rlx::reference(mapped, inner);
  const TensorType result{r.out().dtype, Shape(r.out().dims)};
  RefContext outer({&inner.out()}, std::span(&result, 1));
  reduction().reference(outer);
  r.out() = outer.out();
}

void MappedReduce::lower(Lowering& l) const {
  if (l.out().view.elements() == 0) return;
  std::vector<DType> types;
  Dims dims;
  for (const Operand& o : l.inputs()) {
    types.push_back(o.dtype);
    dims = joint(dims, o.view.dims);
  }
  lower_mapped_reduce(l, kind, expr(types), l.inputs(), dims, reduced_axes(axes, std::ssize(dims)), l.out());
}

// The errors of the expression, of the size of what is added up, and those of the reduction.
Tolerance MappedReduce::tolerance(std::span<const TensorType> inputs) const {
  std::vector<DType> types;
  Shape shape = inputs[0].shape;
  for (const TensorType& t : inputs) {
    types.push_back(t.dtype);
    shape = broadcast(shape, t.shape, name());
  }
  const Expr mapped = expr(types);
  const TensorType type{mapped.result_type(), shape};
  Tolerance t = reduction().tolerance(std::span(&type, 1));
  t.ulps += mapped.ulps() + (type.dtype == DType::f32 ? 1 : epsilon(type.dtype) / epsilon(DType::f32));
  t.scale = 4 * std::max(1.0, t.scale);
  return t;
}

namespace ops {
void register_mapped_reduce(OpTable& table) {
  table.add<MappedReduce>(
      {.formula = "the reduction of an expression of broadcast inputs",
       .operands = "inputs... (any): $0, $1 and so on of the expression",
       .attributes = "kind: of the reduction\n"
                     "expr: the steps, of which the last is what is reduced\n"
                     "axes: which axes are reduced; all if empty\n"
                     "keepdims: reduced axes stay, with length 1",
       .outputs = "y: of the broadcast shape without the reduced axes",
       .types = "f32 f16 bf16",
       .variants = names_of(kSplittableRows),
       .samples =
           {"mapped_reduce(T[3,17]) {kind=\"mean\", expr=\"mul($0,$0)\", axes=[-1], keepdims=true}",
            "mapped_reduce(T[5,64], T[64], T[5,1]) {kind=\"sum\", expr=\"t0=mul($0,$1); t1=sub(t0,$2); "
            "tanh(t1)\", axes=[1]}",
            "mapped_reduce(T[65540], T[]) {kind=\"max\", expr=\"t0=sub($0,$1); abs(t0)\"}",
            "mapped_reduce(T[1031,260], T[260]) {kind=\"sum\", expr=\"mul($0,$1)\", axes=[0]}",
            "mapped_reduce(T[2,3,8], T[2,1,8]) {kind=\"min\", expr=\"add($0,$1)\", axes=[0,2]}",
            "mapped_reduce(T[0,4], T[4]) {kind=\"sum\", expr=\"mul($0,$1)\", axes=[1]}",
            "mapped_reduce(T[4,0], T[4,1]) {kind=\"sum\", expr=\"mul($0,$1)\", axes=[1]}"},
       .internal = true});
}
}  // namespace ops

}  // namespace rlx
