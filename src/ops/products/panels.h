// b copied into panels of neighbouring columns before the product, each [k, column] in one piece of memory.
#pragma once

#include <optional>

#include "ops/products/product.h"

namespace rlx::products {

// The product that reads b from panels, without their memory: for estimates. Nothing where b cannot be copied
// like that, or is not worth it: on GPUs, and where the number of columns is not known.
std::optional<Product> with_panels(const Target& target, const Product& p);
// What the copy takes, by estimate.
double panels_ns(const Rates& r, const Product& p);
// Emits the copy and returns the product that reads it; as it is where it has no panels.
Product into_panels(Lowering& l, Product p);

}  // namespace rlx::products
