// Products whose rows each name the weight that they are multiplied with.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "kernels/lowering.h"
#include "ops/products/product.h"

namespace rlx {

// For OpInfo::variants, beside those of products: rows with the same expert side by side.
inline constexpr std::string_view kSortedRows = "sorted";

// y[r..] = x[r..] w[expert[r..]] for x [r.., k] and an index for each row. A row whose index is negative or
// past the last expert is zero: it belongs to no expert here.
struct GroupedProduct {
  std::string_view op;  // whose kernels may be forced
  Operand x, expert;
  int64_t experts = 0;
  int64_t columns = 0;  // of the output
  // Loads the weights of some of the experts, as batches of lines along k.
  std::function<products::LoadPtr(int64_t first, int64_t count)> weights;
  int64_t run = 0;  // Product::run

  int64_t rows() const { return expert.view.elements(); }
  std::string key() const;
};

// Into the output of the node.
void lower_grouped(Lowering& l, const GroupedProduct& g);

}  // namespace rlx
