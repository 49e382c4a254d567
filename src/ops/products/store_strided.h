// Stores to a strided view with any number of axes in each group.
#pragma once

#include "base/checked.h"
#include "ops/products/product.h"

namespace rlx::products {

class StoreStrided final : public Store {
 public:
  explicit StoreStrided(Grouped y) : y_(std::move(y)) {
    y_.operand.outer_rank = y_.first_axes + y_.second_axes;
  }

  std::string_view name() const override { return "strided"; }
  std::string wgsl() const override {
    return R"(//@ out y any x4
struct y_Line { at: u32, }
fn y_line(batch: u32, row: u32) -> y_Line { return y_Line(y_base(batch * params.m + row)); }
fn y_store(l: y_Line, col: u32, v: y_t) { y_put(l.at + y_step(col), v); }
fn y_store4(l: y_Line, col: u32, v: vec4<y_t>) { y_put4(l.at + y_step(col), v); }
)";
  }

  bool offers_four() const override { return y_.quads(2); }
  Binding bind(bool four, const Region& region) const override {
    Binding b;
    Operand y = y_.operand;
    y.x4 = four;
    if (region.is_part(y_.group(0).elements(), y_.group(1).elements(), y_.group(2).elements()))
      y.window = y_.reach(region.batch, region.rows, region.cols);
    b.operands = {y};
    return b;
  }
  DType dtype() const override { return y_.operand.dtype; }
  const Grouped* whole() const override { return &y_; }

 private:
  Grouped y_;
};

}  // namespace rlx::products
