// Determinants, by LU factorisation.
#include <algorithm>
#include <cmath>

#include "kernels/identity.wgsl.h"
#include "kernels/lu_det.wgsl.h"
#include "ops/linear_algebra/matrices.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "rlx/ops/linear_algebra.h"

namespace rlx {
namespace {

struct Det final : OpOf<Det> {
  static constexpr auto kName = "det";

  std::vector<TensorType> infer(const InferArgs& in) const override {
    in.expect_count(1);
    expect_square(in, 0);
    return {TensorType{in.dtype(0), batch_of(in.shape(0))}};
  }
  void reference(RefContext& r) const override {
    const int64_t n = r.in(0).dims.back();
    std::ranges::fill(r.out().real, 1);
    for (size_t i = 0; n > 0 && i < r.out().real.size(); ++i) {
      const LuReference f = factor_lu(matrix_of(r.in(0), static_cast<int64_t>(i)), n, n);
      for (int64_t k = 0; k < n; ++k) {
        const double value = f.matrix[static_cast<size_t>(k * n + k)];
        r.out().real[i] *= f.pivots[static_cast<size_t>(k)] == k ? value : -value;
      }
    }
  }
  void lower(Lowering& l) const override;
  // A sum of n! products of n factors, which grows like its root.
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    const Shape& x = inputs[0].shape;
    const auto n = static_cast<double>(x[x.rank() - 1].value());
    constexpr double magnitude = 2;  // of the sweep's inputs
    return {.ulps = 4 * n, .terms = n * n, .scale = std::pow(magnitude, n) * std::sqrt(std::tgamma(n + 1))};
  }
};

void Det::lower(Lowering& l) const {
  const Operand& y = l.out();
  if (y.view.elements() == 0) return;
  if (l.in(0).view.elements() == 0) return l.flat<kernels::identity>({.y = y}, {.rows = 1, .columns = 1});
  const LuFactors f = lu_scratch(l, l.in(0));
  lower_lu(l, kName, f);
  const Operand det = output_memory(l, y, 0);
  l.split(y.view.elements(), 1, [&](int64_t begin, int64_t length) {
    const auto part = [&](const Operand& o) { return o.with_view(o.view.slice(0, begin, length)); };
    return l.make<kernels::lu_det>({.lu = part(f.matrix), .pivots = part(f.pivots), .y = part(det)},
                                   {.count = to_u32(length), .size = to_u32(f.matrix.view.dims[1])},
                                   ceil_div(length, int64_t{kernels::lu_det::GROUP}));
  });
  lower_output(l, det, y);
}

}  // namespace

Value det(Value x) { return add_node(std::make_shared<Det>(), {x}); }

namespace ops {
void register_det(OpTable& table) {
  table.add<Det>(
      {.formula = "the determinant of the matrices in the last two axes",
       .operands = "x: matrices [.., n, n]",
       .outputs = "y: [..], the determinants",
       .types = "f32 f16 bf16",
       .variants = lu_variants(),
       .samples = {"det(T[3,3])", "det(T[2,5,4,4])", "det(T[1,1])", "det(T[7,2,2])", "det(T[0,3,3])",
                   "det(T[2,0,0])", "det(T[17,17] in -0.5..0.5)", "det(T[30001,3,3])"}});
}
}  // namespace ops

}  // namespace rlx
