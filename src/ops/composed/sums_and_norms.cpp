// Reductions that are made of sums, maxima and element-wise functions. Those of 16-bit floats are rounded
// once, at the end.
#include "ops/composed/composite.h"
#include "ops/machinery/op_table.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"

namespace rlx {
namespace {

Value as_float(Value x) { return x.dtype() == DType::f32 ? x : cast(x, DType::f32); }
Value widened(Value x) {
  return x.dtype() == DType::f16 || x.dtype() == DType::bf16 ? cast(x, DType::f32) : x;
}
Value of_type(Value y, Value like) { return y.dtype() == like.dtype() ? y : cast(y, like.dtype()); }

using Reduction = Value (*)(Value, std::vector<int64_t>, bool);

struct Row {
  const char* name;
  Reduction function;
  const char* formula;
  const char* types;
  const char* range;  // of the samples
  Tolerance tolerance;
};
const Row kRows[] = {
    {"l1_norm", l1_norm, "the sum of |x| over the axes", "f32 f16 bf16 i32 i64 i8 u8", "", {.ulps = 4}},
    {"l2_norm", l2_norm, "the square root of the sum of x^2 over the axes", "f32 f16 bf16", "", {.ulps = 4}},
    {"sum_square", sum_square, "the sum of x^2 over the axes", "f32 f16 bf16 i32 i64", "", {.ulps = 4}},
    // A logarithm near 0 has the error of its argument, which is near 1.
    {"log_sum",
     log_sum,
     "the logarithm of the sum over the axes",
     "f32 f16 bf16",
     " in 0.5..2",
     {.ulps = 4, .scale = 1}},
    {"log_sum_exp",
     log_sum_exp,
     "the logarithm of the sum of e^x over the axes, without overflow",
     "f32 f16 bf16",
     "",
     {.ulps = 8, .scale = 4}},
    {"any", any, "whether an element over the axes is not 0", "f32 i32 u8 bool", "", {.ulps = 0}},
    {"all", all, "whether no element over the axes is 0", "f32 i32 u8 bool", "", {.ulps = 0}},
};

struct Reduced final : Composite<Reduced> {
  static constexpr auto kName = "";  // that of the row
  static constexpr int64_t kLeast = 1, kMost = 1;
  const Row* row = nullptr;
  std::vector<int64_t> axes;
  bool keepdims = false;

  explicit Reduced(const Row* r) : row(r) {}
  std::string_view name() const override { return row->name; }
  void visit_attributes(AttributeVisitor& v) override {
    v("axes", axes, {});
    v("keepdims", keepdims, false);
  }
  std::vector<Value> make(Graph&, const std::vector<Value>& in) const {
    return {row->function(in[0], axes, keepdims)};
  }
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    Tolerance t = row->tolerance;
    t.terms = static_cast<double>(inputs[0].shape.elements().value());
    return t;
  }
};

struct Variance final : Composite<Variance> {
  static constexpr auto kName = "variance";
  static constexpr int64_t kLeast = 1, kMost = 1;
  std::vector<int64_t> axes;
  bool keepdims = false;
  int64_t correction = 0;

  void visit_attributes(AttributeVisitor& v) override {
    v("axes", axes, {});
    v("keepdims", keepdims, false);
    v("correction", correction, 0);
  }
  std::vector<Value> make(Graph&, const std::vector<Value>& in) const {
    return {variance(in[0], axes, keepdims, correction)};
  }
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    return {.ulps = 16, .terms = static_cast<double>(inputs[0].shape.elements().value()), .scale = 8};
  }
};

}  // namespace

Value l1_norm(Value x, std::vector<int64_t> axes, bool keepdims) {
  return of_type(sum(abs(widened(x)), std::move(axes), keepdims), x);
}
Value sum_square(Value x, std::vector<int64_t> axes, bool keepdims) {
  return of_type(sum(square(widened(x)), std::move(axes), keepdims), x);
}
Value l2_norm(Value x, std::vector<int64_t> axes, bool keepdims) {
  return of_type(sqrt(sum(square(as_float(x)), std::move(axes), keepdims)), x);
}
Value log_sum(Value x, std::vector<int64_t> axes, bool keepdims) {
  return of_type(log(sum(as_float(x), std::move(axes), keepdims)), x);
}
// Less its maximum, so that nothing overflows; an infinite maximum is the result itself.
Value log_sum_exp(Value x, std::vector<int64_t> axes, bool keepdims) {
  const Value wide = as_float(x);
  if (x.shape().elements().is(0)) return of_type(log(sum(exp(wide), std::move(axes), keepdims)), x);
  const Value top = max(wide, axes, true);
  const Value finite = where(is_inf(top), 0, top);
  const Value total = log(sum(exp(wide - finite), std::move(axes), keepdims));
  return of_type(total + reshape(finite, total.shape()), x);
}
Value any(Value x, std::vector<int64_t> axes, bool keepdims) {
  return cast(max(cast(cast(x, DType::bool_), DType::u8), std::move(axes), keepdims), DType::bool_);
}
Value all(Value x, std::vector<int64_t> axes, bool keepdims) {
  return cast(min(cast(cast(x, DType::bool_), DType::u8), std::move(axes), keepdims), DType::bool_);
}
Value variance(Value x, std::vector<int64_t> axes, bool keepdims, int64_t correction) {
  const Value wide = as_float(x);
  const Value squares = square(wide - mean(wide, axes, true));
  if (correction == 0) return of_type(mean(squares, std::move(axes), keepdims), x);
  Dim count(1);
  for (int64_t i = 0; i < x.shape().rank(); ++i) {
    const auto is_axis = [&](int64_t a) { return (a < 0 ? a + x.shape().rank() : a) == i; };
    if (axes.empty() || std::ranges::any_of(axes, is_axis)) count *= x.shape()[i];
  }
  const Value divisor = cast(reshape(range(x.graph(), 1, count - Dim(correction)), {}), DType::f32);
  return of_type(sum(squares, std::move(axes), keepdims) / divisor, x);
}

namespace ops {
void register_reductions(OpTable& table) {
  const auto samples = [](const std::string& name, const std::string& range) {
    return std::vector{name + "(T[3,17]" + range + ") {axes=[-1]}",
                       name + "(T[2,5,7]" + range + ") {axes=[0,2], keepdims=true}",
                       name + "(T[257]" + range + ")", name + "(T[4,3]" + range + ") {axes=[0]}"};
  };
  for (const Row& row : kRows) {
    const bool tests = row.function == any || row.function == all;
    table.add({.name = row.name,
               .formula = row.formula,
               .operands = tests ? "x (any): what is tested" : "x: what is reduced",
               .attributes = "axes: which axes are reduced; all if empty\n"
                             "keepdims: reduced axes stay, with length 1",
               .outputs = tests ? "y (bool): of the shape of x without the reduced axes"
                                : "y: of the shape of x without the reduced axes",
               .types = row.types,
               .variants = {"expanded"},
               .samples = samples(row.name, row.range),
               .make = [&row] { return std::make_shared<Reduced>(&row); }});
  }
  table.add<Variance>({.formula = "the mean of (x - mean)^2 over the axes; correction c divides by n - c",
                       .operands = "x: what is reduced",
                       .attributes = "axes: which axes are reduced; all if empty\n"
                                     "keepdims: reduced axes stay, with length 1\n"
                                     "correction: what is subtracted from the number of elements that the "
                                     "sum is divided by",
                       .outputs = "y: of the shape of x without the reduced axes",
                       .types = "f32 f16 bf16",
                       .variants = {"expanded"},
                       .samples = samples(Variance::kName, "")});
}
}  // namespace ops

}  // namespace rlx
