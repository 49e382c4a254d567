// Loads what a table chooses, in the way of another load: the batch (an expert for each), or each line.
#pragma once

#include "base/checked.h"
#include "kernels/rename.h"
#include "ops/products/product.h"

namespace rlx::products {

class LoadByTable final : public Load {
 public:
  enum class Picks { batch, line };
  // What a batch is whose index is out of range; a line may then be anything.
  enum class Outside : uint32_t { zero, skipped, skipped_if_negative };

  struct Table {
    Operand indices;  // one for each batch or, as [batch, lines], for each line
    Picks picks = Picks::batch;
    int64_t lines = 1;
    int64_t first = 0, count = 0;  // what `inner` has: batches or lines [first, first + count)
    Outside outside = Outside::zero;
  };
  LoadByTable(LoadPtr inner, Table table) : inner_(std::move(inner)), table_(std::move(table)) {}

  std::string_view name() const override { return "by_table"; }
  std::string id() const override {
    return formatted("by_table {} of {}", table_.picks == Picks::batch ? "batch" : "line", inner_->id());
  }
  std::string wgsl() const override {
    std::string text = renamed(inner_->wgsl(), {{"x_line", "x_inner_line"}});
    text += R"(//@ in x_table int
//@ param x_table_lines: u32
//@ param x_table_first: u32
//@ param x_table_count: u32
const x_OUTSIDE: u32 = 0u;  //@ spec

fn x_chosen(i: u32) -> u32 { return u32(x_table_at(i)) - params.x_table_first; }
)";
    if (table_.picks == Picks::batch) {
      return text + R"(fn x_line(batch: u32, line: u32) -> x_Line {
  return x_inner_line(min(x_chosen(batch), params.x_table_count - 1u), line);
}
fn x_zero(batch: u32) -> bool { return x_chosen(batch) >= params.x_table_count; }
fn x_skips(batch: u32) -> bool {
  return (x_OUTSIDE == 1u && x_zero(batch)) || (x_OUTSIDE == 2u && x_table_at(batch) < 0);
}
)";
    }
    return text + R"(fn x_line(batch: u32, line: u32) -> x_Line {
  return x_inner_line(0u, min(x_chosen(batch * params.x_table_lines + line), params.x_table_count - 1u));
}
)";
  }

  bool offers(Access access) const override {
    return (access == Access::four_k || table_.picks == Picks::batch) && inner_->offers(access);
  }
  bool along_k() const override { return inner_->along_k(); }
  int64_t grain() const override { return inner_->grain(); }

  Binding bind(Access access, const Lines& lines) const override {
    const Extent all{0, table_.count};
    Lines inner{all, lines.lines, lines.k};
    if (table_.picks == Picks::line) inner = {{0, 1}, all, lines.k};
    Binding b = inner_->bind(offers(access) ? access : Access::one, inner);
    b.operands.push_back(table_.indices);
    for (const int64_t word : {table_.lines, table_.first, table_.count}) b.words.push_back(to_u32(word));
    b.specs.push_back(spec_value("x_OUTSIDE", static_cast<uint32_t>(table_.outside)));
    return b;
  }
  DType dtype() const override { return inner_->dtype(); }

 private:
  LoadPtr inner_;
  Table table_;
};

}  // namespace rlx::products
