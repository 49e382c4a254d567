// In registers alone: an invocation makes ROWS rows of four neighbouring columns. The lanes of a workgroup
// are side by side along n, so that a is the same for all of them and b is read in one piece. No barriers:
// good for small m.
#pragma once

#include <algorithm>
#include <bit>

#include "ops/products/product.h"

namespace rlx::products::rows {

inline constexpr std::string_view kWgsl = R"(const ROWS: u32 = 8u;  //@ spec
const LANES: u32 = 8u;  //@ spec
const A_FOUR_ROWS: bool = false;  //@ spec
const ROWS_AT_ONCE: u32 = select(1u, 4u, A_FOUR_ROWS);

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let g = group_index(group, groups);
  if (g >= tile_count()) { return; }  // the grid is a box and may have more groups than asked for
  let t = tile_at(g, ROWS, 4u * LANES);
  let col = t.col + 4u * lane;
  if (col >= params.col_end || a_skips(t.batch) || b_skips(t.batch)) { return; }
  var rows: array<a_Line, ROWS>;
  for (var r = 0u; r < ROWS; r++) { rows[r] = a_line(t.batch, min(t.row + r, params.row_end - 1u)); }
  let cols = b_quad_line(t.batch, col);
  var sum: array<vec4<sum_t>, ROWS>;
  for (var s = span_at(t.k_begin, t.k_end); s.first < s.end; s = span_after(s, t.k_end)) {
    var a: array<a_Run, ROWS>;
    for (var r = 0u; r < ROWS; r++) { a[r] = a_run(rows[r], s.run); }
    var b = b_quad_ahead(b_quad(cols, s.run), s.first);
    var i = s.first;
    for (; i + 4u <= s.end; i += 4u) {
      let bv = b_four_by_four(b, select(i, 0u, b_STEPS));
      b = b_quad_ahead(b, 4u);
      for (var r = 0u; r < ROWS; r += ROWS_AT_ONCE) {
        if (A_FOUR_ROWS) {
          let av = a_four_by_four(a_Quad(a[r], a[r + 1u], a[r + 2u], a[r + 3u]), i);
          for (var j = 0u; j < 4u; j++) {
            sum[r + j] = mad4(vec4<sum_t>(av[0][j], av[1][j], av[2][j], av[3][j]), bv, sum[r + j]);
          }
        } else {
          sum[r] = mad4(a_four_k(a[r], i), bv, sum[r]);
        }
      }
    }
    for (; i < s.end; i++) {
      let bv = b_four_lines(b, select(i, 0u, b_STEPS));
      b = b_quad_ahead(b, 1u);
      for (var r = 0u; r < ROWS; r++) { sum[r] = mad(vec4<sum_t>(a_one(a[r], i)), bv, sum[r]); }
    }
  }
  for (var r = 0u; r < ROWS; r++) {
    if (t.row + r >= params.row_end) { break; }
    put4(t, t.row + r, col, sum[r]);
  }
}
)";

inline std::vector<Candidate> candidates(const Target& target, const Product& p) {
  const Rates r = rates_of(target.caps);
  const bool few = p.rows() <= 4;
  const double gpu = p.rows() > 8 || p.b->along_k() ? 0.25 : 1;
  const double ns = estimate_ns(r, p, {.cpu = few ? 1 : 0.5, .gpu = gpu});
  // As many rows as possible share a load of b, but none should go to waste.
  const auto wanted =
      few ? p.rows()
          : static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::min<int64_t>(p.rows(), 16))));
  std::vector<Candidate> out;
  for (const uint32_t rows : {1u, 2u, 3u, 4u, 8u, 16u}) {
    if (rows / 2 >= p.rows()) break;
    for (const uint32_t lanes : {8u, 32u, 64u, 128u}) {
      out.push_back({ns * misfit(rows, static_cast<double>(wanted)) * misfit(lanes, r.group_lanes) *
                         p.padding(rows, int64_t{4} * lanes),
                     {{"ROWS", rows}, {"LANES", lanes}}});
    }
  }
  return out;
}

inline Dispatch make(Lowering& l, const Product& p, const Candidate& c) {
  const uint32_t rows = c.at("ROWS");
  const uint32_t lanes = c.at("LANES");
  const Extent& row = p.region.rows;
  const bool a_four_k = p.reads_four_k(*p.a);
  // Rows past the last repeat it, which four at a time cannot do.
  const bool four_rows = !a_four_k && rows % 4 == 0 && p.a->offers(Access::four_lines) &&
                         row.begin % 4 == 0 && row.length() % 4 == 0;
  return make_dispatch(l, p,
                       {.name = "rows",
                        .wgsl = kWgsl,
                        .a = a_four_k    ? Access::four_k
                             : four_rows ? Access::four_lines
                                         : Access::one,
                        .b = p.columns_access(),
                        .four_columns = true,
                        .tile_rows = rows,
                        .tile_cols = int64_t{4} * lanes,
                        .specs = {spec_value("ROWS", rows), spec_value("LANES", lanes),
                                  spec_value("A_FOUR_ROWS", four_rows)}});
}

inline constexpr Loop kLoop{"rows", always, candidates, make};

}  // namespace rlx::products::rows
