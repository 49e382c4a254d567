// Complex numbers as pairs of floats, and back.
#include "ops/spectra/complex_views.h"

#include "base/fail.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/view_op.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/spectra.h"

namespace rlx {

View view_of_parts(View x) {
  for (int64_t& stride : x.strides) stride *= 2;
  x.offset *= 2;
  x.dims.push_back(2);
  x.strides.push_back(1);
  return x;
}

Operand as_floats(const Operand& x) {
  if (x.dtype != DType::c64) return x;
  Operand out = x;
  out.dtype = DType::f32;
  out.view = view_of_parts(x.view);
  return out;
}

namespace {

struct ViewAsReal final : OpOf<ViewAsReal> {
  static constexpr auto kName = "view_as_real";

  bool has(Trait t) const override { return t == Trait::view; }
  std::vector<TensorType> infer(const InferArgs& in) const override {
    in.expect_count(1);
    in.expect_dtype(0, in.dtype(0) == DType::c64, "c64");
    Shape shape = in.shape(0);
    shape.push_back(2);
    return {TensorType{DType::f32, shape}};
  }
  std::optional<View> view(const View& input, const Dims&) const override { return view_of_parts(input); }
  void reference(RefContext& r) const override {
    auto to = r.out().real.begin();
    for (const std::complex<double>& v : r.in(0).complex) {
      *to++ = v.real();
      *to++ = v.imag();
    }
  }
  Tolerance tolerance(std::span<const TensorType>) const override { return {.ulps = 0}; }
};

struct ViewAsComplex final : OpOf<ViewAsComplex> {
  static constexpr auto kName = "view_as_complex";

  bool has(Trait t) const override { return t == Trait::view; }
  std::vector<TensorType> infer(const InferArgs& in) const override {
    in.expect_count(1);
    in.expect_dtype(0, in.dtype(0) == DType::f32, "f32");
    const Shape& x = in.shape(0);
    if (x.rank() == 0 || !x[x.rank() - 1].is(2))
      fail("view_as_complex: the last axis of {} must have 2 elements, real and imaginary parts", x.text());
    Shape shape;
    for (int64_t axis = 0; axis + 1 < x.rank(); ++axis) shape.push_back(x[axis]);
    return {TensorType{DType::c64, shape}};
  }
  // Both parts must lie side by side, on a multiple of two.
  std::optional<View> view(const View& input, const Dims&) const override {
    View out = input;
    const int64_t between = out.strides.back();
    out.dims.pop_back();
    out.strides.pop_back();
    if (between != 1 || out.offset % 2 != 0) return std::nullopt;
    for (size_t axis = 0; axis < out.strides.size(); ++axis) {
      if (out.strides[axis] % 2 != 0 && out.dims[axis] != 1) return std::nullopt;
      out.strides[axis] /= 2;
    }
    out.offset /= 2;
    return out;
  }
  void reference(RefContext& r) const override {
    const std::vector<double>& x = r.in(0).real;
    for (size_t i = 0; i < r.out().complex.size(); ++i) r.out().complex[i] = {x[2 * i], x[2 * i + 1]};
  }
  Tolerance tolerance(std::span<const TensorType>) const override { return {.ulps = 0}; }
};

// Element `index` along the last axis, without it.
Value part(const Value& pairs, int64_t index) {
  const int64_t last = pairs.shape().rank() - 1;
  Shape shape;
  for (int64_t axis = 0; axis < last; ++axis) shape.push_back(pairs.shape()[axis]);
  return reshape(slice(pairs, last, index, 1), shape);
}

}  // namespace

Value view_as_real(Value x) { return add_node(std::make_shared<ViewAsReal>(), {x}); }
Value view_as_complex(Value x) { return add_node(std::make_shared<ViewAsComplex>(), {x}); }
Value real(Value x) { return part(view_as_real(x), 0); }
Value imag(Value x) { return part(view_as_real(x), 1); }
Value complex(Value re, Value im) {
  const auto column = [](const Value& v) {
    Shape shape = v.shape();
    shape.push_back(1);
    return reshape(v, shape);
  };
  return view_as_complex(concat({column(re), column(im)}, -1));
}

namespace ops {
void register_complex_views(OpTable& table) {
  table.add<ViewAsReal>({.formula = "real and imaginary parts along a new last axis",
                         .operands = "x: complex numbers",
                         .outputs = "y (f32): as x, with a last axis of 2 for real and imaginary part",
                         .types = "c64",
                         .variants = {"view"},
                         .samples = {"view_as_real(T[3,17])", "view_as_real(T[])", "view_as_real(T[0,3])",
                                     "view_as_real(T[1,257])", "view_as_real(T[65537])"}});
  table.add<ViewAsComplex>(
      {.formula = "complex numbers of the real and imaginary parts along the last axis",
       .operands = "x: real and imaginary parts, [.., 2]",
       .outputs = "y (c64): as x, without the last axis",
       .types = "f32",
       .variants = {"view"},
       .samples = {"view_as_complex(T[3,17,2])", "view_as_complex(T[2])", "view_as_complex(T[0,2])",
                   "view_as_complex(T[1,257,2])", "view_as_complex(T[65537,2])"}});
}
}  // namespace ops

}  // namespace rlx
