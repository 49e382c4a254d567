// Determinants and inverses of matrices, by elimination: an invocation for each matrix if they are small and
// many, else a workgroup.
#include <algorithm>
#include <bit>
#include <cmath>

#include "base/format.h"
#include "ir/reference.h"
#include "kernels/eliminate.wgsl.h"
#include "kernels/eliminate_group.wgsl.h"
#include "kernels/identity.wgsl.h"
#include "kernels/lowering.h"
#include "kernels/rates.h"
#include "ops/elementwise.h"
#include "ops/op_table.h"
#include "rlx/ops.h"

namespace rlx {
namespace {

Shape check_square(const InferArgs& in) {
  in.expect_count(1);
  in.expect_float(0);
  const Shape& x = in.shape(0);
  if (x.rank() < 2 || x[x.rank() - 1] != x[x.rank() - 2])
    fail("{}: the last two axes of {} are no square matrix", in.op(), x.text());
  return x;
}

void lower_convert(Lowering& l, const Operand& x, const Operand& y) {
  lower_expr(l, Expr::parse(formatted("cast_{}($0)", to_string(y.dtype)), {x.dtype}), {x}, y);
}

// Either the inverse or the determinants are wanted.
struct EliminationProblem {
  Operand x;        // the matrices, of any float type
  Operand inverse;  // f32[count, n, n], or absent
  Operand det;      // f32[count], or absent
  int64_t count = 0;
  int64_t n = 0;

  std::string key() const {
    return formatted("count{} n {} {}", size_class(count), n, inverse.present() ? "inverse" : "det");
  }
  double cube() const { return std::pow(static_cast<double>(n), 3); }
};

// The factors here and below were measured with lavapipe.
std::vector<Candidate> serial_elimination(const Target& target, const EliminationProblem& p) {
  const Rates r = rates_of(target.caps);
  const double each = (p.inverse.present() ? 2.8 : 0.4) * p.cube() * r.far_step_ns;
  return one_candidate(r.dispatch_ns + each * std::max(1.0, static_cast<double>(p.count) / r.lanes));
}

// The matrices as f32[count, n, n] in memory where they are lost.
Operand lower_work(Lowering& l, const EliminationProblem& p) {
  const Operand work = l.scratch(DType::f32, p.x.view.dims);
  lower_convert(l, p.x, work);
  return work.with_view(View::contiguous({p.count, p.n, p.n}));
}

bool run_serial_elimination(Lowering& l, const EliminationProblem& p, const Candidate&) {
  const Operand work = lower_work(l, p);
  if (p.inverse.present()) l.flat<kernels::identity>({.y = p.inverse}, {.size = to_u32(p.n)});
  l.split(p.count, 1, [&](int64_t begin, int64_t length) {
    const auto part = [&](const Operand& o) {
      return o.present() ? o.with_view(o.view.slice(0, begin, length)) : o;
    };
    return l.make<kernels::eliminate>({.matrix = part(work), .inverse = part(p.inverse), .y = part(p.det)},
                                      {.count = to_u32(length), .size = to_u32(p.n)},
                                      ceil_div(length, int64_t{kernels::eliminate::GROUP}));
  });
  return true;
}

// The lanes of a CPU take turns between barriers.
int64_t elimination_group(const Rates& r, int64_t n) { return r.cpu ? 32 : n < 64 ? 64 : 256; }

std::vector<Candidate> group_elimination(const Target& target, const EliminationProblem& p) {
  const Rates r = rates_of(target.caps);
  const int64_t group = elimination_group(r, p.n);
  const auto lanes = static_cast<double>(group);
  const double turns = std::max(1.0, lanes / r.lanes);
  const double steps = (p.inverse.present() ? 1 : 1.0 / 3) * p.cube() / lanes;
  // For each column: the pivot, an exchange of rows, and four meetings.
  const double between = static_cast<double>(p.n) * (12 * turns + 4 * r.barrier_steps);
  const double each = r.group_ns + r.step_ns * (1.25 * steps * turns + between);
  const double at_once = std::max(1.0, r.lanes / lanes);
  return one_candidate(r.dispatch_ns + each * std::max(1.0, static_cast<double>(p.count) / at_once));
}

bool run_group_elimination(Lowering& l, const EliminationProblem& p, const Candidate&) {
  const bool invert = p.inverse.present();
  const int64_t group = elimination_group(rates_of(l.caps()), p.n);
  const auto side = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(p.n)));
  if (invert) lower_convert(l, p.x, p.inverse.with_view(View::contiguous(p.x.view.dims)));
  const Operand matrices = invert ? p.inverse : lower_work(l, p);
  const Operand swaps = invert ? l.scratch(DType::u32, {p.count, p.n}) : Operand{};
  l.split(p.count, 1, [&](int64_t begin, int64_t length) {
    const auto part = [&](const Operand& o) {
      return o.present() ? o.with_view(o.view.slice(0, begin, length)) : o;
    };
    return l.make<kernels::eliminate_group>(
        {.matrix = part(matrices), .swaps = part(swaps), .y = part(p.det)},
        {.count = to_u32(length), .size = to_u32(p.n)}, length,
        {.GROUP = to_u32(group), .ACROSS = to_u32(std::clamp<int64_t>(side, 16, group)), .INVERT = invert});
  });
  return true;
}

constexpr Variant<EliminationProblem, bool> kVariants[] = {
    {"eliminate", always, serial_elimination, run_serial_elimination},
    {"eliminate_group", always, group_elimination, run_group_elimination},
};

// Of all matrices of x; absent operands are not computed. Both are f32, [matrices, n, n] and [matrices].
void lower_elimination(Lowering& l, std::string_view op, const Operand& x, const Operand& inverse,
                       const Operand& determinant) {
  const int64_t n = x.view.dims.back();
  const int64_t count = x.view.elements() / (n * n);
  const EliminationProblem p{.x = x, .inverse = inverse, .det = determinant, .count = count, .n = n};
  l.choose(op, kVariants, p).make(l, p);
}

// The determinant of a matrix, which is eliminated; all that is done to its rows is done to `inverse`.
double eliminate(std::vector<double>& m, std::vector<double>& inverse, size_t n) {
  double det = 1;
  for (size_t k = 0; k < n; ++k) {
    size_t best = k;
    for (size_t row = k + 1; row < n; ++row) {
      if (std::fabs(m[row * n + k]) > std::fabs(m[best * n + k])) best = row;
    }
    for (size_t c = 0; best != k && c < n; ++c) {
      std::swap(m[k * n + c], m[best * n + c]);
      std::swap(inverse[k * n + c], inverse[best * n + c]);
    }
    const double pivot = m[k * n + k];
    det *= best == k ? pivot : -pivot;
    for (size_t row = 0; row < n; ++row) {
      const double value = m[row * n + k];
      if (row == k || value == 0) continue;
      for (size_t c = 0; c < n; ++c) {
        m[row * n + c] -= value / pivot * m[k * n + c];
        inverse[row * n + c] -= value / pivot * inverse[k * n + c];
      }
    }
  }
  for (size_t i = 0; i < n * n; ++i) inverse[i] /= m[i / n * n + i / n];
  return det;
}

// Calls f(number, determinant, inverse) for each matrix.
template <class F>
void for_each_matrix(const RefTensor& x, F&& f) {
  const auto n = static_cast<size_t>(x.dims.back());
  for (size_t i = 0; n > 0 && i < x.real.size() / (n * n); ++i) {
    std::vector<double> m(x.real.begin() + static_cast<std::ptrdiff_t>(i * n * n),
                          x.real.begin() + static_cast<std::ptrdiff_t>((i + 1) * n * n));
    std::vector<double> inverse(n * n, 0);
    for (size_t k = 0; k < n; ++k) inverse[k * n + k] = 1;
    const double det = eliminate(m, inverse, n);
    f(i, det, inverse);
  }
}

struct Det final : OpOf<Det> {
  static constexpr auto kName = "det";

  std::vector<TensorType> infer(const InferArgs& in) const override {
    const Shape x = check_square(in);
    Shape y;
    for (int64_t i = 0; i < x.rank() - 2; ++i) y.push_back(x[i]);
    return {TensorType{in.dtype(0), y}};
  }
  void reference(RefContext& r) const override {
    std::ranges::fill(r.out().real, 1);
    for_each_matrix(r.in(0), [&](size_t i, double det, const auto&) { r.out().real[i] = det; });
  }
  void lower(Lowering& l) const override {
    const Operand& y = l.out();
    if (y.view.elements() == 0) return;
    if (l.in(0).view.elements() == 0) return l.flat<kernels::identity>({.y = y}, {.size = 1});
    const Operand det = l.scratch(DType::f32, {y.view.elements()});
    lower_elimination(l, kName, l.in(0), {}, det);
    lower_convert(l, det.with_view(View::contiguous(y.view.dims)), y);
  }
  // A sum of n! products of n factors, which grows like its root.
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    const Shape& x = inputs[0].shape;
    const auto n = static_cast<double>(x[x.rank() - 1].value());
    constexpr double magnitude = 2;  // of the sweep's inputs
    return {.ulps = 4 * n, .terms = n * n, .scale = std::pow(magnitude, n) * std::sqrt(std::tgamma(n + 1))};
  }
};

struct Inverse final : OpOf<Inverse> {
  static constexpr auto kName = "inverse";

  std::vector<TensorType> infer(const InferArgs& in) const override {
    check_square(in);
    return {in[0]};
  }
  void reference(RefContext& r) const override {
    for_each_matrix(r.in(0), [&](size_t i, double, const std::vector<double>& inverse) {
      std::ranges::copy(inverse, r.out().real.begin() + static_cast<std::ptrdiff_t>(i * inverse.size()));
    });
  }
  void lower(Lowering& l) const override {
    const Operand& y = l.out();
    if (y.view.elements() == 0) return;
    const int64_t n = y.view.dims.back();
    const Operand inverse = l.scratch(DType::f32, {y.view.elements() / (n * n), n, n});
    lower_elimination(l, kName, l.in(0), inverse, {});
    lower_convert(l, inverse.with_view(View::contiguous(y.view.dims)), y);
  }
  // Relative to the largest elements of the inverse, the error is the condition of the matrix in units of the
  // last place; both are up to some hundreds for random matrices.
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    const Shape& x = inputs[0].shape;
    const auto n = static_cast<double>(x[x.rank() - 1].value());
    return {.ulps = 256 * n, .scale = 64};
  }
};

}  // namespace

Value det(Value x) { return x.graph().add_value(std::make_shared<Det>(), {x}); }
Value inverse(Value x) { return x.graph().add_value(std::make_shared<Inverse>(), {x}); }

namespace ops {
void register_det(OpTable& table) {
  table.add<Det>(
      {.formula = "the determinant of the matrices in the last two axes",
       .operands = "x",
       .types = "f32 f16 bf16",
       .variants = names_of(kVariants),
       .samples = {"det(T[3,3])", "det(T[2,5,4,4])", "det(T[1,1])", "det(T[7,2,2])", "det(T[0,3,3])",
                   "det(T[2,0,0])", "det(T[17,17] in -0.5..0.5)", "det(T[30001,3,3])"}});
  table.add<Inverse>(
      {.formula = "the inverse of the matrices in the last two axes",
       .operands = "x",
       .types = "f32 f16 bf16",
       .variants = names_of(kVariants),
       .samples = {"inverse(T[3,3])", "inverse(T[2,3,4,4])", "inverse(T[1,1])", "inverse(T[0,3,3])",
                   "inverse(T[2,0,0])", "inverse(T[17,17])", "inverse(T[90001,1,1] in 1..2)"}});
}
}  // namespace ops

}  // namespace rlx
