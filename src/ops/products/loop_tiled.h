// Tiles of 64x64 elements of y: 16x16 invocations make 4x4 elements each from slices of a and b in workgroup
// memory. Each element of a and b is read once for 64 outputs.
#pragma once

#include "ops/products/product.h"

namespace rlx::products::tiled {

inline constexpr std::string_view kWgsl =
    R"(@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, invocation: Invocation) {
  let lane = lane_of(invocation);
  let g = group_index(group, groups);
  if (g >= tile_count()) { return; }  // the grid is a box and may have more groups than asked for
  let t = tile_at(g, 64u, 64u);
  let k_range = k_range_of(t, lane);
  if (k_range.x > k_range.y) { return; }
  let x = lane % 16u;
  let y = lane / 16u % 16u;  // says to compilers that it is within the tile
  var a_lines: array<a_Line, 4>;
  var b_lines: array<b_Line, 4>;
  for (var i = 0u; i < 4u; i++) {
    a_lines[i] = a_stage_line(t.batch, t.row, i, lane);
    b_lines[i] = b_stage_line(t.batch, t.col, i, lane);
  }
  var sum: array<vec4<sum_t>, 4>;
  for (var s = span_at(k_range.x, k_range.y); s.first < s.end; s = span_after(s, k_range.y)) {
    var a: array<a_Run, 4>;
    var b: array<b_Run, 4>;
    for (var i = 0u; i < 4u; i++) {
      a[i] = a_run(a_lines[i], s.run);
      b[i] = b_run(b_lines[i], s.run);
    }
    for (var first = s.first; first < s.end; first += a_TILE_DEPTH) {
      for (var i = 0u; i < 4u; i++) {
        a_stage(a[i], i, first, s.end, lane);
        b_stage(b[i], i, first, s.end, lane);
      }
      workgroupBarrier();
      // In fours, the last of which may have zeros: then counting and bounds take a small part of the time.
      for (var four = 0u; four < min(a_TILE_DEPTH, s.end - first); four += 4u) {
        for (var j = 0u; j < 4u; j++) {
          let step = four + j;
          let bv = vec4<mul_t>(b_tile[step][4u * x], b_tile[step][4u * x + 1u], b_tile[step][4u * x + 2u],
                               b_tile[step][4u * x + 3u]);
          for (var r = 0u; r < 4u; r++) { sum[r] = mad(vec4<mul_t>(a_tile[step][4u * y + r]), bv, sum[r]); }
        }
      }
      workgroupBarrier();
    }
  }
  for (var r = 0u; r < 4u; r++) {
    let row = t.row + 4u * y + r;
    let col = t.col + 4u * x;
    if (row < params.row_end && col < params.col_end) { put4(t, row, col, sum[r]); }
  }
}
)";

inline bool applies(const Target& target, const Product&) {
  return target.caps.max_invocations_per_workgroup >= 256;
}

inline std::vector<Candidate> candidates(const Target& target, const Product& p) {
  const double gpu = p.rows() <= 8 ? 0.2 : 0.75;
  return one_candidate(estimate_ns(rates_of(target.caps), p, {.cpu = 4.0 / 24, .gpu = gpu}) *
                       p.padding(64, 64));
}

inline Dispatch make(Lowering& l, const Product& p, const Candidate&) {
  return make_dispatch(
      l, p, {.name = "tiled", .wgsl = kWgsl, .four_columns = true, .tile_rows = 64, .tile_cols = 64});
}

inline constexpr Loop kLoop{"tiled", applies, candidates, make};

}  // namespace rlx::products::tiled
