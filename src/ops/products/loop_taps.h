// One row of four neighbouring columns per invocation, and the few steps along k written out: where a run is
// short, as in convolutions of single channels, what resolves it costs more than its elements, and is known
// when the kernel is compiled.
#pragma once

#include "ops/products/product.h"

namespace rlx::products::taps {

inline constexpr int64_t kMost = 64;  // of k, to be written out

inline constexpr std::string_view kWgsl =
    R"(const K: u32 = 0u;  //@ spec     constants if all of k is written out, else 0
const RUN: u32 = 0u;  //@ spec

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, invocation: Invocation) {
  let lane = lane_of(invocation);
  let g = group_index(group, groups) * 64u + lane;
  if (g >= tile_count()) { return; }
  let t = tile_at(g, 1u, 4u);
  if (a_skips(t.batch) || b_skips(t.batch)) { return; }
  let row = a_line(t.batch, t.row);
  let cols = b_quad_line(t.batch, t.col);
  var sum = vec4<sum_t>();
  if (t.k_begin < t.k_end) {
    let run = select(params.run, RUN, RUN > 0u);
    let end = select(t.k_end, K, K > 0u);
    for (var k = select(t.k_begin, 0u, K > 0u); k < end; k++) {
      let a = a_one(a_run(row, k / run), k % run);
      sum = mad(vec4<mul_t>(a), b_four_lines(b_quad(cols, k / run), k % run), sum);
    }
  }
  put4(t, t.row, t.col, sum);
}
)";

inline std::vector<Candidate> candidates(const Target& target, const Product& p) {
  // Faster than all others where they would resolve a run for each element, and slow elsewhere.
  const bool short_runs = p.run > 0 && p.run <= 2 && p.rows() <= 4;
  return one_candidate(
      estimate_ns(rates_of(target.caps), p,
                  short_runs ? Share{.cpu = 2, .gpu = 2} : Share{.cpu = 1.0 / 48, .gpu = 0.0625}));
}

inline Dispatch make(Lowering& l, const Product& p, const Candidate&) {
  // Where k is one run, it may be a length that varies.
  const bool constant = p.run > 0 || !l.target().sizes_vary;
  const bool all = constant && p.k_parts == 1 && p.region.k.length() == p.size.k && p.size.k <= kMost;
  const uint32_t run = to_u32(p.run == 0 ? p.size.k : p.run);
  return make_dispatch(
      l, p,
      {.name = "taps",
       .wgsl = kWgsl,
       .b = p.b->along_k() ? Access::one : p.columns_access(),
       .four_columns = true,
       .tile_cols = 4,
       .tiles_per_group = 64,
       .specs = {spec_value("K", all ? to_u32(p.size.k) : 0u), spec_value("RUN", all ? run : 0u)}});
}

inline constexpr Loop kLoop{"taps", always, candidates, make};

}  // namespace rlx::products::taps
