#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "ir/reference.h"
#include "ops/machinery/flops.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/products/grouped_product.h"
#include "ops/products/load_blocks.h"
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
  double flops(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const override {
    return flops_of_sums(terms(inputs), outputs);
  }
  bool reads_encoded(int64_t input, DType encoding, const View& view) const override;
  std::optional<ValueRange> sensible_values(int64_t input,
                                            std::span<const TensorType> inputs) const override {
    return input == 2 ? values_between(0, inputs[1].shape[0] - 1) : std::nullopt;
  }

 private:
  // How many products an element of the result is the sum of.
  static double terms(std::span<const TensorType> inputs) {
    return static_cast<double>(inputs[1].shape[1].value());
  }
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

// w as [experts, columns, k].
products::Grouped weights(const Operand& w) { return {w.with_view(w.view.permute({0, 2, 1})), 1, 1}; }

bool GroupedMatMul::reads_encoded(int64_t input, DType encoding, const View& view) const {
  return input == 1 && view.rank() == 3 &&
         products::LoadBlocks::reads(weights({.dtype = encoding, .view = view}));
}

void GroupedMatMul::lower(Lowering& l) const {
  const products::Grouped all = weights(l.in(1));
  lower_grouped(l, {.op = kName,
                    .x = l.in(0),
                    .expert = l.in(2),
                    .experts = all.operand.view.dims[0],
                    .columns = l.out().view.dims.back(),
                    .weights = [&](int64_t first, int64_t count) {
                      products::Grouped some = all;
                      some.operand.view = some.operand.view.slice(0, first, count);
                      return products::load_matrix(some);
                    }});
}

Tolerance GroupedMatMul::tolerance(std::span<const TensorType> inputs) const {
  const double k = terms(inputs);
  // As in matmul: partial sums of k products of numbers in [-2, 2] grow to about 2 sqrt(k).
  return {.ulps = 2, .terms = k, .scale = 4 * std::sqrt(std::max(k, 1.0))};
}

}  // namespace

Value grouped_matmul(Value x, Value w, Value expert) {
  return add_node(std::make_shared<GroupedMatMul>(), {x, w, expert});
}

namespace ops {
void register_grouped_matmul(OpTable& table) {
  std::vector<std::string> variants = products::variant_names();
  variants.emplace_back(kSortedRows);
  variants.emplace_back(products::kEighths);
  table.add<GroupedMatMul>(
      {.formula = "y[.., n] = sum_k x[.., k] * w[expert[..], k, n]; 0 if there is no such expert",
       .operands = "x: rows [.., k]\n"
                   "w: [experts, k, n]\n"
                   "expert (i32 u32 i64): [..], the expert of each row; if there is none of "
                   "that number, the result is 0",
       .outputs = "y: [.., n]",
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
