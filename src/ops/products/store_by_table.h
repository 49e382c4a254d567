// Stores each row where a table says, in the way of another store.
#pragma once

#include "kernels/rename.h"
#include "ops/products/product.h"

namespace rlx::products {

class StoreByTable final : public Store {
 public:
  // `table` has the row of `inner` for each [batch, row]; a row at -1 is not stored.
  StoreByTable(StorePtr inner, Operand table, int64_t rows)
      : inner_(std::move(inner)), table_(std::move(table)), rows_(rows) {}

  std::string_view name() const override { return "by_table"; }
  std::string id() const override { return "by_table of " + inner_->id(); }
  std::string wgsl() const override {
    return renamed(inner_->wgsl(), {{"y_Line", "y_InnerLine"},
                                    {"y_line", "y_inner_line"},
                                    {"y_store", "y_inner_store"},
                                    {"y_store4", "y_inner_store4"}}) +
           R"(//@ in y_table int
struct y_Line { stored: bool, inner: y_InnerLine, }
fn y_line(batch: u32, row: u32) -> y_Line {
  let to = y_table_at(batch * params.m + row);
  return y_Line(to >= 0, y_inner_line(0u, u32(max(to, 0))));
}
fn y_store(l: y_Line, col: u32, v: y_t) {
  if (l.stored) { y_inner_store(l.inner, col, v); }
}
fn y_store4(l: y_Line, col: u32, v: vec4<y_t>) {
  if (l.stored) { y_inner_store4(l.inner, col, v); }
}
)";
  }

  bool offers_four() const override { return inner_->offers_four(); }
  Binding bind(bool four, const Region& region) const override {
    Binding b = inner_->bind(four, {{0, 1}, {0, rows_}, region.cols, region.k});
    b.operands.push_back(table_);
    return b;
  }
  DType dtype() const override { return inner_->dtype(); }

 private:
  StorePtr inner_;
  Operand table_;
  int64_t rows_;  // of the inner store
};

}  // namespace rlx::products
