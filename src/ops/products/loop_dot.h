// The lanes of a workgroup share k: each sums a part, four neighbours at a time, and the parts are added up
// at the end. For few rows and a b whose columns lie along k, which GPUs then read in one piece.
#pragma once

#include <algorithm>

#include "ops/products/product.h"

namespace rlx::products::dot {

inline constexpr std::string_view kWgsl = R"(const ROWS: u32 = 1u;  //@ spec
const COLS: u32 = 4u;
const LANES: u32 = 64u;

var<workgroup> parts: array<array<sum_t, ROWS * COLS>, LANES>;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, invocation: Invocation) {
  let lane = lane_of(invocation);
  let g = group_index(group, groups);
  if (g >= tile_count()) { return; }  // the grid is a box and may have more groups than asked for
  let t = tile_at(g, ROWS, COLS);
  let skipped = a_skips(t.batch) || b_skips(t.batch);
  var rows: array<a_Line, ROWS>;
  for (var r = 0u; r < ROWS; r++) { rows[r] = a_line(t.batch, min(t.row + r, params.row_end - 1u)); }
  let cols = b_quad_line(t.batch, t.col);
  var sum: array<vec4<sum_t>, ROWS>;
  // Each lane takes every LANES-th four; a run that does not end with four has a shorter last one.
  let fours = (params.run + 3u) / 4u;  // of a run
  var first = t.k_begin / params.run * fours + t.k_begin % params.run / 4u;
  if (skipped || t.k_begin >= t.k_end) { first = 0xffffffffu - LANES; }
  let last = (t.k_end - min(t.k_end, 1u)) / params.run * fours + (t.k_end - min(t.k_end, 1u)) % params.run / 4u;
  for (var f = first + lane; f <= last; f += LANES) {
    let run = f / fours;
    let i = (f - run * fours) * 4u;
    let end = min(params.run, t.k_end - run * params.run);
    let b = b_quad(cols, run);
    if (i + 4u <= end) {
      let bv = b_four_by_four(b, i);
      for (var r = 0u; r < ROWS; r++) { sum[r] = mad4(a_four_k(a_run(rows[r], run), i), bv, sum[r]); }
    } else {
      for (var j = i; j < end; j++) {
        let bv = b_four_lines(b, j);
        for (var r = 0u; r < ROWS; r++) { sum[r] = mad(vec4<mul_t>(a_one(a_run(rows[r], run), j)), bv, sum[r]); }
      }
    }
  }
  for (var r = 0u; r < ROWS; r++) {
    for (var c = 0u; c < COLS; c++) { parts[lane][r * COLS + c] = sum[r][c]; }
  }
  for (var half = LANES / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (lane < half) {
      for (var e = 0u; e < ROWS * COLS; e++) { parts[lane][e] += parts[lane + half][e]; }
    }
  }
  workgroupBarrier();
  let r = lane / COLS;
  let c = lane % COLS;
  if (lane < ROWS * COLS && !skipped && t.row + r < params.row_end && t.col + c < params.col_end) {
    put(t, t.row + r, t.col + c, parts[0][lane]);
  }
}
)";

inline bool applies(const Target& target, const Product& p) {
  // Sums begin with a four of a run.
  const bool begins_with_four = p.fours_of_k() || (p.region.k.begin == 0 && p.k_parts == 1);
  return target.caps.max_invocations_per_workgroup >= 64 && begins_with_four;
}

inline std::vector<Candidate> candidates(const Target& target, const Product& p) {
  const Rates r = rates_of(target.caps);
  std::vector<Candidate> out;
  for (const uint32_t rows : {1u, 2u, 4u, 8u}) {
    if (rows / 2 >= p.rows()) break;
    const double gpu = p.b->along_k() && p.rows() <= 8 ? 1 : 0.1;
    out.push_back({estimate_ns(r, p, {.cpu = 0.1, .gpu = gpu}) *
                       misfit(rows, static_cast<double>(std::min<int64_t>(p.rows(), 8))) * p.padding(rows, 4),
                   {{"ROWS", rows}}});
  }
  return out;
}

inline Dispatch make(Lowering& l, const Product& p, const Candidate& c) {
  const uint32_t rows = c.at("ROWS");
  return make_dispatch(l, p,
                       {.name = "dot",
                        .wgsl = kWgsl,
                        .a = p.reads_four_k(*p.a) ? Access::four_k : Access::one,
                        .b = p.columns_access(),
                        .tile_rows = rows,
                        .tile_cols = 4,
                        .specs = {spec_value("ROWS", rows)}});
}

inline constexpr Loop kLoop{"dot", applies, candidates, make};

}  // namespace rlx::products::dot
