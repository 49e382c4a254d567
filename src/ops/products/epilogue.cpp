#include "ops/products/epilogue.h"

namespace rlx {

void reference_epilogue(const Expr& expr, RefTensor product, int64_t first_extra, RefContext& r) {
  if (expr.steps.empty()) {
    r.out() = std::move(product);
    return;
  }
  std::vector<const RefTensor*> inputs = {&product};
  for (int64_t i = first_extra; i < r.input_count(); ++i) inputs.push_back(&r.in(i));
  const TensorType type{expr.result_type(), Shape(product.dims)};
  RefContext context(inputs, std::span(&type, 1));
  reference(expr, context);
  r.out() = std::move(context.out());
}

}  // namespace rlx
