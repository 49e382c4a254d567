// Products whose factors are rounded to f16, for precisions that allow it.
#pragma once

#include <optional>

#include "ops/products/product.h"

namespace rlx::products {

// What may be of f16.
enum class Halves : uint8_t { factors, factors_and_sums };

// The product with rounded factors, for choosing a kernel; nothing where that is not allowed or does not fit.
std::optional<Product> with_halves(const Target& target, const Product& p, Halves halves);
// The time for the exponents of its lines.
double halves_ns(const Rates& r, const Product& p);
// The same with its exponents, computed first.
Product into_halves(Lowering& l, Product p, Halves halves);

}  // namespace rlx::products
