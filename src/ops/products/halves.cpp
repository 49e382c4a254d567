// A factor x of a line with the largest finite magnitude 2^e to 2^(e+1) becomes f16(x * 2^(14 - e)): nothing
// overflows, and what is small beside the largest keeps eleven bits down to 2^-28 of it. The sum is
// multiplied by the powers of both lines at the end. With sums of f16 it is f16(x * 2^(3 - e)): kHalfSums
// products, each below 2^8, are at most half of what f16 holds. docs/arithmetic.md has the bounds.
#include "ops/products/halves.h"

#include <algorithm>

#include "base/checked.h"
#include "kernels/binder.h"
#include "ops/products/store_strided.h"

namespace rlx::products {
namespace {

// One workgroup a line, of which b is not read.
constexpr std::string_view kWgsl = R"(const LANES: u32 = 64u;
const TOP: u32 = 14u;  //@ spec
var<workgroup> largest: array<f32, LANES>;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, invocation: Invocation) {
  let lane = lane_of(invocation);
  let g = group_index(group, groups);
  if (g >= tile_count()) { return; }  // the grid is a box and may have more groups than asked for
  let t = tile_at(g, 1u, 1u);
  let skipped = a_skips(t.batch) || t.k_begin >= t.k_end;
  var most = 0.0;
  if (!skipped) {
    let line = a_line(t.batch, t.row);
    for (var k = t.k_begin + lane; k < t.k_end; k += LANES) {
      let s = span_at(k, t.k_end);
      let v = abs(a_one(a_run(line, s.run), s.first));
      // Infinities stay what they are, and a NaN is not less.
      if (v <= 3.4028234663852886e38) { most = max(most, v); }
    }
  }
  largest[lane] = most;
  for (var half = LANES / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (lane < half) { largest[lane] = max(largest[lane], largest[lane + half]); }
  }
  if (lane > 0u) { return; }
  // The exponent of 0 and of subnormal numbers is -127; 2^126 is the largest power that has a reciprocal.
  let exponent = i32(bitcast<u32>(largest[0]) >> 23u) - 127;
  put(t, t.row, 0u, f32(select(min(i32(TOP) - exponent, 126), 0, largest[0] == 0.0)));
}
)";

// The exponent of the largest number of a line.
int64_t top_of(Halves halves) { return halves == Halves::factors ? 14 : 3; }
static_assert(kHalfSums << (2 * (3 + 1)) <= 1 << 15);

// Factors that are f16 anyway fit as they are, but their products may not.
bool needs_exponents(const Load& load, Halves halves) {
  return load.dtype() != DType::f16 || halves == Halves::factors_and_sums;
}

// Whether the exponents of its lines can be found in one dispatch.
bool can_scale(const Caps& caps, const Product& p, const Load& load, int64_t lines, Halves halves) {
  if (!needs_exponents(load, halves)) return true;
  const double elements = static_cast<double>(p.size.batch) * static_cast<double>(lines) *
                          static_cast<double>(std::max<int64_t>(p.size.k, 1));
  return elements * 4 + kBindingAlignment <= static_cast<double>(caps.max_binding_bytes);
}

// Of the lines of `load`.
Operand exponents(Lowering& l, const Product& p, const LoadPtr& load, int64_t lines, Halves halves) {
  const Operand out = l.scratch(DType::i32, {p.size.batch, lines});
  Product q;
  q.size = {.batch = p.size.batch, .m = lines, .n = 1, .k = p.size.k};
  q.a = q.b = load;
  q.y = std::make_shared<StoreStrided>(
      Grouped{out.with_view(View::contiguous({p.size.batch, lines, 1})), 1, 1});
  q.run = p.run;
  q.region = {{0, q.size.batch}, {0, lines}, {0, 1}, {0, q.size.k}};
  l.emit(make_dispatch(
      l, q, {.name = "exponents", .wgsl = kWgsl, .specs = {spec_value("TOP", to_u32(top_of(halves)))}}));
  return out;
}

}  // namespace

std::optional<Product> with_halves(const Target& target, const Product& p, Halves halves) {
  const Precision least = halves == Halves::factors ? Precision::mixed : Precision::fast;
  if (target.precision < least || !target.rounds_factors || !p.may_round || p.fours ||
      p.sum_type() != DType::f32)
    return std::nullopt;
  if (!needs_exponents(*p.a, halves) && !needs_exponents(*p.b, halves)) return std::nullopt;
  if (!can_scale(target.caps, p, *p.a, p.size.m, halves) ||
      !can_scale(target.caps, p, *p.b, p.size.n, halves))
    return std::nullopt;
  Product out = p;
  out.halved = true;
  out.half_sums = halves == Halves::factors_and_sums;
  return out;
}

double halves_ns(const Rates& r, const Product& p) {
  const double lines = static_cast<double>(p.size.m + p.size.n) * static_cast<double>(p.size.batch);
  return 2 * r.dispatch_ns + lines * static_cast<double>(p.size.k) * 4 / r.bytes_per_ns;
}

Product into_halves(Lowering& l, Product p, Halves halves) {
  if (needs_exponents(*p.a, halves)) p.a_exponents = exponents(l, p, p.a, p.size.m, halves);
  if (needs_exponents(*p.b, halves)) p.b_exponents = exponents(l, p, p.b, p.size.n, halves);
  p.halved = true;
  p.half_sums = halves == Halves::factors_and_sums;
  return p;
}

}  // namespace rlx::products
