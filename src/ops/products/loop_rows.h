// In registers alone: an invocation makes ROWS rows of QUADS times four neighbouring columns. The lanes of a
// workgroup are side by side along n, so that a is the same for all of them and b is read in one piece. No
// barriers: good for small m. If PARTIAL, a tile may have fewer rows.
#pragma once

#include <algorithm>
#include <bit>

#include "base/checked.h"
#include "ops/products/product.h"

namespace rlx::products::rows {

inline constexpr std::string_view kWgsl = R"(const ROWS: u32 = 8u;  //@ spec
const LANES: u32 = 8u;  //@ spec
const QUADS: u32 = 1u;  //@ spec
const A_FOUR_ROWS: bool = false;  //@ spec
const PARTIAL: bool = false;  //@ spec
const ENDS: bool = true;  //@ spec     a run may end within a four
const ROWS_AT_ONCE: u32 = select(1u, 4u, A_FOUR_ROWS);

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, invocation: Invocation) {
  let lane = lane_of(invocation);
  let g = group_index(group, groups);
  if (g >= tile_count()) { return; }  // the grid is a box and may have more groups than asked for
  let t = tile_at(g, params.tile_rows, 4u * LANES * QUADS);
  let row_count = tile_rows(t);
  let col = t.col + 4u * lane;
  if (col >= params.col_end || a_skips(t.batch) || b_skips(t.batch)) { return; }
  var rows: array<a_Line, ROWS>;
  for (var r = 0u; r < ROWS; r++) { rows[r] = a_line(t.batch, min(t.row + r, params.row_end - 1u)); }
  var cols: array<b_QuadLine, QUADS>;
  for (var q = 0u; q < QUADS; q++) { cols[q] = b_quad_line(t.batch, min(col + 4u * LANES * q, params.col_end - 1u)); }
  var sum: array<vec4<sum_t>, ROWS * QUADS>;
  for (var s = span_at(t.k_begin, t.k_end); s.first < s.end; s = span_after(s, t.k_end)) {
    var a: array<a_Run, ROWS>;
    for (var r = 0u; r < ROWS; r++) { a[r] = a_run(rows[r], s.run); }
    var b: array<b_Quad, QUADS>;
    for (var q = 0u; q < QUADS; q++) { b[q] = b_quad_ahead(b_quad(cols[q], s.run), s.first); }
    var i = s.first;
    for (; i + 4u <= s.end; i += 4u) {
      for (var q = 0u; q < QUADS; q++) {
        let bv = b_four_by_four(b[q], select(i, 0u, b_STEPS));
        b[q] = b_quad_ahead(b[q], 4u);
        for (var r = 0u; r < ROWS; r += ROWS_AT_ONCE) {
          let at = q * ROWS + r;
          if (PARTIAL && r >= row_count) { continue; }
          if (A_FOUR_ROWS) {
            let av = a_four_by_four(a_Quad(a[r], a[r + 1u], a[r + 2u], a[r + 3u]), i);
            for (var j = 0u; j < 4u; j++) {
              sum[at + j] = mad4(vec4<mul_t>(av[0][j], av[1][j], av[2][j], av[3][j]), bv, sum[at + j]);
            }
          } else {
            sum[at] = mad4(a_four_k(a[r], i), bv, sum[at]);
          }
        }
      }
    }
    for (; ENDS && i < s.end; i++) {
      for (var q = 0u; q < QUADS; q++) {
        let bv = b_four_lines(b[q], select(i, 0u, b_STEPS));
        b[q] = b_quad_ahead(b[q], 1u);
        for (var r = 0u; r < ROWS; r++) {
          sum[q * ROWS + r] = mad(vec4<mul_t>(a_one(a[r], i)), bv, sum[q * ROWS + r]);
        }
      }
    }
  }
  for (var r = 0u; r < ROWS; r++) {
    if (r >= row_count) { break; }
    for (var q = 0u; q < QUADS; q++) {
      if (col + 4u * LANES * q >= params.col_end) { break; }
      put4(t, t.row + r, col + 4u * LANES * q, sum[q * ROWS + r]);
    }
  }
}
)";

// Up to this many rows, on a CPU, where b's columns are neighbours: an invocation makes all of them, of up to
// eight fours of columns. A vector's lanes load one after the other there, and rows of b are far from each
// other, so that what counts is how much is done with a load and how much of b is read in one piece.
inline constexpr int64_t kMostWideRows = 16;

inline std::vector<Candidate> wide_candidates(const Target& target, const Product& p) {
  const double ns = estimate_ns(rates_of(target.caps), p, {.cpu = 1, .gpu = 1});
  const auto rows = to_u32(p.rows());
  const uint32_t most = target.sizes_vary ? std::bit_ceil(rows) : rows;
  std::vector<Candidate> out;
  for (const uint32_t quads : {1u, 2u, 4u, 8u}) {
    // One number serves all sizes: the largest body takes three times as long to compile.
    if (target.sizes_vary && quads != 2 && (most > 1 || quads != 8)) continue;
    // More sums take drivers longer to compile than they gain.
    out.push_back({ns * misfit(quads, most <= 8 ? 8 : 4) * p.padding(rows, int64_t{32} * quads),
                   {{"ROWS", most}, {"LANES", 8}, {"QUADS", quads}}});
  }
  return out;
}

inline std::vector<Candidate> candidates(const Target& target, const Product& p) {
  const Rates r = rates_of(target.caps);
  const int64_t most_wide = target.sizes_vary ? 8 : kMostWideRows;
  if (r.cpu && p.rows() <= most_wide && p.columns_access() == Access::four_lines)
    return wide_candidates(target, p);
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
    if (target.sizes_vary && rows == 3) continue;  // four serve as well
    const int64_t tile = target.sizes_vary ? p.even_rows(rows) : rows;
    const double held = 8 * rows + 24;  // sums, and fours of both matrices
    for (const uint32_t lanes : {8u, 32u, 64u, 128u}) {
      out.push_back({ns * misfit(rows, static_cast<double>(wanted)) * misfit(lanes, r.group_lanes) *
                         p.padding(tile, int64_t{4} * lanes) * spilling(r, held),
                     {{"ROWS", rows}, {"LANES", lanes}, {"QUADS", 1}}});
    }
  }
  return out;
}

inline Dispatch make(Lowering& l, const Product& p, const Candidate& c) {
  const uint32_t rows = c.at("ROWS");
  const uint32_t lanes = c.at("LANES");
  const uint32_t quads = c.at("QUADS");
  const Extent& row = p.region.rows;
  const bool a_four_k = p.reads_four_k(*p.a);
  const bool partial = l.target().sizes_vary && rows > 1;
  const auto whole = [](int64_t k) { return k % 4 == 0; };
  const bool ends = p.run == 0 ? l.target().sizes_vary || !whole(p.region.k.begin) || !whole(p.region.k.end)
                               : !p.fours_of_k() || !whole(p.region.k.end);
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
                        .tile_rows = partial ? round_up(p.even_rows(rows), four_rows ? 4 : 1) : rows,
                        .tile_cols = int64_t{4} * lanes * quads,
                        .specs = {spec_value("ROWS", rows), spec_value("LANES", lanes),
                                  spec_value("QUADS", quads), spec_value("A_FOUR_ROWS", four_rows),
                                  spec_value("PARTIAL", partial), spec_value("ENDS", ends)}});
}

inline constexpr Loop kLoop{"rows", always, candidates, make};

}  // namespace rlx::products::rows
