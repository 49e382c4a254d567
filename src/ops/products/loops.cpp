// The table of tile loops.
#include <algorithm>
#include <bit>
#include <cmath>

#include "base/checked.h"
#include "ops/products/loop_dot.h"
#include "ops/products/loop_eighths.h"
#include "ops/products/loop_matrix.h"
#include "ops/products/loop_plain.h"
#include "ops/products/loop_rows.h"
#include "ops/products/loop_slide.h"
#include "ops/products/loop_staged.h"
#include "ops/products/loop_taps.h"
#include "ops/products/loop_tiled.h"
#include "ops/products/product.h"

namespace rlx::products {
namespace {

double bytes_per_element(DType dtype) {
  constexpr int64_t kMany = 1 << 20;  // whole blocks of every encoding
  return static_cast<double>(device_bytes_of(dtype, kMany)) / kMany;
}

constexpr Loop kLoops[] = {rows::kLoop,  staged::kLoop, dot::kLoop,    eighths::kLoop, tiled::kLoop,
                           slide::kLoop, taps::kLoop,   matrix::kLoop, plain::kLoop};

}  // namespace

std::span<const Loop> loops() { return kLoops; }

std::span<const Loop> rounding_loop() { return {std::ranges::find(kLoops, kMatrix, &Loop::name), 1}; }

std::vector<std::string> variant_names() {
  std::vector<std::string> names = names_of(kLoops);
  std::erase(names, kEighths);
  std::erase(names, kSlide);
  names.emplace_back(kSplitK);
  names.emplace_back(kTransposed);
  names.emplace_back(kHalved);
  return names;
}

DType Product::sum_type() const {
  if (fours) return DType::i32;
  if (is_float(value_dtype(a->dtype()))) return DType::f32;
  return a->dtype() == DType::u32 ? DType::u32 : DType::i32;
}

DType Product::mul_type() const { return fours ? DType::u32 : sum_type(); }

double Product::results() const {
  return static_cast<double>(size.batch) * static_cast<double>(size.m) * static_cast<double>(size.n);
}

std::string Product::key() const {
  const auto side = [&](const Load& load) {
    return formatted("{} {}{}{}", load.id(), to_string(load.dtype()), load.along_k() ? " along-k" : "",
                     reads_four_k(load) || load.offers(Access::four_lines) ? " x4" : "");
  };
  std::string out =
      formatted("{} * {} -> {} {}{} batch{} m{} n{} k{}", side(*a), side(*b), y->id(), to_string(y->dtype()),
                y->offers_four() ? " x4" : "", size_class(region.batch.length()), size_class(rows()),
                region.cols.length(), region.k.length());
  if (run != 0) out += formatted(" run{}", run);
  if (fours) out += formatted(" fours of {}", to_string(*fours));
  if (k_parts != 1) out += formatted(" parts{}", k_parts);
  if (!expr.steps.empty()) out += formatted(" epilogue{} of {}", size_class(expr.cost()), extra.size());
  return out;
}

Access Product::columns_access() const {
  if (b->along_k()) return reads_four_k(*b) ? Access::four_k : Access::one;
  return region.cols.begin % 4 == 0 ? Access::four_lines : Access::one;
}

int64_t Product::even_rows(int64_t most) const { return ceil_div(rows(), ceil_div(rows(), most)); }

double Product::padding(int64_t tile_rows, int64_t tile_cols) const {
  const auto one = [](int64_t length, int64_t tile) {
    return static_cast<double>(round_up(length, tile)) / static_cast<double>(length);
  };
  return one(rows(), tile_rows) * one(region.cols.length(), tile_cols);
}

namespace {

// Rows of b that lie a large power of two apart share a few places in a CPU's caches: products with 512 to
// 1024 rows then take 1.1 to 1.4 times as long.
double crowding(const Rates& r, const Product& p) {
  constexpr uint64_t kLeast = 4096;
  const Grouped* const b = p.b->whole();
  if (!r.cpu || !b || p.b->along_k() || p.region.k.length() < 256) return 1;
  const auto bytes = static_cast<uint64_t>(
      std::abs(static_cast<double>(b->last_stride(2)) * bytes_per_element(p.b->dtype())));
  return bytes >= kLeast && std::has_single_bit(bytes) ? 1.2 : 1;
}

// What lavapipe takes for each result and for each product of a sum, as operations of its fastest loop.
struct Amounts {
  double result, term;
};

// Runs that are no fours, as windows of three channels are, are read one by one.
bool reads_ones(const Product& p) { return p.run % 4 != 0; }

double bytes_of_b(const Product& p) {
  return bytes_per_element(p.b->dtype()) * static_cast<double>(p.region.k.length()) *
         static_cast<double>(p.region.cols.length());
}

}  // namespace

double predicted_ns(const Rates& r, const Product& p, const Candidate& c) {
  if (!r.cpu || c.measured) return c.own_ns;
  const auto k = static_cast<double>(p.region.k.length());
  const double results = static_cast<double>(p.region.batch.length() * p.k_parts) *
                         static_cast<double>(p.rows()) * static_cast<double>(p.region.cols.length());
  const auto ns = [&](const Amounts& a) { return results * (a.result + a.term * k) / r.flops_per_ns; };
  if (c.row == kSlide) return r.dispatch_ns + ns({.result = 90, .term = 1.9});
  if (c.row == kTaps && p.run > 0 && p.run <= 2) return r.dispatch_ns + ns({.result = 40, .term = 36});
  // Results that are no neighbours are written one by one.
  const double arithmetic =
      c.predicted_ns() + ns({.result = p.y->offers_four() ? 40.0 : 100.0, .term = reads_ones(p) ? 6.0 : 0.0});
  // With few rows a weight is all that is read, by lanes that wait for it.
  const double reads = p.rows() <= 4 ? 2 * bytes_of_b(p) / r.cached_bytes_per_ns : 0;
  return std::max(arithmetic, r.dispatch_ns + reads);
}

double estimate_ns(const Rates& r, const Product& p, Share share) {
  const auto batch = static_cast<double>(p.region.batch.length());
  const auto m = static_cast<double>(p.rows());
  const auto n = static_cast<double>(p.region.cols.length());
  const auto k = static_cast<double>(p.region.k.length());
  const double bytes = bytes_per_element(p.a->dtype()) * batch * m * k +
                       bytes_per_element(p.b->dtype()) * k * n +
                       bytes_per_element(p.y->dtype()) * batch * m * n;
  // Where results are few, most lanes of a GPU neither compute nor read; a lane has four of them in most
  // loops.
  const double tiles = batch * m * n * static_cast<double>(p.k_parts) / 4;
  const double busy = r.cpu ? 1 : std::min(1.0, tiles / r.lanes);
  return r.dispatch_ns +
         std::max(compute_ns(r, 2 * batch * m * n * k, share) * crowding(r, p), bytes / r.bytes_per_ns) /
             busy;
}

}  // namespace rlx::products
