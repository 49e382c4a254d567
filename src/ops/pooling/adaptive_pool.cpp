// Pools with a given number of windows along each spatial axis, which together cover x.
#include "base/checked.h"
#include "ir/reference.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/outputs.h"
#include "ops/pooling/pool.h"

namespace rlx {
namespace {

// adaptive_avg_pool and adaptive_max_pool (x): along an axis of n elements, window o of m reaches from
// floor(o * n / m) to before ceil((o + 1) * n / m).
struct AdaptivePool final : TableOp {
  PoolKind kind = PoolKind::mean;
  std::vector<int64_t> size;  // -1: as many windows as elements
  ConvLayout layout = ConvLayout::channels_first;
  PoolIndices indices = PoolIndices::none;  // of the maximum

  explicit AdaptivePool(PoolKind k = PoolKind::mean) : kind(k) {}
  std::string_view name() const override {
    return kind == PoolKind::max ? "adaptive_max_pool" : "adaptive_avg_pool";
  }
  std::shared_ptr<Op> clone() const override { return std::make_shared<AdaptivePool>(*this); }
  void visit_attributes(AttributeVisitor& v) override;
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  bool expands() const override { return true; }
  std::optional<std::vector<Value>> expand(const ExpandArgs& in) const override;
  void lower(Lowering& l) const override;
  Tolerance tolerance(std::span<const TensorType> inputs) const override;

  int64_t axis(size_t spatial) const { return spatial_axis(layout, static_cast<int64_t>(spatial)); }
};

void AdaptivePool::visit_attributes(AttributeVisitor& v) {
  v("size", size);
  v.choice("layout", layout, {"channels_first", "channels_last"}, std::optional(ConvLayout::channels_first));
  if (kind == PoolKind::max)
    v.choice("indices", indices, {"none", "tensor", "plane"}, std::optional(PoolIndices::none));
}

std::vector<TensorType> AdaptivePool::infer(const InferArgs& in) const {
  in.expect_count(1);
  in.expect_float(0);
  const Shape& x = in.shape(0);
  if (x.rank() < 3 || x.rank() > 5 || std::ssize(size) != x.rank() - 2) {
    fail(
        "{}: `size` has {} numbers and x the shape {}; there must be 1 to 3 spatial axes and a size for each",
        name(), size.size(), x.text());
  }
  Shape y = x;
  for (size_t i = 0; i < size.size(); ++i) {
    if (size[i] < -1) fail("{}: `size` contains {}; its numbers must be at least 0, or -1", name(), size[i]);
    if (size[i] == -1) continue;
    if (x[axis(i)].is(0) && size[i] > 0)
      fail("{}: x {} has nothing along axis {}", name(), x.text(), axis(i));
    y[axis(i)] = size[i];
  }
  if (indices == PoolIndices::none) return {TensorType{in.dtype(0), y}};
  return {TensorType{in.dtype(0), y}, TensorType{DType::i64, y}};
}

// Windows of equal sizes are those of a plain pool.
std::optional<std::vector<Value>> AdaptivePool::expand(const ExpandArgs& in) const {
  const Shape x = in[0].shape();
  std::vector<int64_t> kernel;
  for (size_t i = 0; i < size.size(); ++i) {
    const Dim& length = x[axis(i)];
    if (size[i] != -1 && (!length.is_static() || size[i] == 0 || length.value() % size[i] != 0))
      return std::nullopt;
    kernel.push_back(size[i] == -1 ? 1 : length.value() / size[i]);
  }
  const PoolOptions options{.strides = kernel, .layout = layout};
  if (indices != PoolIndices::none) {
    const auto [y, where] = max_pool_with_indices(in[0], kernel, options, indices);
    return std::vector{y, where};
  }
  return std::vector{kind == PoolKind::max ? max_pool(in[0], kernel, options)
                                           : avg_pool(in[0], kernel, options)};
}

PoolCase adaptive_case(const AdaptivePool& op, const std::vector<int64_t>& x, const std::vector<int64_t>& y) {
  PoolCase c{.kind = op.kind, .layout = op.layout, .indices = op.indices};
  for (PoolAxis& a : c.axes) a.bounds = {{0, 1}};
  for (size_t i = 0; i < op.size.size(); ++i) {
    const auto axis = static_cast<size_t>(op.axis(i));
    PoolAxis& a = c.axes[3 - op.size.size() + i];
    a.in = x[axis];
    a.out = y[axis];
    a.bounds.clear();
    for (int64_t o = 0; o < a.out; ++o)
      a.bounds.push_back({o * a.in / a.out, ceil_div((o + 1) * a.in, a.out)});
  }
  return c;
}

void AdaptivePool::reference(RefContext& r) const {
  if (r.out().elements() > 0) reference_pool(adaptive_case(*this, r.in(0).dims, r.out().dims), r);
}

void AdaptivePool::lower(Lowering& l) const {
  lower_pool(l, adaptive_case(*this, l.in(0).view.dims, l.out().view.dims));
}

// The largest windows have n / m elements along an axis, and up to two more.
Tolerance AdaptivePool::tolerance(std::span<const TensorType> inputs) const {
  double elements = 1;
  for (size_t i = 0; i < size.size(); ++i) {
    if (size[i] > 0)
      elements *= (static_cast<double>(inputs[0].shape[axis(i)].value()) / static_cast<double>(size[i]) + 2);
  }
  return pool_tolerance(kind, elements);
}

std::shared_ptr<AdaptivePool> adaptive_op(PoolKind kind, std::vector<int64_t> size, ConvLayout layout) {
  auto op = std::make_shared<AdaptivePool>(kind);
  op->size = std::move(size);
  op->layout = layout;
  return op;
}

}  // namespace

Value adaptive_avg_pool(Value x, std::vector<int64_t> size, ConvLayout layout) {
  return add_node(adaptive_op(PoolKind::mean, std::move(size), layout), {x});
}
Value adaptive_max_pool(Value x, std::vector<int64_t> size, ConvLayout layout) {
  return add_node(adaptive_op(PoolKind::max, std::move(size), layout), {x});
}
PooledWithIndices adaptive_max_pool_with_indices(Value x, std::vector<int64_t> size, ConvLayout layout,
                                                 PoolIndices indices) {
  if (indices == PoolIndices::none) fail("adaptive_max_pool_with_indices: says `none` of the indices");
  auto op = adaptive_op(PoolKind::max, std::move(size), layout);
  op->indices = indices;
  return named_outputs<PooledWithIndices>(add_node(op, {x}));
}

namespace ops {
void register_adaptive_pool(OpTable& table) {
  for (const PoolKind kind : {PoolKind::mean, PoolKind::max}) {
    OpInfo info;
    info.name = AdaptivePool(kind).name();
    info.formula =
        kind == PoolKind::max
            ? "largest x of windows [floor(o*n/m), ceil((o+1)*n/m)) of n elements, m windows along "
              "each axis"
            : "mean of windows [floor(o*n/m), ceil((o+1)*n/m)) of n elements, m windows along each axis";
    info.operands = "x: [batch, channels, spatial..], or as the layout says; 1 to 3 spatial axes";
    info.attributes = kind == PoolKind::max
                          ? "size: how many windows, for each spatial axis; -1: as many as x has "
                            "elements there\n"
                            "layout: the order of axes of x and the result\n"
                            "indices: what the output indices counts over, if there is one"
                          : "size: how many windows, for each spatial axis; -1: as many as x has "
                            "elements there\n"
                            "layout: the order of axes of x and the result";
    if (kind == PoolKind::max)
      info.outputs =
          "y: the largest element of each window\n"
          "indices? (i64): as y, where these elements are";
    info.types = "f32 f16 bf16";
    info.variants = {"pool"};
    const std::string with = kind == PoolKind::max ? ", indices=\"plane\"" : "";
    info.samples = {info.name + "(T[2,3,7,10]) {size=[3,4]" + with + "}",
                    info.name + "(T[1,2,17]) {size=[5]}",
                    info.name + "(T[1,3,8,6]) {size=[4,3]" + with + "}",
                    info.name + "(T[2,3,5,7]) {size=[1,1]}",
                    info.name + "(T[1,4,5,3,6]) {size=[3,5,-1], layout=\"channels_last\"" + with + "}",
                    info.name + "(T[1,5,6,3]) {size=[8,4], layout=\"channels_last\"}",
                    info.name + "(T[1,2,3]) {size=[0]}",
                    info.name + "(T[2,24,80,90]) {size=[7,7]}"};
    info.make = [kind] { return std::make_shared<AdaptivePool>(kind); };
    table.add(std::move(info));
  }
}
}  // namespace ops

}  // namespace rlx
