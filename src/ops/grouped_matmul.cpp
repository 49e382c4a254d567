#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "ir/reference.h"
#include "kernels/binder.h"
#include "kernels/group_rows.wgsl.h"
#include "ops/elementwise.h"
#include "ops/fill.h"
#include "ops/op_table.h"
#include "ops/products/load_blocks.h"
#include "ops/products/load_by_table.h"
#include "ops/products/load_strided.h"
#include "ops/products/store_by_table.h"
#include "ops/products/store_strided.h"
#include "rlx/ops/linear_algebra.h"

namespace rlx {
namespace {

// grouped_matmul(x, w, expert): y[r..] = x[r..] w[expert[r..]] for x [r.., k], w [experts, k, n] and an index
// for each row. A row whose index is negative or past the last expert is zero: it belongs to no expert here.
struct GroupedMatMul final : OpOf<GroupedMatMul> {
  static constexpr auto kName = "grouped_matmul";

  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
  Tolerance tolerance(std::span<const TensorType> inputs) const override;
  bool reads_encoded(int64_t input, DType encoding, const View& view) const override;
};

std::vector<TensorType> GroupedMatMul::infer(const InferArgs& in) const {
  in.expect_count(3);
  in.expect_float(0);
  in.expect_same_dtype(0, 1);
  const DType index = in.dtype(2);
  in.expect_dtype(2, index == DType::i32 || index == DType::u32 || index == DType::i64, "i32, u32 or i64");
  const Shape& x = in.shape(0);
  const Shape& w = in.shape(1);
  if (x.rank() == 0) fail("grouped_matmul: x is a scalar; it must have rows of at least one axis");
  if (w.rank() != 3) {
    fail("grouped_matmul: the weight {} has rank {}; it must be [experts, k, n], of rank 3", w.text(),
         w.rank());
  }
  const Dim& k = x[x.rank() - 1];
  if (!(k == w[1])) {
    fail("grouped_matmul: the inner sizes of {} and {} differ: {} against {}", x.text(), w.text(), k.text(),
         w[1].text());
  }
  Shape out = x;
  out.erase(x.rank() - 1);
  if (!(in.shape(2) == out)) {
    fail("grouped_matmul: the expert indices have the shape {}; the rows of x {} need {}", in.shape(2).text(),
         x.text(), out.text());
  }
  out.push_back(w[2]);
  return {TensorType{in.dtype(0), out}};
}

void GroupedMatMul::reference(RefContext& r) const {
  const RefTensor& x = r.in(0);
  const RefTensor& w = r.in(1);
  const std::vector<int64_t>& expert = r.in(2).ints;
  const int64_t experts = w.dims[0];
  const int64_t k = w.dims[1];
  const int64_t n = w.dims[2];
  double* y = r.out().real.data();
  parallel_for(std::ssize(expert), 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t e = expert[static_cast<size_t>(row)];
      if (e < 0 || e >= experts) continue;
      for (int64_t p = 0; p < k; ++p) {
        const double a = x.real[static_cast<size_t>(row * k + p)];
        const double* b = w.real.data() + (e * k + p) * n;
        for (int64_t j = 0; j < n; ++j) y[row * n + j] += a * b[j];
      }
    }
  });
}

using products::Grouped;
using products::LoadByTable;
using products::LoadStrided;
using products::Product;
using products::StoreByTable;
using products::StoreStrided;

constexpr std::string_view kSorted = "sorted";

// w as [experts, columns, k].
Grouped weights(const Operand& w) { return {w.with_view(w.view.permute({0, 2, 1})), 1, 1}; }

bool GroupedMatMul::reads_encoded(int64_t input, DType encoding, const View& view) const {
  return input == 1 && view.rank() == 3 &&
         products::LoadBlocks::reads(weights({.dtype = encoding, .view = view}));
}

// Each row is a batch with an expert of its own.
Product one_by_one(const Lowering& l, int64_t first, int64_t count, LoadByTable::Outside outside) {
  const int64_t row_axes = l.out().view.rank() - 1;
  Grouped w = weights(l.in(1));
  w.operand.view = w.operand.view.slice(0, first, count);
  Product p;
  p.size = {l.in(2).view.elements(), 1, l.out().view.dims.back(), l.in(0).view.dims.back()};
  p.a = std::make_shared<LoadStrided>(Grouped{l.in(0), row_axes, 0});
  p.b = std::make_shared<LoadByTable>(
      products::load_matrix(w),
      LoadByTable::Table{.indices = l.in(2), .first = first, .count = count, .outside = outside});
  p.y = std::make_shared<StoreStrided>(Grouped{l.out(), row_axes, 0});
  return p;
}

// Rows with the same expert side by side, so that they share what is read of its weights. False, and nothing
// emitted, if the device cannot bind it.
bool lower_sorted(Lowering& l, int64_t tile) {
  using Kernel = kernels::group_rows;
  const int64_t rows = l.in(2).view.elements();
  const int64_t experts = l.in(1).view.dims[0];
  if (experts > Kernel::MOST_EXPERTS) return false;
  // Each expert, and no expert, may have a slot that is not full.
  const int64_t slots = std::min(rows, rows / tile + experts + 1);
  Operand slot = l.scratch(DType::i32, {slots});
  Operand place = l.scratch(DType::i32, {slots, tile});
  const Dispatch sort = [&] {
    const Lowering::Label label(l, kSorted);
    return l.make<Kernel>(
        {.expert = l.in(2), .slot = slot, .place = place},
        {.rows = to_u32(rows), .experts = to_u32(experts), .tile = to_u32(tile), .slots = to_u32(slots)}, 1);
  }();
  Product p;
  p.size = {slots, tile, l.out().view.dims.back(), l.in(0).view.dims.back()};
  const int64_t row_axes = l.out().view.rank() - 1;
  p.a = std::make_shared<LoadByTable>(
      std::make_shared<LoadStrided>(Grouped{l.in(0), 0, row_axes}),
      LoadByTable::Table{.indices = place, .picks = LoadByTable::Picks::line, .lines = tile, .count = rows});
  p.b = std::make_shared<LoadByTable>(
      products::load_matrix(weights(l.in(1))),
      LoadByTable::Table{
          .indices = slot, .count = experts, .outside = LoadByTable::Outside::skipped_if_negative});
  p.y = std::make_shared<StoreByTable>(std::make_shared<StoreStrided>(Grouped{l.out(), 0, row_axes}), place,
                                       rows);
  if (!fits(sort, l.caps()) || !products::can_bind(l, GroupedMatMul::kName, p)) return false;
  l.emit(sort);
  products::lower(l, GroupedMatMul::kName, std::move(p));
  return true;
}

// Weights larger than all bindings: those of some experts at a time, each for the rows that ask for them.
void lower_by_experts(Lowering& l, int64_t first, int64_t count) {
  const Product p = one_by_one(l, first, count, LoadByTable::Outside::skipped);
  if (products::lower_bound(l, GroupedMatMul::kName, p)) return;
  if (count == 1) {
    // Summed in parts, which takes all rows: those of other experts are zeros, to be added.
    const Operand one = l.scratch(l.out().dtype, l.out().view.dims);
    Product alone = one_by_one(l, first, count, LoadByTable::Outside::zero);
    alone.y = std::make_shared<StoreStrided>(Grouped{one, one.view.rank() - 1, 0});
    products::lower(l, GroupedMatMul::kName, alone);
    lower_expr(l, Expr::parse("add($0,$1)", {one.dtype, one.dtype}), {l.out(), one}, l.out());
    return;
  }
  lower_by_experts(l, first, count / 2);
  lower_by_experts(l, first + count / 2, count - count / 2);
}

void GroupedMatMul::lower(Lowering& l) const {
  if (l.out().view.elements() == 0) return;
  const int64_t experts = l.in(1).view.dims[0];
  if (experts == 0) return lower_fill(l, l.out(), 0);
  const int64_t rows = l.in(2).view.elements();
  const auto forced = l.target().forced.find(kName);
  const bool wanted = forced != l.target().forced.end() && forced->second == kSorted;
  constexpr int64_t kFew = 16;  // tiles of rows would be nearly empty
  if ((wanted || rows > kFew) && lower_sorted(l, rows / experts >= 48 ? 64 : 16)) return;
  const Product whole = one_by_one(l, 0, experts, LoadByTable::Outside::zero);
  if (products::can_bind(l, kName, whole)) return products::lower(l, kName, whole);
  lower_fill(l, l.out(), 0);
  lower_by_experts(l, 0, experts);
}

Tolerance GroupedMatMul::tolerance(std::span<const TensorType> inputs) const {
  const auto k = static_cast<double>(inputs[1].shape[1].value());
  // As in matmul: partial sums of k products of numbers in [-2, 2] grow to about 2 sqrt(k).
  return {.ulps = 2, .terms = k, .scale = 4 * std::sqrt(std::max(k, 1.0))};
}

}  // namespace

Value grouped_matmul(Value x, Value w, Value expert) {
  return x.graph().add_value(std::make_shared<GroupedMatMul>(), {x, w, expert});
}

namespace ops {
void register_grouped_matmul(OpTable& table) {
  std::vector<std::string> variants = products::variant_names();
  variants.emplace_back(kSorted);
  variants.emplace_back(products::kEighths);
  table.add<GroupedMatMul>(
      {.formula = "y[.., n] = sum_k x[.., k] * w[expert[..], k, n]; 0 if there is no such expert",
       .operands = "x w expert",
       .types = "f32 f16 bf16",
       .variants = std::move(variants),
       .samples = {
           "grouped_matmul(T[7,16], T[4,16,12], i32[7] in 0..3)",
           "grouped_matmul(T[33,17], T[3,17,5], i64[33] in -2..4)",
           "grouped_matmul(T[2,5,8], T[3,8,9], u32[2,5] in 0..4)",
           "grouped_matmul(T[9,20], T[2,20,8], u32[9] in 0..4000000000)",
           "grouped_matmul(T[5], T[3,5,7], i32[] in 0..2)",
           "grouped_matmul(T[9,64], T[1,64,32], i32[9] in 0..0)",
           "grouped_matmul(T[3,64], T[17,64,32], i32[3] in 0..16)",
           "grouped_matmul(T[1,1], T[1,1,1], i64[1] in 0..0)",
           "grouped_matmul(T[5,8], T[2,8,3], i32[5] in 2..9)",
           // Nothing to do, nothing to add up, nobody to ask.
           "grouped_matmul(T[0,8], T[3,8,4], i32[0])",
           "grouped_matmul(T[5,0], T[2,0,3], i32[5] in 0..1)",
           "grouped_matmul(T[4,3], T[0,3,2], i32[4])",
           "grouped_matmul(T[4,3], T[2,3,0], i32[4] in 0..1)",
           // More rows than a tile for each expert, and weights past one binding of 64 KiB and past all.
           "grouped_matmul(T[257,65], T[3,65,68], i32[257] in -1..2)",
           "grouped_matmul(T[300,129], T[16,129,130], i64[300] in 0..15)",
           "grouped_matmul(T[5,700], T[2,700,257], i32[5] in 0..1)",
       }});
}
}  // namespace ops

}  // namespace rlx
