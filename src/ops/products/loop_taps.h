// One row of four neighbouring columns per invocation, and the few steps along k written out: where a run is
// short, as in convolutions of single channels, what resolves it costs more than its elements, and is known
// when the kernel is compiled.
#pragma once

#include "ops/products/product.h"

namespace rlx::products::taps {

inline constexpr int64_t kMost = 32;  // of k

inline constexpr std::string_view kWgsl = R"(const K: u32 = 9u;  //@ spec
const RUN: u32 = 1u;  //@ spec

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let g = group_index(group, groups) * 64u + lane;
  if (g >= tile_count()) { return; }
  let t = tile_at(g, 1u, 4u);
  if (a_skips(t.batch) || b_skips(t.batch)) { return; }
  let row = a_line(t.batch, t.row);
  let cols = b_quad_line(t.batch, t.col);
  var sum = vec4<sum_t>();
  if (t.k_begin < t.k_end) {
    for (var k = 0u; k < K; k++) {
      let a = a_one(a_run(row, k / RUN), k % RUN);
      sum = mad(vec4<sum_t>(a), b_four_lines(b_quad(cols, k / RUN), k % RUN), sum);
    }
  }
  put4(t, t.row, t.col, sum);
}
)";

inline bool applies(const Target&, const Product& p) {
  return p.k_parts == 1 && p.region.k.begin == 0 && p.region.k.length() == p.size.k && p.size.k <= kMost;
}

inline std::vector<Candidate> candidates(const Target& target, const Product& p) {
  // Faster than all others where they would resolve a run for each element, and slow elsewhere.
  const bool short_runs = p.run > 0 && p.run <= 2 && p.rows() <= 4;
  return one_candidate(
      estimate_ns(rates_of(target.caps), p,
                  short_runs ? Share{.cpu = 2, .gpu = 2} : Share{.cpu = 1.0 / 48, .gpu = 0.0625}));
}

inline Dispatch make(Lowering& l, const Product& p, const Candidate&) {
  const int64_t k = p.size.k;
  return make_dispatch(l, p,
                       {.name = "taps",
                        .wgsl = kWgsl,
                        .b = p.b->along_k() ? Access::one : p.columns_access(),
                        .four_columns = true,
                        .tile_cols = 4,
                        .tiles_per_group = 64,
                        .specs = {spec_value("K", to_u32(k)),
                                  spec_value("RUN", to_u32(std::max<int64_t>(p.run == 0 ? k : p.run, 1)))}});
}

inline constexpr Loop kLoop{"taps", applies, candidates, make};

}  // namespace rlx::products::taps
