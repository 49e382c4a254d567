#include "ops/products/grouped_product.h"

#include <algorithm>

#include "kernels/binder.h"
#include "kernels/group_rows.wgsl.h"
#include "kernels/rates.h"
#include "ops/elementwise/elementwise.h"
#include "ops/machinery/fill.h"
#include "ops/products/load_by_table.h"
#include "ops/products/load_strided.h"
#include "ops/products/store_by_table.h"
#include "ops/products/store_strided.h"

namespace rlx {
namespace {

using products::Grouped;
using products::LoadByTable;
using products::LoadStrided;
using products::Product;
using products::StoreByTable;
using products::StoreStrided;

// Each row is a batch with an expert of its own.
Product one_by_one(const Lowering& l, const GroupedProduct& g, int64_t first, int64_t count,
                   LoadByTable::Outside outside) {
  const int64_t row_axes = l.out().view.rank() - 1;
  Product p;
  p.size = {g.rows(), 1, l.out().view.dims.back(), g.x.view.dims.back()};
  p.run = g.run;
  p.a = std::make_shared<LoadStrided>(Grouped{g.x, row_axes, 0});
  p.b = std::make_shared<LoadByTable>(
      g.weights(first, count),
      LoadByTable::Table{.indices = g.expert, .first = first, .count = count, .outside = outside});
  p.y = std::make_shared<StoreStrided>(Grouped{l.out(), row_axes, 0});
  return p;
}

// Rows with the same expert side by side, so that they share what is read of its weights. False, and nothing
// emitted, if the device cannot bind it.
bool lower_sorted(Lowering& l, const GroupedProduct& g, const Candidate& c) {
  using Kernel = kernels::group_rows;
  const int64_t rows = g.rows();
  const int64_t tile = c.at("TILE");
  // Each expert, and no expert, may have a slot that is not full.
  const int64_t slots = std::min(rows, rows / tile + g.experts + 1);
  Operand slot = l.scratch(DType::i32, {slots});
  Operand place = l.scratch(DType::i32, {slots, tile});
  const Dispatch sort = [&] {
    const Lowering::Label label(l, c);
    return l.make<Kernel>(
        {.expert = g.expert, .slot = slot, .place = place},
        {.rows = to_u32(rows), .experts = to_u32(g.experts), .tile = to_u32(tile), .slots = to_u32(slots)},
        1);
  }();
  Product p;
  p.size = {slots, tile, l.out().view.dims.back(), g.x.view.dims.back()};
  p.run = g.run;
  const int64_t row_axes = l.out().view.rank() - 1;
  p.a = std::make_shared<LoadByTable>(
      std::make_shared<LoadStrided>(Grouped{g.x, 0, row_axes}),
      LoadByTable::Table{.indices = place, .picks = LoadByTable::Picks::line, .lines = tile, .count = rows});
  p.b = std::make_shared<LoadByTable>(
      g.weights(0, g.experts),
      LoadByTable::Table{
          .indices = slot, .count = g.experts, .outside = LoadByTable::Outside::skipped_if_negative});
  p.y = std::make_shared<StoreByTable>(std::make_shared<StoreStrided>(Grouped{l.out(), 0, row_axes}), place,
                                       rows);
  if (!fits(sort, l.caps()) || !products::can_bind(l, g.op, p)) return false;
  l.emit(sort);
  products::lower(l, g.op, std::move(p));
  return true;
}

// Weights larger than all bindings: those of some experts at a time, each for the rows that ask for them.
void lower_by_experts(Lowering& l, const GroupedProduct& g, int64_t first, int64_t count) {
  const Product p = one_by_one(l, g, first, count, LoadByTable::Outside::skipped);
  if (products::lower_bound(l, g.op, p)) return;
  if (count == 1) {
    // Summed in parts, which takes all rows: those of other experts are zeros, to be added.
    const Operand one = l.scratch(l.out().dtype, l.out().view.dims);
    Product alone = one_by_one(l, g, first, count, LoadByTable::Outside::zero);
    alone.y = std::make_shared<StoreStrided>(Grouped{one, one.view.rank() - 1, 0});
    products::lower(l, g.op, alone);
    lower_expr(l, Expr::parse("add($0,$1)", {one.dtype, one.dtype}), {l.out(), one}, l.out());
    return;
  }
  lower_by_experts(l, g, first, count / 2);
  lower_by_experts(l, g, first + count / 2, count - count / 2);
}

bool lower_alone(Lowering& l, const GroupedProduct& g, const Candidate&) {
  const Product whole = one_by_one(l, g, 0, g.experts, LoadByTable::Outside::zero);
  if (products::can_bind(l, g.op, whole)) {
    products::lower(l, g.op, whole);
  } else {
    lower_fill(l, l.out(), 0);
    lower_by_experts(l, g, 0, g.experts);
  }
  return true;
}

// One that reads all of its expert's weights.
double row_ns(const Target& target, const GroupedProduct& g) {
  const double elements = static_cast<double>(g.x.view.dims.back()) * static_cast<double>(g.columns);
  return compute_ns(rates_of(target.caps), 2 * elements, {.cpu = 1, .gpu = 1});
}

std::vector<Candidate> alone_candidates(const Target& target, const GroupedProduct& g) {
  return one_candidate(row_ns(target, g) * static_cast<double>(g.rows()));
}

bool can_sort(const Target&, const GroupedProduct& g) {
  return g.experts <= kernels::group_rows::MOST_EXPERTS;
}

// With up to 16 rows tiles would be nearly empty; with more, rows share what is read.
std::vector<Candidate> sorted_candidates(const Target& target, const GroupedProduct& g) {
  const double ns = row_ns(target, g) * (12 + static_cast<double>(g.rows()) / 4);
  std::vector<Candidate> out;
  for (const uint32_t tile : {16u, 64u}) {
    const bool full = g.rows() / g.experts >= 48;
    out.push_back({full == (tile == 64) ? ns : 1.25 * ns, {{"TILE", tile}}});
  }
  return out;
}

constexpr Variant<GroupedProduct, bool> kVariants[] = {
    {"alone", always, alone_candidates, lower_alone},
    {kSortedRows, can_sort, sorted_candidates, lower_sorted}};

}  // namespace

std::string GroupedProduct::key() const {
  return formatted("{} rows{} experts {} n{} k{}", to_string(x.dtype), size_class(rows()), experts, columns,
                   x.view.dims.back());
}

void lower_grouped(Lowering& l, const GroupedProduct& g) {
  if (l.out().view.elements() == 0) return;
  if (g.experts == 0) return lower_fill(l, l.out(), 0);
  const Choice choice = l.choose(g.op, kVariants, g);
  // Not labelled: the products in it have names of their own.
  if (!choice.row->make(l, g, choice.candidate)) lower_alone(l, g, {});
}

}  // namespace rlx
