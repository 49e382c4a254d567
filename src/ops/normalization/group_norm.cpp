// Norms over groups of channels of an image.
#include <cmath>

#include "base/format.h"
#include "ir/reference.h"
#include "kernels/binder.h"
#include "kernels/group_norm.wgsl.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/rows.h"
#include "ops/machinery/staged.h"
#include "rlx/ops/convolution.h"
#include "rlx/ops/normalization.h"

namespace rlx {
namespace {

// group_norm(x, [gamma], [beta]): (x - mean) / sqrt(variance + eps) * gamma + beta, with mean and biased
// variance of the elements of each image's groups of neighbouring channels; gamma and beta are [channels].
struct GroupNorm final : OpOf<GroupNorm> {
  static constexpr auto kName = "group_norm";
  int64_t groups = 1;
  double eps = 1e-5;
  ConvLayout layout = ConvLayout::channels_first;

  void visit_attributes(AttributeVisitor& v) override {
    v("groups", groups);
    v("eps", eps, 1e-5);
    v.choice("layout", layout, {"channels_first", "channels_last"},
             std::optional(ConvLayout::channels_first));
  }
  bool has(Trait t) const override { return t == Trait::rounds_once; }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
  Tolerance tolerance(std::span<const TensorType> inputs) const override;

  bool last() const { return layout == ConvLayout::channels_last; }
  int64_t channel_axis(int64_t rank) const { return last() ? rank - 1 : 1; }
  // x or y with an axis for the groups before that of the channels of a group.
  View grouped(const View& v) const { return v.split_axis(channel_axis(v.rank()), groups); }
  // The axes of such a view over which a norm goes.
  std::vector<int64_t> inner(int64_t rank) const;
};

std::vector<int64_t> GroupNorm::inner(int64_t rank) const {
  std::vector<int64_t> axes;
  const int64_t group = last() ? rank - 2 : 1;
  for (int64_t axis = 1; axis < rank; ++axis) {
    if (axis != group) axes.push_back(axis);
  }
  return axes;
}

std::vector<TensorType> GroupNorm::infer(const InferArgs& in) const {
  in.expect_count(1, 3);
  in.expect_float(0);
  const Shape& x = in.shape(0);
  if (x.rank() < 2) fail("group_norm: x {} has rank {}; it needs a batch and channels", x.text(), x.rank());
  const Dim& channels = x[channel_axis(x.rank())];
  if (!channels.is_static()) fail("group_norm: the number of channels of x {} must be known", x.text());
  if (groups < 1 || channels.value() % groups != 0)
    fail("group_norm: {} channels cannot be divided evenly among {} groups", channels.text(), groups);
  for (int64_t i = 1; i < in.count(); ++i) {
    if (!in.has(i)) continue;
    in.expect_float(i);
    if (!(in.shape(i) == Shape{channels}))
      fail("group_norm: {} has the shape {}; {} channels need [{}]", i == 1 ? "gamma" : "beta",
           in.shape(i).text(), channels.text(), channels.text());
  }
  return {in[0]};
}

void GroupNorm::reference(RefContext& r) const {
  const RefTensor& x = r.in(0);
  Operand all;
  all.view = grouped(View::contiguous(x.dims));
  const Operand rows = as_rows(all, inner(all.view.rank()));
  const auto length = static_cast<size_t>(row_length(rows));
  const auto channels = static_cast<size_t>(x.dims[static_cast<size_t>(channel_axis(std::ssize(x.dims)))]);
  const size_t each = channels / static_cast<size_t>(groups);
  std::vector<size_t> places;
  rows.view.for_each_position([&](int64_t at) { places.push_back(static_cast<size_t>(at)); });
  for (size_t start = 0; start < places.size(); start += length) {
    const auto row = std::span(places).subspan(start, length);
    double mean = 0;
    for (const size_t at : row) mean += x.real[at] / static_cast<double>(length);
    double variance = 0;
    for (const size_t at : row)
      variance += (x.real[at] - mean) * (x.real[at] - mean) / static_cast<double>(length);
    const size_t first = start / length % static_cast<size_t>(groups) * each;
    for (size_t j = 0; j < length; ++j) {
      const size_t c = first + (last() ? j % each : j / (length / each));
      r.out().real[row[j]] =
          (x.real[row[j]] - mean) / std::sqrt(variance + eps) * (r.has(1) ? r.in(1).real[c] : 1) +
          (r.has(2) ? r.in(2).real[c] : 0);
    }
  }
}

// As for layer_norm.
Tolerance GroupNorm::tolerance(std::span<const TensorType> inputs) const {
  const Shape& x = inputs[0].shape;
  double n = 1 / static_cast<double>(groups);
  for (int64_t axis = 1; axis < x.rank(); ++axis) n *= static_cast<double>(x[axis].value());
  return {.ulps = 16, .terms = n, .scale = 8};
}

// Views of gamma or beta: as the kernel reads them, [batch, groups, channels of a group], and as they
// broadcast to the axes of the image.
Operand by_group(const Operand& o, int64_t batch, int64_t groups) {
  if (!o.present()) return o;
  View v = o.view.split_axis(0, groups);
  v.dims.insert(v.dims.begin(), batch);
  v.strides.insert(v.strides.begin(), 0);
  return o.with_view(v, 2);
}

void lower_staged(Lowering& l, const GroupNorm& op) {
  const View dims = op.grouped(l.out().view);
  Staged staged(l, dims.dims);
  const std::vector<int64_t> axes = op.inner(dims.rank());
  const auto mean = [&](const Operand& v) { return staged.reduce(ReduceKind::mean, v, axes); };
  const auto beside = [&](const Operand& o) {
    View v = o.view.split_axis(0, op.groups);
    for (int64_t axis = 3; axis < dims.rank() && !op.last(); ++axis) {
      v.dims.push_back(1);
      v.strides.push_back(0);
    }
    return staged.f32(o.with_view(v));
  };
  Operand s = staged.f32(l.in(0).with_view(op.grouped(l.in(0).view)));
  // Twice: the mean of what is left is the rounding error of the first mean.
  for (int i = 0; i < 2; ++i) s = staged.map("sub($0,$1)", {s, mean(s)});
  const Operand variance = mean(staged.map("mul($0,$0)", {s}));
  s = staged.map("mul($0,$1)", {s, staged.map(formatted("t0=add($0,{}); rsqrt(t0)", op.eps), {variance})});
  if (const Operand gamma = l.optional_in(1); gamma.present())
    s = staged.map("mul($0,$1)", {s, beside(gamma)});
  if (const Operand beta = l.optional_in(2); beta.present()) s = staged.map("add($0,$1)", {s, beside(beta)});
  staged.store(s, l.out().with_view(dims));
}

using Kernel = kernels::group_norm;

// Statistics of parts of rows, then the parts themselves. False, and nothing emitted, if the device cannot
// bind all parts at once.
bool lower_in_parts(Lowering& l, const RowProblem& p, Kernel::Operands operands, Kernel::Params params,
                    Kernel::Spec spec) {
  const int64_t chunk = split_chunk(l.caps(), p);
  RowProblem parts = p;
  parts.rows = p.rows * ceil_div(p.length, chunk);
  parts.length = chunk;
  parts.split = nullptr;
  params.chunk = to_u32(chunk);
  operands.moments = l.scratch(DType::f32, {parts.rows, 4});
  parts.run = [&](const Team& team) {
    spec.PHASE = Kernel::MOMENTS;
    Dispatch moments = row_dispatch<Kernel>(l, team, parts.rows,
                                            {.x = operands.x, .moments = operands.moments}, params, spec);
    spec.PHASE = Kernel::APPLY;
    Dispatch apply = row_dispatch<Kernel>(l, team, parts.rows, operands, params, spec);
    allow_in_place(apply);
    for (Dispatch* d : {&moments, &apply}) {
      d->variant = {.row = kSplitRows.name};  // whichever team it has
      if (!fits(*d, l.caps())) return false;
    }
    l.emit(std::move(moments));
    l.emit(std::move(apply));
    return true;
  };
  return l.choose("group_norm", kRowVariants, parts).make(l, parts);
}

void GroupNorm::lower(Lowering& l) const {
  if (l.out().view.elements() == 0) return;
  const auto rows = [&](const Operand& o) {
    const View v = grouped(o.view);
    return as_rows(o.with_view(v), inner(v.rank()));
  };
  const Operand x = rows(l.in(0));
  const int64_t batch = x.view.dims[0];
  const int64_t each = l.in(0).view.dims[static_cast<size_t>(channel_axis(l.in(0).view.rank()))] / groups;
  RowProblem p = row_problem(x, 2);
  const Kernel::Operands operands{.x = x,
                                  .gamma = by_group(l.optional_in(1), batch, groups),
                                  .beta = by_group(l.optional_in(2), batch, groups),
                                  .y = rows(l.out())};
  const Kernel::Params params{.rows = to_u32(p.rows),
                              .length = to_u32(p.length),
                              .chunk = to_u32(p.length),
                              .run = to_u32(last() ? each : p.length / each),
                              .eps = static_cast<float>(eps)};
  const Kernel::Spec spec{.LAST = last()};
  p.split = [&] { return lower_in_parts(l, p, operands, params, spec); };
  if (!lower_rows<Kernel>(l, name(), p, operands, params, spec)) lower_staged(l, *this);
}

}  // namespace

Value group_norm(Value x, int64_t groups, Value gamma, Value beta, double eps, ConvLayout layout) {
  auto op = std::make_shared<GroupNorm>();
  op->groups = groups;
  op->eps = eps;
  op->layout = layout;
  return add_node(op, {x, gamma, beta});
}

Value instance_norm(Value x, Value gamma, Value beta, double eps, ConvLayout layout) {
  const Shape& shape = x.shape();
  if (shape.rank() < 2) fail("instance_norm: x {} needs a batch and channels", shape.text());
  const Dim& channels = shape[layout == ConvLayout::channels_last ? shape.rank() - 1 : 1];
  if (!channels.is_static())
    fail("instance_norm: the number of channels of x {} must be known", shape.text());
  return group_norm(x, channels.value(), gamma, beta, eps, layout);
}

namespace ops {
void register_group_norm(OpTable& table) {
  table.add<GroupNorm>(
      {.formula =
           "(x - mean) / sqrt(variance + eps) * gamma + beta over groups of neighbouring channels; biased "
           "variance",
       .operands = "x: [batch, channels, spatial..], or as the layout says\n"
                   "gamma? (float): [channels], factors; ones if left out\n"
                   "beta? (float): [channels], added to that; zeros if left out",
       .attributes = "groups: how many, each of neighbouring channels\n"
                     "eps: added to the variance\n"
                     "layout: the order of axes of x and the result",
       .types = "f32 f16 bf16",
       .variants = names_of(kSplittableRows),
       .samples = {"group_norm(T[2,6,3,5], T[6], T[6]) {groups=3}",
                   "group_norm(T[2,8,4,4], T[8], T[8]) {groups=2, eps=0.001}",
                   "group_norm(T[1,3,257], T[3]) {groups=3}", "group_norm(T[3,20], none, T[20]) {groups=4}",
                   "group_norm(T[1,4,16,16] in 90..94, T[4], T[4]) {groups=1}",
                   "group_norm(T[2,3,5,12], T[12], T[12]) {groups=3, layout=\"channels_last\"}",
                   "group_norm(T[1,7,8,5]) {groups=5, layout=\"channels_last\"}",
                   "group_norm(T[2,2,1], T[2], T[2]) {groups=1}", "group_norm(T[0,4,3], T[4]) {groups=2}",
                   "group_norm(T[2,4,0], T[4]) {groups=2}",
                   "group_norm(T[2,32,50,90], T[32], T[32]) {groups=8}",
                   "group_norm(T[1,4,250,300], T[4], T[4]) {groups=2}",
                   "group_norm(T[1,300,250,4], T[4], T[4]) {groups=1, layout=\"channels_last\"}"}});
}
}  // namespace ops

}  // namespace rlx
