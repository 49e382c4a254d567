// Cuts a product into regions that the device can bind, or its work into steps.
#include <algorithm>

#include "base/checked.h"
#include "kernels/binder.h"
#include "kernels/dispatch_limit.h"
#include "kernels/expected_time.h"
#include "ops/elementwise/elementwise.h"
#include "ops/products/halves.h"
#include "ops/products/load_strided.h"
#include "ops/products/panels.h"
#include "ops/products/product.h"
#include "ops/products/store_strided.h"
#include "ops/rearrange/contiguous.h"
#include "ops/reductions/reduce.h"

namespace rlx::products {
namespace {

constexpr std::string_view kSum = "add($0,$1)";

class Cutter {
 public:
  Cutter(Lowering& l, std::string_view op, std::string_view form = {}) : l_(l), op_(op), form_(form) {}

  void lower(const Product& p) { lower(p, make(p)); }
  // `whole` is the product if it need not be cut.
  void lower(const Product& p, Dispatch whole) {
    if (std::optional<std::vector<Dispatch>> parts = regions(p, std::move(whole))) {
      for (Dispatch& d : *parts) l_.emit(std::move(d));
      return;
    }
    const Grouped* const y = p.y->whole();
    const bool plain =
        y && p.expr.steps.empty() && y->operand.dtype == p.sum_type() && y->operand.view.is_contiguous();
    const int64_t half = half_of(p.region.k.length(), p.grain());
    if (y && !plain) {
      lower_apart(p);
    } else if (y && half > 0) {
      lower_sums(p, p.region.k.begin + half);
    } else {
      l_.emit(make(p));  // reports what does not fit
    }
  }

  // Dispatches for regions of y that can be bound; nothing if not even those of single elements can.
  std::optional<std::vector<Dispatch>> regions(const Product& p) { return regions(p, make(p)); }
  std::optional<std::vector<Dispatch>> regions(const Product& p, Dispatch whole) {
    const bool cut_encoded = can_cut_encoded(p);
    const auto good = [&](const Dispatch& d) {
      return fits(d, l_.caps()) && (!cut_encoded || encoded_are_whole(d, l_.caps()));
    };
    const bool can_bind = good(whole);
    if (can_bind && is_short(whole, l_.target())) return std::vector{std::move(whole)};
    if (!can_bind && !good(make(part(p, smallest(p.region))))) return std::nullopt;
    // Cut in half along the axis for which the halves touch the least memory.
    Region low, high;
    std::optional<double> least;
    for (Extent Region::* const axis : {&Region::batch, &Region::rows, &Region::cols}) {
      const Extent& extent = p.region.*axis;
      const int64_t half = half_of(extent.length(), 1);
      if (half == 0) continue;
      Region first = p.region;
      Region second = p.region;
      (first.*axis).end = (second.*axis).begin = extent.begin + half;
      const double bytes = std::max(bound_bytes(make(part(p, first))), bound_bytes(make(part(p, second))));
      if (least && bytes >= *least) continue;
      least = bytes;
      low = first;
      high = second;
    }
    if (!least && can_bind) return std::vector{std::move(whole)};
    if (!least) return std::nullopt;
    std::optional<std::vector<Dispatch>> out = regions(part(p, low));
    std::optional<std::vector<Dispatch>> rest = out ? regions(part(p, high)) : std::nullopt;
    if (!rest) return std::nullopt;
    std::ranges::move(*rest, std::back_inserter(*out));
    check_dispatch_count(0, std::ssize(*out));
    return out;
  }

  // y = epilogue(p), where p is the product alone, made by `make_product` in the memory it is given.
  template <class F>
  void lower_tail(const Product& p, DType type, F&& make_product) {
    const Grouped& y = *p.y->whole();
    const Operand value = l_.scratch(type, y.operand.view.dims);
    make_product(value);
    if (p.expr.steps.empty() && type == y.operand.dtype) return lower_copy_into(l_, value, y.operand);
    OperandList inputs = {value};
    for (const Grouped& e : p.extra) inputs.push_back(e.operand);
    Expr tail = p.expr;
    if (tail.steps.empty()) {
      tail.inputs = {type};
      tail.cast(Expr::input(0), y.operand.dtype);
    }
    const bool dense = y.operand.view.is_contiguous();
    const Operand result = dense ? y.operand : l_.scratch(y.operand.dtype, y.operand.view.dims);
    lower_expr(l_, tail, inputs, result);
    if (!dense) lower_copy_into(l_, result, y.operand);
  }

  // The sums over parts of k at the same time, then their sum.
  void lower_split(Product p, const Choice<Product, Dispatch>& choice) {
    const Product whole = p;
    const int64_t parts = choice.candidate.at(kParts);
    const Grouped& y = *p.y->whole();
    std::vector<int64_t> dims = {parts};
    dims.insert(dims.end(), y.operand.view.dims.begin(), y.operand.view.dims.end());
    const Operand sums = l_.scratch(p.sum_type(), dims);
    p.y = std::make_shared<StoreStrided>(Grouped{sums, y.first_axes + 1, y.second_axes});
    p.extra.clear();
    p.expr = Expr{};
    p.k_parts = parts;
    Dispatch d = choice.make(l_, p);
    if (!fits(d, l_.caps())) return lower(whole);
    l_.emit(std::move(d));
    const bool plain =
        whole.expr.steps.empty() && y.operand.dtype == p.sum_type() && y.operand.view.is_contiguous();
    if (plain) {
      lower_reduce(l_, ReduceKind::sum, sums, {0}, y.operand);
    } else {
      lower_tail(whole, product_type(whole),
                 [&](const Operand& to) { lower_reduce(l_, ReduceKind::sum, sums, {0}, to); });
    }
  }

 private:
  // A part, for which a loop of its own is chosen: of rounded factors the one that rounds them.
  Dispatch make(const Product& p) {
    const Target& target = l_.target();
    Choice choice = choose(target, op_, p.halved ? rounding_loop() : loops(), typical(target, p),
                           no_other_forms<Product>, /*part=*/true);
    choice.candidate.form = form_;
    choice.candidate.own_ns = predicted_ns(rates_of(target.caps), p, choice.candidate);
    return choice.make(l_, p);
  }

  // Whether encoded operands lie in one binding if the product is cut far enough. Experts are chosen on the
  // device, so theirs cannot be cut at all.
  bool can_cut_encoded(const Product& p) {
    if (p.grain() == 1) return false;
    Region least = smallest(p.region);
    if (p.y->whole()) least.k.end = least.k.begin + p.grain();
    return encoded_are_whole(make(part(p, least)), l_.caps());
  }

  static Product part(const Product& p, const Region& region) {
    Product out = p;
    out.region = region;
    return out;
  }

  // An epilogue starts from the product as it would be stored; without one it is still of the type in which
  // it is summed.
  static DType product_type(const Product& p) {
    return p.expr.steps.empty() ? p.sum_type() : p.expr.inputs.at(0);
  }

  // About how many bytes a dispatch binds.
  static double bound_bytes(const Dispatch& d) {
    double bytes = 0;
    for (const Operand& o : d.operands) {
      if (!o.present()) continue;
      const View::Range all = o.view.range();
      const View::Range bound = o.window.end > o.window.begin ? o.window : all;
      bytes += static_cast<double>(reach_bytes(o)) * static_cast<double>(bound.end - bound.begin) /
               static_cast<double>(std::max<int64_t>(all.end - all.begin, 1));
    }
    return bytes;
  }

  static Region smallest(Region r) {
    r.batch.end = r.batch.begin + 1;
    r.rows.end = r.rows.begin + 1;
    r.cols.end = r.cols.begin + 1;
    return r;
  }

  // About half, at a multiple of the largest of these that is possible: tiles, vectors.
  static int64_t half_of(int64_t length, int64_t grain) {
    for (const int64_t multiple : {64, 4, 1}) {
      const int64_t half = round_up(ceil_div(length, 2), multiple * grain);
      if (half < length) return half;
    }
    return 0;
  }

  // The product in its own memory, then the epilogue over it: each can be cut separately.
  void lower_apart(const Product& p) {
    Product bare = p;
    const Grouped& y = *p.y->whole();
    lower_tail(p, product_type(p), [&](const Operand& to) {
      bare.y = std::make_shared<StoreStrided>(Grouped{to, y.first_axes, y.second_axes});
      bare.extra.clear();
      bare.expr = Expr{};
      lower(bare);
    });
  }

  // Sums over parts of k, added up.
  void lower_sums(const Product& p, int64_t middle) {
    const Grouped& y = *p.y->whole();
    const auto to_scratch = [&](Extent k) {
      Product half = p;
      half.region.k = k;
      const Operand sum = l_.scratch(p.sum_type(), y.operand.view.dims);
      half.y = std::make_shared<StoreStrided>(Grouped{sum, y.first_axes, y.second_axes});
      lower(half);
      return sum;
    };
    const Operand low = to_scratch({p.region.k.begin, middle});
    const Operand high = to_scratch({middle, p.region.k.end});
    lower_expr(l_, Expr::parse(kSum, {p.sum_type(), p.sum_type()}), {low, high}, y.operand);
  }

  Lowering& l_;
  std::string_view op_;
  std::string_view form_;  // that products already have
};

// Loads that decode groups do so once per run.
void take_runs(Product& p) {
  if (p.run == 0 && p.grain() > 1) p.run = p.grain();
  for (const LoadPtr& load : {p.a, p.b}) {
    check(load->grain() == 1 || load->grain() == p.run, "a run is a group of the encoded operand");
  }
  check(p.run == 0 || p.size.k % p.run == 0, "runs divide k");
}

// The product for a candidate of rounded_forms.
Product rounded(Lowering& l, Product p, const Candidate& candidate) {
  return into_halves(l, std::move(p), candidate.at(kSums) == 16 ? Halves::factors_and_sums : Halves::factors);
}

Region everything(const Product& p) {
  return {{0, p.size.batch}, {0, p.size.m}, {0, p.size.n}, {0, p.size.k}};
}

}  // namespace

bool can_bind(Lowering& l, std::string_view op, Product p) {
  take_runs(p);
  p.region = everything(p);
  return Cutter(l, op).regions(p).has_value();
}

bool lower_bound(Lowering& l, std::string_view op, Product p) {
  take_runs(p);
  p.region = everything(p);
  std::optional<std::vector<Dispatch>> parts = Cutter(l, op).regions(p);
  if (!parts) return false;
  const Target& target = l.target();
  if (target.precision != Precision::exact) {
    const Choice choice = choose(
        target, op, loops(), typical(target, p), [&] { return rounded_forms(target, p); }, /*part=*/true);
    if (has_words(choice.candidate.form, kHalved)) {
      p = rounded(l, std::move(p), choice.candidate);
      Cutter(l, op, kHalved).lower(p, choice.make(l, p));
      return true;
    }
  }
  for (Dispatch& d : *parts) l.emit(std::move(d));
  return true;
}

void lower(Lowering& l, std::string_view op, Product p) {
  if (p.size.batch * p.size.m * p.size.n == 0) return;
  take_runs(p);
  p.region = everything(p);
  const Target& target = l.target();
  Choice choice = choose(target, op, loops(), typical(target, p), [&] { return other_forms(target, p); });
  const std::string_view form = choice.candidate.form;
  if (has_words(form, kHalved)) p = rounded(l, std::move(p), choice.candidate);
  p = has_words(form, kPaneled) ? into_panels(l, std::move(p)) : in_form(std::move(p), form);
  choice.candidate.own_ns = predicted_ns(rates_of(target.caps), p, choice.candidate);
  if (has_words(form, kSplitK)) {
    // Its last word.
    Cutter cutter(l, op, form.substr(0, form.size() - std::min(form.size(), kSplitK.size() + 1)));
    cutter.lower_split(std::move(p), choice);
  } else {
    Cutter(l, op, form).lower(p, choice.make(l, p));
  }
}

}  // namespace rlx::products
