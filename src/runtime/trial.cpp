#include "runtime/trial.h"

#include <algorithm>
#include <cmath>

#include "base/half.h"
#include "ops/elementwise/elementwise.h"
#include "ops/products/product_op.h"
#include "rlx/graph.h"

namespace rlx {
namespace {

// Sums, norms, products and expressions round on the way to their result, which may be much smaller than what
// they add: their results are exact only for slightly different inputs. A single function is right for its
// own inputs, up to the last digits, and decisions (less, argmax) are exact.
bool rounds_inside(const Node& n) {
  const auto real = [](const TensorType& t) { return is_float(t.dtype) || t.dtype == DType::c64; };
  return std::ranges::any_of(n.outputs, real) && !op_cast<Elementwise>(*n.op) && !op_cast<Cast>(*n.op);
}

bool alike(double a, double b) {
  return a == b || (std::isfinite(a) && std::isfinite(b)) || (std::isnan(a) && std::isnan(b));
}

}  // namespace

std::vector<RefTensor> Trial::run(const Node& n, const std::vector<const RefTensor*>& inputs) {
  if (n.op->is_leaf() || n.op->has(Trait::view)) return run_reference(n, inputs);
  std::vector<TensorType> types;
  for (const RefTensor* in : inputs)
    types.push_back(in ? TensorType{in->dtype, Shape(in->dims)} : TensorType{});
  const Tolerance t = n.op->tolerance(types);
  const double relative = epsilon(DType::f32) * (t.ulps + 4 * std::sqrt(t.terms));
  std::vector<RefTensor> outputs =
      rounds_inside(n) ? run_moved(n, inputs, relative) : run_reference(n, inputs);
  for (RefTensor& out : outputs) {
    const bool narrow = out.dtype == DType::f16 || out.dtype == DType::bf16;
    move(out, relative + (narrow ? epsilon(out.dtype) : 0));
    for (double& x : out.real) x = stored(x, out.dtype);
    for (std::complex<double>& x : out.complex)
      x = {stored(x.real(), DType::f32), stored(x.imag(), DType::f32)};
  }
  return outputs;
}

std::vector<RefTensor> Trial::run_moved(const Node& n, const std::vector<const RefTensor*>& inputs,
                                        double relative) {
  std::vector<RefTensor> copies(inputs.size());
  std::vector<const RefTensor*> moved(inputs.size(), nullptr);
  const ProductOp* const product = as_product(*n.op);
  const auto factors = static_cast<size_t>(product ? product->own_inputs() : 0);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) continue;
    copies[i] = *inputs[i];
    if (rounds_ && i < factors) round(copies[i]);
    move(copies[i], i < factors ? std::max(relative, factors_) : relative);
    moved[i] = &copies[i];
  }
  return run_reference(n, moved);
}

void Trial::round(RefTensor& t) {
  for (double& x : t.real) {
    int exponent = 0;
    const double fraction = std::frexp(x, &exponent);
    if (std::isfinite(x)) x = std::ldexp(std::nearbyint(std::ldexp(fraction, 11)), exponent - 11);
  }
}

void Trial::move(RefTensor& t, double relative) {
  if (relative == 0) return;
  for (double& x : t.real) x *= 1 + relative * uniform_(random_);
  for (std::complex<double>& x : t.complex)
    x += relative * std::abs(x) * std::complex<double>(uniform_(random_), uniform_(random_));
}

// A value as memory holds it.
double Trial::stored(double x, DType type) const {
  const double y = type == DType::f16    ? float_from_f16(f16_from_double(x))
                   : type == DType::bf16 ? float_from_bf16(bf16_from_double(x))
                                         : static_cast<float>(x);
  return flushes_ && std::fabs(y) < 0x1p-126 ? 0 : y;
}

std::vector<double> numbers(const RefTensor& t) {
  if (t.dtype != DType::c64) return t.real;
  std::vector<double> out;
  for (const std::complex<double>& x : t.complex) {
    out.push_back(x.real());
    out.push_back(x.imag());
  }
  return out;
}

Movement::Movement(const std::vector<double>& want, const std::vector<const RefTensor*>& trials,
                   bool decisions)
    : by_(want.size()), unclear_(want.size()) {
  for (const RefTensor* trial : trials) {
    const std::vector<double> moved = numbers(*trial);
    for (size_t i = 0; i < want.size(); ++i) {
      if (!alike(want[i], moved[i])) unclear_[i] = true;
      if (std::isfinite(want[i]) && std::isfinite(moved[i]))
        by_[i] = std::max(by_[i], std::fabs(moved[i] - want[i]));
    }
  }
  if (want.empty()) return;
  double squares = 0;
  for (double b : by_) squares += b * b;
  spread_ = decisions ? std::ranges::max(by_) : std::sqrt(squares / static_cast<double>(by_.size()));
}

Tolerance Movement::tolerance(size_t i) const {
  return {.ulps = 1, .terms = 0, .scale = 4 * (by_[i] + spread_) / epsilon(DType::f32)};
}

}  // namespace rlx
