#include "ops/normalization/norm.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "ir/reference.h"
#include "kernels/norm.wgsl.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/rows.h"
#include "ops/machinery/staged.h"
#include "rlx/ops/normalization.h"

namespace rlx {
namespace {

// The axes that are normalised: `axis`, and all after it unless it is alone.
std::vector<int64_t> normal_axes(int64_t axis, bool alone, int64_t rank) {
  return alone ? std::vector{axis} : axes_from(axis, rank);
}

// Checks that input `i`, if it is given, is a float tensor with the shape of the normalised axes of x.
void expect_normalised(const InferArgs& in, int64_t i, std::string_view what, int64_t axis,
                       bool alone = false) {
  if (!in.has(i)) return;
  in.expect_float(i);
  Shape wanted;
  for (const int64_t a : normal_axes(axis, alone, in.shape(0).rank())) wanted.push_back(in.shape(0)[a]);
  if (in.shape(i) != wanted) {
    fail("{}: {} has shape {}; it must have {}, that of the input {} axis {}{}", in.op(), what,
         in.shape(i).text(), wanted.text(), alone ? "along" : "from", axis, alone ? "" : " on");
  }
}

// Everything that the two ops pass to the kernel; operands that are not given are absent.
struct NormCase {
  NormKind kind;
  double eps;
  NormRounding rounding;
  std::vector<int64_t> axes;  // those that are normalised, ascending
  Operand x, residual, bias, gamma, beta, limit, y, total;
};

// What the reference needs besides the sum.
struct NormValues {
  NormKind kind;
  double eps;
  std::vector<int64_t> axes;
  const RefTensor* gamma;  // both may be null
  const RefTensor* beta;
};

void reference_norm(const NormValues& n, const std::vector<double>& s, const std::vector<int64_t>& dims,
                    RefTensor& y) {
  Operand source;
  source.view = View::contiguous(dims);
  const Operand rows = as_rows(source, n.axes);
  const auto length = static_cast<size_t>(row_length(rows));
  const auto count = static_cast<double>(length);
  std::vector<size_t> places;
  rows.view.for_each_position([&](int64_t at) { places.push_back(static_cast<size_t>(at)); });
  for (size_t start = 0; start < s.size(); start += length) {
    const auto row = std::span(places).subspan(start, length);
    double mean = 0;
    if (n.kind == NormKind::layer) {
      for (const size_t at : row) mean += s[at] / count;
    }
    double variance = 0;
    for (const size_t at : row) variance += (s[at] - mean) * (s[at] - mean) / count;
    const double scale = 1 / std::sqrt(variance + n.eps);
    for (size_t j = 0; j < length; ++j) {
      y.real[row[j]] =
          (s[row[j]] - mean) * scale * (n.gamma ? n.gamma->real[j] : 1) + (n.beta ? n.beta->real[j] : 0);
    }
  }
}

// Results have the size of gamma times a few deviations; mean, difference, root and products each round. A
// row that happens to vary little is scaled up by at most 1/sqrt(eps); even short rows of random numbers stay
// far from that.
Tolerance norm_tolerance(const TensorType& x, const std::vector<int64_t>& axes) {
  double n = 1;
  for (const int64_t a : axes) n *= static_cast<double>(x.shape[a].value());
  return {.ulps = 16, .terms = n, .scale = 8};
}

// Each rounding moves the result by a unit of its type, or less.
Tolerance rounded_norm_tolerance(Tolerance t, DType y, NormRounding rounding) {
  constexpr double kRoundings[] = {0, 2, 5, 10};
  if (y != DType::f32) t.ulps += kRoundings[static_cast<size_t>(rounding)] * epsilon(y) / epsilon(DType::f32);
  return t;
}

TensorType result_type(TensorType x, std::optional<DType> to, NormRounding rounding, std::string_view op) {
  const DType y = to.value_or(x.dtype);
  if (!is_float(y)) fail("{}: the result would be {}; it must be a float", op, to_string(y));
  if (rounding >= NormRounding::centered && y != x.dtype)
    fail("{}: x is {} and the result {}; with this rounding they must have one type", op, to_string(x.dtype),
         to_string(y));
  x.dtype = y;
  return x;
}

Operand trailing_rows(const Operand& o) { return o.with_view(o.view, 0); }

// gamma, beta or a bias with an axis of length 1 in place of each one after the normalised axes.
Operand beside(const Operand& o, const NormCase& c) {
  Operand out = o;
  if (!o.present()) return out;
  for (int64_t axis = c.axes.back() + 1; axis < c.y.view.rank(); ++axis) {
    out.view.dims.push_back(1);
    out.view.strides.push_back(0);
  }
  return out;
}

// The type that a norm rounds to where it does as `rounding` says, f32 where it does not.
DType type_at(const NormCase& c, NormRounding rounding) {
  return c.rounding >= rounding ? c.y.dtype : DType::f32;
}

// An expression, and the same rounded to a type.
std::string rounded_to(std::string_view expr, DType type) {
  if (type == DType::f32) return std::string(expr);
  return formatted("t0={}; t1=cast_{}(t0); cast_f32(t1)", expr, to_string(type));
}

void lower_staged(Lowering& l, const NormCase& c) {
  Staged staged(l, c.y.view.dims);
  const auto mean = [&](const Operand& v) { return staged.reduce(ReduceKind::mean, v, c.axes); };
  const auto rounded = [&](std::string_view expr, NormRounding at, const OperandList& inputs) {
    return staged.map(rounded_to(expr, type_at(c, at)), inputs);
  };
  const auto rounded_mean = [&](NormRounding at, const Operand& v) {
    const DType type = type_at(c, at);
    const Operand m = mean(v);
    return type == DType::f32 ? m
                              : staged.map(formatted("t0=cast_{}($0); cast_f32(t0)", to_string(type)), {m});
  };
  using enum NormRounding;
  Operand s = staged.f32(c.x);
  const std::string sum = rounded_to("add($0,$1)", c.x.dtype);
  if (c.residual.present()) s = staged.map(sum, {s, staged.f32(c.residual)});
  if (c.bias.present()) s = staged.map(sum, {s, staged.f32(beside(c.bias, c))});
  if (c.limit.present()) {
    const Operand limit = staged.map(rounded_to("abs($0)", c.x.dtype), {staged.f32(c.limit)});
    s = staged.map("t0=neg($1); t1=maximum($0,t0); minimum(t1,$1)", {s, limit});
  }
  if (c.total.present()) staged.store(s, c.total);
  const bool layer = c.kind == NormKind::layer;
  // Twice: the mean of what is left is the rounding error of the first mean, which matters if that is large.
  // Nodes that round the mean leave that error.
  const int times = !layer ? 0 : type_at(c, centered) == DType::f32 ? 2 : 1;
  for (int i = 0; i < times; ++i) s = rounded("sub($0,$1)", centered, {s, rounded_mean(centered, s)});
  const Operand variance = rounded_mean(each, rounded("mul($0,$0)", each, {s}));
  const Operand spread = rounded(formatted("add($0,{})", c.eps), each, {variance});
  if (type_at(c, each) == DType::f32) {
    s = rounded("mul($0,$1)", scaled, {s, staged.map("rsqrt($0)", {spread})});
  } else {
    const Operand root = rounded("sqrt($0)", each, {spread});
    s = layer ? rounded("div($0,$1)", each, {s, root})
              : rounded("mul($0,$1)", each, {s, rounded("div(1,$0)", each, {root})});
  }
  if (c.gamma.present()) s = rounded("mul($0,$1)", scaled, {s, staged.f32(beside(c.gamma, c))});
  if (c.beta.present()) s = staged.map("add($0,$1)", {s, staged.f32(beside(c.beta, c))});
  staged.store(s, c.y);
}

void lower_norm(Lowering& l, std::string_view op, const NormCase& c) {
  if (c.y.view.elements() == 0) return;
  const auto rows = [&](const Operand& o) {
    return o.present() ? as_rows(o.with_view(o.view.broadcast_to(c.y.view.dims)), c.axes) : o;
  };
  const kernels::norm::Operands o{.x = rows(c.x),
                                  .residual = rows(c.residual),
                                  .bias = trailing_rows(c.bias),
                                  .gamma = trailing_rows(c.gamma),
                                  .beta = trailing_rows(c.beta),
                                  .limit = trailing_rows(c.limit),
                                  .y = rows(c.y),
                                  .total = rows(c.total)};
  const RowProblem p = row_problem(o.x, 3);
  if (!lower_rows<kernels::norm>(l, op, p, o, {.length = to_u32(p.length), .eps = static_cast<float>(c.eps)},
                                 {.CENTERED = c.kind == NormKind::layer,
                                  .ROUNDED = held_kind(c.x.dtype),
                                  .SCALED = held_kind(type_at(c, NormRounding::scaled)),
                                  .CENTER = held_kind(type_at(c, NormRounding::centered)),
                                  .EACH = held_kind(type_at(c, NormRounding::each))})) {
    lower_staged(l, c);
  }
}

}  // namespace

// --- layer_norm, rms_norm ---

std::vector<TensorType> Norm::infer(const InferArgs& in) const {
  in.expect_count(1, 3);
  in.expect_float(0);
  const int64_t from = in.axis(axis, in.shape(0).rank());
  expect_normalised(in, 1, "gamma", from, only_axis);
  expect_normalised(in, 2, "beta", from, only_axis);
  return {result_type(in[0], to, rounding, in.op())};
}

void Norm::reference(RefContext& r) const {
  const RefTensor& x = r.in(0);
  reference_norm({kind, eps, axes(std::ssize(x.dims)), r.optional_in(1), r.optional_in(2)}, x.real, x.dims,
                 r.out());
}

std::vector<int64_t> Norm::axes(int64_t rank) const {
  return normal_axes(normal_axis(axis, rank), only_axis, rank);
}

void Norm::lower(Lowering& l) const {
  lower_norm(l, name(),
             {.kind = kind,
              .eps = eps,
              .rounding = rounding,
              .axes = axes(l.out().view.rank()),
              .x = l.in(0),
              .gamma = l.optional_in(1),
              .beta = l.optional_in(2),
              .y = l.out()});
}

Tolerance Norm::tolerance(std::span<const TensorType> inputs) const {
  return rounded_norm_tolerance(norm_tolerance(inputs[0], axes(inputs[0].shape.rank())),
                                to.value_or(inputs[0].dtype), rounding);
}

// --- residual_layer_norm, residual_rms_norm ---

std::vector<TensorType> ResidualNorm::infer(const InferArgs& in) const {
  in.expect_count(1, 6);
  in.expect_float(0);
  if (in.has(1)) in.expect_float(1);
  const int64_t from = in.axis(axis, in.shape(0).rank());
  if (in.has(1) && broadcast(in.shape(0), in.shape(1), name()) != in.shape(0)) {
    fail("{}: the residual has shape {}, which is larger than the input's {}", name(), in.shape(1).text(),
         in.shape(0).text());
  }
  expect_normalised(in, 2, "the bias", from);
  expect_normalised(in, 3, "gamma", from);
  expect_normalised(in, 4, "beta", from);
  if (in.has(5)) {
    in.expect_float(5);
    if (in.shape(5).rank() != 0) fail("{}: the limit is {}; it must be a number", name(), in[5].text());
  }
  const TensorType y = result_type(in[0], to, rounding, in.op());
  return keep_sum ? std::vector<TensorType>{y, in[0]} : std::vector<TensorType>{y};
}

void ResidualNorm::reference(RefContext& r) const {
  const RefTensor& x = r.in(0);
  std::vector<double> s = x.real;
  for (int64_t i = 1; i < 3; ++i) {
    if (!r.has(i)) continue;
    const View view = View::contiguous(r.in(i).dims).broadcast_to(x.dims);
    const std::vector<double> addend = gather_view(r.in(i).real, view);
    for (size_t k = 0; k < s.size(); ++k) s[k] += addend[k];
  }
  if (r.has(5)) {
    const double limit = Tensor::from_doubles(x.dtype, {}, r.in(5).real).real(0);
    for (double& v : s) v = std::isnan(v) ? v : std::clamp(v, -limit, limit);
  }
  const int64_t rank = std::ssize(x.dims);
  reference_norm({kind, eps, axes_from(normal_axis(axis, rank), rank), r.optional_in(3), r.optional_in(4)}, s,
                 x.dims, r.out());
  if (keep_sum) r.out(1).real = s;
}

void ResidualNorm::lower(Lowering& l) const {
  lower_norm(l, name(),
             {.kind = kind,
              .eps = eps,
              .rounding = rounding,
              .axes = axes_from(normal_axis(axis, l.out().view.rank()), l.out().view.rank()),
              .x = l.in(0),
              .residual = l.optional_in(1),
              .bias = l.optional_in(2),
              .gamma = l.optional_in(3),
              .beta = l.optional_in(4),
              .limit = l.optional_in(5),
              .y = l.out(),
              .total = keep_sum ? l.out(1) : Operand{}});
}

// The sums are rounded to 16-bit floats, where that is their type.
Tolerance ResidualNorm::tolerance(std::span<const TensorType> inputs) const {
  const int64_t rank = inputs[0].shape.rank();
  Tolerance t = norm_tolerance(inputs[0], axes_from(normal_axis(axis, rank), rank));
  if (inputs[0].dtype != DType::f32) t.ulps += 2 * epsilon(inputs[0].dtype) / epsilon(DType::f32);
  return rounded_norm_tolerance(t, to.value_or(inputs[0].dtype), rounding);
}

namespace {
Value norm_value(NormKind kind, Value x, Value gamma, Value beta, double eps, int64_t axis, bool only_axis) {
  auto op = std::make_shared<Norm>(kind);
  op->eps = eps;
  op->axis = axis;
  op->only_axis = only_axis;
  return add_node(op, {x, gamma, beta});
}
}  // namespace

Value layer_norm(Value x, Value gamma, Value beta, double eps, int64_t axis, bool only_axis) {
  return norm_value(NormKind::layer, x, gamma, beta, eps, axis, only_axis);
}
Value rms_norm(Value x, Value gamma, Value beta, double eps, int64_t axis, bool only_axis) {
  return norm_value(NormKind::rms, x, gamma, beta, eps, axis, only_axis);
}

namespace ops {

void register_norm(OpTable& table) {
  for (const NormKind kind : {NormKind::layer, NormKind::rms}) {
    OpInfo info;
    info.name = Norm(kind).name();
    info.formula =
        kind == NormKind::layer
            ? "(x - mean) / sqrt(variance + eps) * gamma + beta over the axes from `axis` on, or `axis` "
              "alone; biased "
              "variance"
            : "x / sqrt(mean(x^2) + eps) * gamma + beta over the axes from `axis` on, or `axis` alone";
    info.operands =
        "x: what is normalised\n"
        "gamma? (float): factors, of the shape of the normalised axes; 1 if left out\n"
        "beta? (float): added after that, of the same shape; 0 if left out";
    info.attributes =
        "eps: added under the square root\n"
        "axis: the first normalised axis; all axes after it are normalised too\n"
        "only_axis: that axis alone is normalised\n"
        "to: the type of y; that of x if not given\n"
        "rounding: what is rounded to a y of 16 bits: the result, also what is scaled by gamma and the "
        "product, also the "
        "mean and what is left without it, or each step";
    info.outputs = "y (float): of the shape of x";
    info.types = "f32 f16 bf16";
    info.variants = names_of(kHoldingRows);
    const std::string op = info.name;
    info.samples = {op + "(T[3,17], T[17], T[17])",
                    op + "(T[5,36], T[36], f32[36]) {to=f16, rounding=\"scaled\"}",
                    op + "(T[3,19], f32[19]) {to=f32}",
                    op + "(T[7,44], T[44]) {rounding=\"centered\"}",
                    op + "(T[6,35], T[35], T[35]) {rounding=\"each\"}",
                    op + "(T[2,65537]) {rounding=\"each\"}",
                    op + "(T[3,17], T[17])",
                    op + "(T[2,3,8], T[3,8], T[3,8]) {axis=1, eps=0.001}",
                    op + "(T[257])",
                    op + "(T[3,20], none, T[20])",
                    op + "(T[8,256] in 90..94, T[256], T[256]) {axis=-1}",
                    op + "(T[4,1], T[1], T[1])",
                    op + "(T[0,4], T[4])",
                    op + "(T[4,0], T[0])",
                    op + "(T[257,300], T[300], T[300])",
                    op + "(T[2,17,3,5], T[17], T[17]) {axis=1, only_axis=true}",
                    op + "(T[1,3000,10,12], T[3000], T[3000]) {axis=-3, only_axis=true}",
                    op + "(T[2,65537], T[65537], T[65537])"};
    info.make = [kind] { return std::make_shared<Norm>(kind); };
    table.add(info);

    info.name = ResidualNorm(kind).name();
    info.formula = std::string(Norm(kind).name()) +
                   " of s = x + residual + bias, rounded as they are added, between -limit and limit; with "
                   "keep_sum also s";
    info.operands =
        "x: the first addend\n"
        "residual? (float): the second, broadcast to x; 0 if left out\n"
        "bias? (float): the third, of the shape of the normalised axes; 0 if left out\n"
        "gamma? (float): factors, of the shape of the normalised axes; 1 if left out\n"
        "beta? (float): added after that, of the same shape; 0 if left out\n"
        "limit? (float): a number that sums do not exceed, on either side of 0; none if left out";
    info.attributes =
        "keep_sum: whether there is the output sum\n"
        "eps: added under the square root\n"
        "axis: the first normalised axis; all axes after it are normalised too\n"
        "to: the type of y; that of x if not given\n"
        "rounding: what is rounded to a y of 16 bits: the result, also what is scaled by gamma and the "
        "product, also the "
        "mean and what is left without it, or each step";
    info.outputs =
        "y (float): the norm of the sum\n"
        "sum?: x + residual + bias";
    const std::string both = info.name;
    info.samples = {
        both + "(T[3,17], T[3,17], none, T[17], T[17])",
        both + "(T[3,17], T[3,17], none, T[17]) {keep_sum=true}",
        both + "(T[5,36], f16[5,36], none, T[36], T[36]) {keep_sum=true, to=f16, rounding=\"scaled\"}",
        both + "(T[5,36], T[5,36], none, T[36], T[36]) {keep_sum=true, rounding=\"each\"}",
        both + "(T[2,3,8], T[3,8], T[3,8], T[3,8], T[3,8]) {axis=1, keep_sum=true}",
        both + "(T[5,36], none, none, T[36], none, f32[] in 0.5..1) {keep_sum=true}",
        both + "(T[5,17], T[5,17], none, none, none, T[] in 0.5..1)",
        both + "(T[2,40000], T[2,40000], none, T[40000], none, f32[] in 0.5..1) {keep_sum=true}",
        both + "(T[4,256], T[1,256], T[256], T[256], T[256])",
        both + "(T[2,5,12], T[2,1,12], T[12], none, T[12]) {eps=0.001}",
        both + "(T[0,4], T[0,4], none, T[4])",
        both + "(T[257,300], T[257,300], T[300], T[300], T[300]) {keep_sum=true}",
        both + "(T[2,40000], T[2,40000], none, T[40000], T[40000]) {keep_sum=true}",
        both + "(T[1], T[1])"};
    info.internal = true;
    info.make = [kind] { return std::make_shared<ResidualNorm>(kind); };
    table.add(std::move(info));
  }
}

}  // namespace ops
}  // namespace rlx
