// Rows of a in workgroup memory: an invocation makes ROWS rows of four neighbouring columns, and the lanes of
// a workgroup, side by side along n, share the rows. Each element of b is read once for ROWS results,
// straight into registers. If PARTIAL, a tile may have fewer rows, and those that it does not have are left
// out in fours: one by one, the branches would take a quarter of the time.
#pragma once

#include <algorithm>
#include <bit>

#include "base/checked.h"
#include "ops/products/product.h"

namespace rlx::products::staged {

inline constexpr std::string_view kWgsl = R"(const ROWS: u32 = 16u;  //@ spec
const SLOTS: u32 = 16u;  //@ spec     at least ROWS, a power of two: a lane stages elements of one row
const LANES: u32 = 64u;  //@ spec
const STEP: u32 = 64u;  //@ spec
const ACROSS_RUNS: bool = true;  //@ spec
const ONE_SPAN: bool = false;  //@ spec     a step is in one run
const ENDS: bool = true;  //@ spec     a run may end within a four
const PARTIAL: bool = false;  //@ spec
const FOURS_AT_ONCE: u32 = LANES / SLOTS;  // of the step
const PER_LANE: u32 = (STEP / 4u + FOURS_AT_ONCE - 1u) / FOURS_AT_ONCE;

// For each four of the step, that of each row. In two levels, so that a bounds check of the first serves all
// rows: on CPUs a check for each would take a third of the time.
var<workgroup> a_rows: array<array<vec4<mul_t>, SLOTS>, PER_LANE * FOURS_AT_ONCE>;

fn staged(line: a_Line, step: Span, k: u32, k_end: u32) -> vec4<mul_t> {
  if (!ENDS) {
    // Past the end the last four is read again, without use.
    let last = min(k, k_end - 4u);
    if (ONE_SPAN) { return a_four_k(a_run(line, step.run), step.end + last - k_end); }
    let s = span_at(last, k_end);
    return a_four_k(a_run(line, s.run), s.first);
  }
  if (k >= k_end) { return vec4<mul_t>(); }
  let s = span_at(k, k_end);
  let a = a_run(line, s.run);
  if (k + 4u <= k_end) { return a_four_k(a, s.first); }
  var v = vec4<mul_t>();
  for (var j = 0u; j < k_end - k; j++) { v[j] = a_one(a, s.first + j); }
  return v;
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, invocation: Invocation) {
  let lane = lane_of(invocation);
  let g = group_index(group, groups);
  if (g >= tile_count()) { return; }  // the grid is a box and may have more groups than asked for
  let t = tile_at(g, params.tile_rows, 4u * LANES);
  let row_count = tile_rows(t);
  let k_range = k_range_of(t, lane);
  if (k_range.x > k_range.y) { return; }
  let col = t.col + 4u * lane;
  let cols = b_quad_line(t.batch, col);
  let line = a_line(t.batch, min(t.row + lane % SLOTS, params.row_end - 1u));
  var sum: array<vec4<sum_t>, ROWS>;
  for (var k0 = k_range.x; k0 < k_range.y;) {
    var k_end = min(k0 + STEP, k_range.y);
    if (!ACROSS_RUNS) { k_end = min(k_end, (k0 / params.run + 1u) * params.run); }
    var s = span_at(k0, k_end);
    workgroupBarrier();
    for (var i = 0u; i < PER_LANE; i++) {
      let four = lane / SLOTS + i * FOURS_AT_ONCE;
      a_rows[four][lane % SLOTS] = staged(line, s, k0 + 4u * four, k_end);
    }
    workgroupBarrier();
    if (col < params.col_end) {  // a CPU leaves out lanes of which none has columns
      var at = 0u;  // the four of the step
      loop {
        var b = b_quad_ahead(b_quad(cols, s.run), s.first);
        var i = s.first;
        for (; i + 4u <= s.end; i += 4u) {
          let bv = b_four_by_four(b, select(i, 0u, b_STEPS));
          b = b_quad_ahead(b, 4u);
          if (!PARTIAL) {
            for (var r = 0u; r < ROWS; r++) { sum[r] = mad4(a_rows[at][r], bv, sum[r]); }
          } else {
            // Bounds that are constants, so that sums can be in registers.
            for (var r = 0u; r < 4u; r++) { sum[r] = mad4(a_rows[at][r], bv, sum[r]); }
            if (row_count > 4u) {
              for (var r = 4u; r < 8u; r++) { sum[r] = mad4(a_rows[at][r], bv, sum[r]); }
            }
            if (ROWS > 8u && row_count > 8u) {
              for (var r = 8u; r < 12u; r++) { sum[r] = mad4(a_rows[at][r], bv, sum[r]); }
            }
            if (ROWS > 8u && row_count > 12u) {
              for (var r = 12u; r < 16u; r++) { sum[r] = mad4(a_rows[at][r], bv, sum[r]); }
            }
            if (ROWS > 16u && row_count > 16u) {
              for (var r = 16u; r < 20u; r++) { sum[r] = mad4(a_rows[at][r], bv, sum[r]); }
            }
            if (ROWS > 16u && row_count > 20u) {
              for (var r = 20u; r < 24u; r++) { sum[r] = mad4(a_rows[at][r], bv, sum[r]); }
            }
            if (ROWS > 16u && row_count > 24u) {
              for (var r = 24u; r < 28u; r++) { sum[r] = mad4(a_rows[at][r], bv, sum[r]); }
            }
            if (ROWS > 16u && row_count > 28u) {
              for (var r = 28u; r < 32u; r++) { sum[r] = mad4(a_rows[at][r], bv, sum[r]); }
            }
          }
          at++;
        }
        if (ENDS) {
          for (var j = 0u; i + j < s.end; j++) {
            let bv = b_four_lines(b, select(i, 0u, b_STEPS) + j);
            for (var r = 0u; r < ROWS; r++) { sum[r] = mad(vec4<mul_t>(a_rows[at][r][j]), bv, sum[r]); }
          }
        }
        if (ONE_SPAN) { break; }
        s = span_after(s, k_end);
        if (s.first >= s.end) { break; }
      }
    }
    k0 = k_end;
  }
  if (col >= params.col_end) { return; }
  if (!PARTIAL || ROWS == 8u) {
    for (var r = 0u; r < ROWS; r++) {
      if (r >= row_count) { break; }
      put4(t, t.row + r, col, sum[r]);
    }
    return;
  }
  // Written out for all rows, stores would be most of the module.
  for (var first = 0u; first < row_count; first += 8u) {
    var some = array<vec4<sum_t>, 8>();
    if (first == 0u) {
      for (var r = 0u; r < 8u; r++) { some[r] = sum[r]; }
    } else if (first == 8u) {
      for (var r = 8u; r < 16u; r++) { some[r - 8u] = sum[r]; }
    } else if (first == 16u) {
      for (var r = 16u; r < min(ROWS, 24u); r++) { some[r - 16u] = sum[r]; }
    } else {
      for (var r = 24u; r < ROWS; r++) { some[r - 24u] = sum[r]; }
    }
    for (var r = 0u; r < 8u; r++) {
      if (first + r >= row_count) { break; }
      put4(t, t.row + first + r, col, some[r]);
    }
  }
}
)";

// A CPU runs this many at once, and leaves them out if none has columns.
inline constexpr int64_t kCpuLanes = 8;

// The more lanes, the more share the rows that they stage; but what of b they read should stay in the second
// cache for the next rows.
inline double cpu_lanes_wanted(const Product& p) {
  const auto columns = static_cast<uint64_t>(std::max<int64_t>(p.region.cols.length(), 4));
  const auto depth = static_cast<double>(std::max<int64_t>(p.region.k.length(), 1));
  const double most = std::clamp(static_cast<double>(std::bit_ceil(columns / 4)), 32.0, 128.0);
  return std::clamp(48.0 * 1024 / depth, 32.0, most);
}

inline std::vector<Candidate> candidates(const Target& target, const Product& p) {
  const Rates r = rates_of(target.caps);
  const double ns = estimate_ns(r, p, {.cpu = p.rows() <= 4 ? 0.25 : 1, .gpu = p.rows() <= 8 ? 0.2 : 0.5});
  const double lanes_wanted = r.cpu ? cpu_lanes_wanted(p) : r.group_lanes;
  std::vector<Candidate> out;
  const auto add = [&](int64_t most, int64_t rows) {
    for (const uint32_t lanes : {32u, 64u, 128u}) {
      if (lanes == 32 && !r.cpu) continue;
      // One number serves all sizes: where columns are few, lanes without any take little time.
      if (lanes != 64 && r.cpu && target.sizes_vary) continue;
      if (lanes > target.caps.max_invocations_per_workgroup) continue;
      out.push_back({ns * misfit(static_cast<double>(rows), 32) * misfit(lanes, lanes_wanted) *
                         p.padding(rows, 4 * (r.cpu ? kCpuLanes : lanes)) *
                         spilling(r, 4 * static_cast<double>(most)),
                     {{"ROWS", to_u32(most)}, {"LANES", lanes}}});
    }
  };
  if (target.sizes_vary) {
    for (const int64_t most : {8, 16, 32}) {
      // Those of which at least half would be left out do nothing better.
      if (const int64_t rows = p.even_rows(most); most == 8 || 2 * rows > most) add(most, rows);
    }
  } else {
    add(p.even_rows(16), p.even_rows(16));
    if (p.even_rows(32) != p.even_rows(16)) add(p.even_rows(32), p.even_rows(32));
  }
  return out;
}

inline bool applies(const Target& target, const Product&) {
  return target.caps.max_invocations_per_workgroup >= 64;
}

// How much of k is staged at once: as much as workgroup memory is meant for, and a divisor of the run where
// that is not much less, so that no step has parts of two.
inline uint32_t step_for(const Product& p, int64_t most) {
  for (int64_t step = most; p.run != 0 && p.fours_of_k() && step >= most / 4; step -= 4) {
    if (p.run % step == 0) return to_u32(step);
  }
  return to_u32(most);
}

inline Dispatch make(Lowering& l, const Product& p, const Candidate& c) {
  const uint32_t rows = c.at("ROWS");
  const uint32_t lanes = c.at("LANES");
  const bool partial = l.target().sizes_vary;
  const uint32_t step = step_for(p, rows <= 16 ? 128 : 64);
  const auto whole = [](int64_t k) { return k % 4 == 0; };
  const bool one_span = p.run == 0 || (p.run % step == 0 && p.region.k.begin % step == 0 && p.k_parts == 1);
  const bool ends = p.run == 0 ? partial || !whole(p.region.k.length()) || p.region.k.length() == 0
                               : !p.fours_of_k() || !whole(p.region.k.end);
  return make_dispatch(l, p,
                       {.name = "staged",
                        .wgsl = kWgsl,
                        .a = p.reads_four_k(*p.a) ? Access::four_k : Access::one,
                        .b = p.columns_access(),
                        .four_columns = true,
                        .tile_rows = partial ? p.even_rows(rows) : rows,
                        .tile_cols = int64_t{4} * lanes,
                        .specs = {spec_value("ROWS", rows), spec_value("SLOTS", std::bit_ceil(rows)),
                                  spec_value("LANES", lanes), spec_value("STEP", step),
                                  spec_value("ACROSS_RUNS", p.fours_of_k()), spec_value("ONE_SPAN", one_span),
                                  spec_value("ENDS", ends), spec_value("PARTIAL", partial)}});
}

inline constexpr Loop kLoop{"staged", applies, candidates, make};

}  // namespace rlx::products::staged
