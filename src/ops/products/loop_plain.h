// One element of y per invocation: any type, any load, and small products.
#pragma once

#include "ops/products/product.h"

namespace rlx::products::plain {

inline constexpr std::string_view kWgsl = R"(@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, invocation: Invocation) {
  let lane = lane_of(invocation);
  let g = group_index(group, groups) * 64u + lane;
  if (g >= tile_count()) { return; }
  let t = tile_at(g, 1u, 1u);
  if (a_skips(t.batch) || b_skips(t.batch)) { return; }
  let row = a_line(t.batch, t.row);
  let col = b_line(t.batch, t.col);
  var sum = sum_t();
  for (var s = span_at(t.k_begin, t.k_end); s.first < s.end; s = span_after(s, t.k_end)) {
    let a = a_run(row, s.run);
    let b = b_run(col, s.run);
    for (var i = s.first; i < s.end; i++) { sum = mad_one(a_one(a, i), b_one(b, i), sum); }
  }
  put(t, t.row, t.col, sum);
}
)";

inline std::vector<Candidate> candidates(const Target& target, const Product& p) {
  return one_candidate(estimate_ns(rates_of(target.caps), p, {.cpu = 1.0 / 24, .gpu = 0.125}));
}

inline Dispatch make(Lowering& l, const Product& p, const Candidate&) {
  return make_dispatch(l, p, {.name = "plain", .wgsl = kWgsl, .tiles_per_group = 64});
}

inline constexpr Loop kLoop{"plain", always, candidates, make};

}  // namespace rlx::products::plain
