// Loads what a table chooses, in the way of another load: the batch (an expert for each), or each line.
#pragma once

#include "base/checked.h"
#include "ops/products/product.h"
#include "ops/products/rename.h"

namespace rlx::products {

class LoadByTable final : public Load {
 public:
  enum class Picks { batch, line };

  // `table` has an index for each batch or, as [batch, lines], for each line; `count` is how many batches or
  // lines `inner` has. A batch that is out of range is zero; if `skips`, nothing at all is computed for -1.
  // A line out of range may be anything.
  LoadByTable(LoadPtr inner, Operand table, Picks picks, int64_t lines, int64_t count, bool skips)
      : inner_(std::move(inner)), table_(std::move(table)), picks_(picks), lines_(lines), count_(count), skips_(skips) {}

  std::string_view name() const override { return "by_table"; }
  std::string wgsl() const override {
    std::string text = renamed(inner_->wgsl(), {{"x_line", "x_inner_line"}});
    text += R"(//@ in x_table int
//@ param x_table_lines: u32
//@ param x_table_count: u32
const x_SKIPS: bool = false;  //@ spec
)";
    if (picks_ == Picks::batch) {
      return text + R"(fn x_line(batch: u32, line: u32) -> x_Line {
  return x_inner_line(min(u32(x_table_at(batch)), params.x_table_count - 1u), line);
}
fn x_zero(batch: u32) -> bool { return u32(x_table_at(batch)) >= params.x_table_count; }
fn x_skips(batch: u32) -> bool { return x_SKIPS && x_table_at(batch) == -1; }
)";
    }
    return text + R"(fn x_line(batch: u32, line: u32) -> x_Line {
  let chosen = u32(x_table_at(batch * params.x_table_lines + line));
  return x_inner_line(0u, min(chosen, params.x_table_count - 1u));
}
)";
  }

  bool offers(Access access) const override {
    return (access == Access::four_k || picks_ == Picks::batch) && inner_->offers(access);
  }
  bool along_k() const override { return inner_->along_k(); }

  Binding bind(Access access, const Lines& lines) const override {
    const bool batch = picks_ == Picks::batch;
    Binding b = inner_->bind(offers(access) ? access : Access::one,
                             {batch ? Extent{0, count_} : Extent{0, 1}, batch ? lines.lines : Extent{0, count_}, lines.k});
    b.operands.push_back(table_);
    b.words.push_back(to_u32(lines_));
    b.words.push_back(to_u32(count_));
    b.specs.push_back(spec_value("x_SKIPS", skips_));
    return b;
  }
  DType dtype() const override { return inner_->dtype(); }

 private:
  LoadPtr inner_;
  Operand table_;
  Picks picks_;
  int64_t lines_;
  int64_t count_;
  bool skips_;
};

}  // namespace rlx::products
