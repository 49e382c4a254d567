#include "ops/rearrange/reshape.h"

#include "ir/dim_choices.h"
#include "ops/machinery/op_table.h"
#include "rlx/ops/rearrange.h"

namespace rlx {
namespace {

std::set<std::string> symbols_of(const Dim& dim) {
  std::set<std::string> symbols;
  dim.collect_symbols(symbols);
  return symbols;
}

// Whether the counts are equal, or may be once their symbols are bound (inference then runs again): counts of
// the same symbols that are not the same polynomial differ, unless one has a minimum in it.
bool may_be_equal(const Dim& a, const Dim& b) {
  return a == b || symbols_of(a) != symbols_of(b) || !minima(a).empty() || !minima(b).empty();
}

}  // namespace

std::vector<TensorType> Reshape::infer(const InferArgs& in) const {
  in.expect_count(1);
  const Dim elements = in.shape(0).elements();
  Shape out = shape;
  int64_t inferred = -1;
  Dim known = 1;
  for (int64_t axis = 0; axis < shape.rank(); ++axis) {
    if (!shape[axis].is(-1)) {
      known *= shape[axis];
    } else if (inferred < 0) {
      inferred = axis;
    } else {
      fail("reshape: dims {} and {} of {} are -1; only one can be inferred", inferred, axis, shape.text());
    }
  }
  if (inferred >= 0) {
    const std::optional<Dim> rest = Dim::exact_div(elements, known);
    if (!rest) {
      fail("reshape: {} has {} elements, which cannot be divided by the {} of {} to infer dim {}",
           in.shape(0).text(), elements.text(), known.text(), shape.text(), inferred);
    }
    out[inferred] = *rest;
  } else if (!may_be_equal(elements, known)) {
    fail("reshape: {} has {} elements, but {} has {}", in.shape(0).text(), elements.text(), shape.text(),
         known.text());
  }
  return {TensorType{in.dtype(0), out}};
}

std::optional<View> Reshape::view(const View& input, const Dims& out_dims) const {
  return input.reshape(out_dims);
}

Value reshape(Value x, Shape shape) {
  auto op = std::make_shared<Reshape>();
  op->shape = std::move(shape);
  return add_node(op, {x});
}

namespace ops {
void register_reshape(OpTable& table) {
  table.add<Reshape>(
      {.formula = "the same elements in row-major order under another shape; one dim may be -1",
       .operands = "x: of any shape",
       .attributes = "shape: of y; one dim may be -1, which is then inferred",
       .outputs = "y: the elements of x",
       .types = "f32 f16 bf16 i32 u32 i64 bool i8 u8 c64",
       .variants = {"view"},
       .samples = {"reshape(T[3,17]) {shape=[17,3]}", "reshape(T[2,3,4]) {shape=[-1,6]}",
                   "reshape(T[1]) {shape=[]}", "reshape(T[]) {shape=[1,-1]}",
                   "reshape(T[0,4]) {shape=[2,0,3]}", "reshape(T[257]) {shape=[1,257,1]}",
                   "reshape(T[65537]) {shape=[-1,1]}", "reshape(T[6,4,5]) {shape=[2,3,20]}"}});
}
}  // namespace ops

}  // namespace rlx
