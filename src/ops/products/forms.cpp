// The forms of a product: as it is, transposed, with bytes in fours, with sums over parts of k at the same
// time, with b in panels.
#include <algorithm>
#include <bit>

#include "base/checked.h"
#include "ops/products/halves.h"
#include "ops/products/panels.h"
#include "ops/products/product.h"
#include "ops/products/store_strided.h"

namespace rlx::products {
namespace {

// By whether bytes are in fours, whether it is transposed, and whether k is in parts. Words are in this
// order.
constexpr std::string_view kNames[2][2][2] = {
    {{"", "split_k"}, {"transposed", "transposed split_k"}},
    {{"dot4", "dot4 split_k"}, {"dot4 transposed", "dot4 transposed split_k"}}};
static_assert(kNames[0][0][1] == kSplitK && kNames[0][1][0] == kTransposed && kNames[1][0][0] == kDot4);

// [batch.., cols.., rows..]
Grouped swapped(const Grouped& y) {
  const int64_t rank = y.operand.view.rank();
  std::vector<int64_t> order;
  const auto append = [&](int64_t begin, int64_t end) {
    for (int64_t axis = begin; axis < end; ++axis) order.push_back(axis);
  };
  append(0, y.first_axes);
  append(y.first_axes + y.second_axes, rank);
  append(y.first_axes, y.first_axes + y.second_axes);
  return {y.operand.with_view(y.operand.view.permute(order)), y.first_axes,
          rank - y.first_axes - y.second_axes};
}

// y^T = b^T a^T.
void transpose(Product& p) {
  std::swap(p.a, p.b);
  std::swap(p.size.m, p.size.n);
  std::swap(p.region.rows, p.region.cols);
  p.y = std::make_shared<StoreStrided>(swapped(*p.y->whole()));
  for (Grouped& e : p.extra) e = swapped(e);
}

// Bytes that lie along k are multiplied four at a time, where they all have a sign or none. False, and
// nothing changed, where they do not.
bool take_fours(Product& p) {
  if (p.run != 0 || p.a->dtype() != p.b->dtype()) return false;
  const LoadPtr a = p.a->in_words();
  const LoadPtr b = a ? p.b->in_words() : nullptr;
  if (!b) return false;
  p.fours = p.a->dtype();
  p.a = a;
  p.b = b;
  p.size.k /= 4;
  p.region.k = {0, p.size.k};
  return true;
}

// Loops are made for few rows rather than for few columns, which their estimates do not know well enough.
// Measured on lavapipe, with up to 4096 rows: up to 8 columns transposed products take a third to nine tenths
// of the time, with 9 to 16 a half to four fifths if there are more than 16 rows; from 24 on, and of 16
// rows, they are no faster.
double transposed_share(const Product& p) {
  const int64_t few = p.size.m > 16 ? 16 : 8;
  return p.size.n <= few && p.size.m > p.size.n ? 0.125 : 8;
}

// GPUs have an instruction for four bytes, and on CPUs fewer numbers are taken apart: what is measured there,
// for 64 rows.
constexpr double kFoursShare = 1 / 1.2;

// In how many parts of k the sums can be: a few wherever there are as many, and as many as keep a GPU busy.
InlineVector<int64_t, 2> numbers_of_parts(const Rates& r, const Product& p) {
  constexpr int64_t kFew = 4;
  constexpr int64_t kLeast = 512;  // of k in a part, on a GPU
  InlineVector<int64_t, 2> out;
  if (!p.y->whole()) return out;
  const int64_t few = std::min(p.size.k / std::max<int64_t>(p.grain(), 4), kFew);
  if (few > 1) out.push_back(few);
  const int64_t busy = std::min(static_cast<int64_t>(r.lanes / 4 / p.results()), p.size.k / kLeast);
  if (!r.cpu && busy > 1 && busy != few) out.push_back(busy);
  return out;
}

// The dispatch that adds up the parts, and their way through memory.
double parts_ns(const Rates& r, const Product& p, int64_t parts) {
  return r.dispatch_ns + 2 * 4 * p.results() * static_cast<double>(parts) / r.bytes_per_ns;
}

}  // namespace

Product typical(const Target& target, Product p) {
  if (!target.sizes_vary) return p;
  const auto widen = [](Extent& e, int64_t step) {
    const auto length = static_cast<uint64_t>(std::max<int64_t>(e.length(), 1));
    const auto few = static_cast<int64_t>(std::bit_ceil(length));
    e.end = e.begin + (few <= step ? few : round_up(e.length(), step));
  };
  widen(p.region.rows, 32);
  widen(p.region.cols, 64);
  if (p.run == 0) widen(p.region.k, 64);  // else loops ask whether runs fit in it
  return p;
}

std::vector<Form<Product>> rounded_forms(const Target& target, const Product& p) {
  std::vector<Form<Product>> out;
  for (const Halves halves : {Halves::factors, Halves::factors_and_sums}) {
    if (const std::optional<Product> form = with_halves(target, p, halves))
      out.push_back({typical(target, *form), kHalved, 1, halves_ns(rates_of(target.caps), p), {}, kMatrix});
  }
  return out;
}

std::vector<Form<Product>> other_forms(const Target& target, const Product& p) {
  const Rates r = rates_of(target.caps);
  std::vector<Form<Product>> out;
  for (const bool fours : {false, true}) {
    Product in_memory = p;
    if (fours && !take_fours(in_memory)) break;
    for (const bool turned : {false, true}) {
      Product form = in_memory;
      if (turned && !p.y->whole()) break;
      if (turned) transpose(form);
      const double share = (fours ? kFoursShare : 1) * (turned ? transposed_share(p) : 1);
      form = typical(target, std::move(form));
      if (fours || turned) out.push_back({form, kNames[fours][turned][0], share});
      for (const int64_t parts : numbers_of_parts(r, form)) {
        form.k_parts = parts;
        out.push_back(
            {form, kNames[fours][turned][1], share, parts_ns(r, p, parts), {{kParts, to_u32(parts)}}});
      }
    }
  }
  std::ranges::move(rounded_forms(target, p), std::back_inserter(out));
  if (const std::optional<Product> form = with_panels(target, p))
    out.push_back({typical(target, *form), kPaneled, 1, panels_ns(r, p)});
  return out;
}

Product in_form(Product p, std::string_view form) {
  if (has_words(form, kDot4)) take_fours(p);
  if (has_words(form, kTransposed)) transpose(p);
  return p;
}

}  // namespace rlx::products
