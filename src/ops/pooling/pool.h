// Pooling: what windows over the spatial axes hold.
#pragma once

#include <array>

#include "kernels/lowering.h"
#include "ops/convolution/window.h"
#include "ops/machinery/op_of.h"
#include "rlx/ops/conv_layout.h"
#include "rlx/ops/pooling.h"

namespace rlx {

enum class PoolKind { max, min, sum, mean, prod, norm };  // as in pool.wgsl

// max_pool, min_pool, sum_pool, avg_pool, prod_pool and lp_pool (x), of either layout; max_pool can return
// where the largest elements are as a second output. What lies in the padding is never an element of a
// window; a mean may count it. A window without elements gives what a reduction of no elements does, a mean
// of none 0 and an index of none -1.
struct Pool final : TableOp, WindowLists {
  PoolKind kind = PoolKind::max;
  std::vector<int64_t> kernel;
  bool ceil_mode = false;
  ConvLayout layout = ConvLayout::channels_first;
  bool count_include_pad = false;           // avg_pool
  double p = 2;                             // lp_pool
  PoolIndices indices = PoolIndices::none;  // max_pool
  bool column_major = false;

  explicit Pool(PoolKind k = PoolKind::max) : kind(k) {}
  std::string_view name() const override;
  std::shared_ptr<Op> clone() const override { return std::make_shared<Pool>(*this); }
  void visit_attributes(AttributeVisitor& v) override;
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  // A window as large as x is a reduction.
  bool expands() const override { return true; }
  std::optional<std::vector<Value>> expand(const ExpandArgs& in) const override;
  void lower(Lowering& l) const override;
  Tolerance tolerance(std::span<const TensorType> inputs) const override;
};

// One spatial axis of a pool; if `bounds` is not empty, window i reaches from bounds[i].begin to before
// bounds[i].end, and the other numbers do not matter.
struct PoolAxis {
  struct Span {
    int64_t begin, end;
  };
  int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, before = 0, after = 0;
  std::vector<Span> bounds = {};

  // The taps of a window that lie in x, `dilation` apart, and how many it has with those in the padding.
  Span span(int64_t window) const;
  int64_t taps_with_padding(int64_t window) const;
};

// All that a pool is; of fewer than three spatial axes the missing ones come first, with length 1.
struct PoolCase {
  PoolKind kind = PoolKind::max;
  ConvLayout layout = ConvLayout::channels_first;
  std::array<PoolAxis, 3> axes = {};
  bool count_include_pad = false;
  double p = 2;
  PoolIndices indices = PoolIndices::none;
  bool column_major = false;
};

void reference_pool(const PoolCase& c, RefContext& r);
void lower_pool(Lowering& l, const PoolCase& c);
std::vector<std::string> pool_variants();
// What one more in a spatial coordinate (the first three), in the channel and in the image adds to an index.
std::array<int64_t, 5> pool_index_steps(const PoolCase& c, int64_t channels);
// The result of a window without elements, which is also what the others start from.
double pool_identity(PoolKind kind, DType t);
// For windows of that many elements.
Tolerance pool_tolerance(PoolKind kind, double elements);

// The axis of a tensor of that layout and rank.
int64_t spatial_axis(ConvLayout layout, int64_t spatial);
int64_t channel_axis(ConvLayout layout, int64_t rank);

}  // namespace rlx
