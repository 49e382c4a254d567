// Eight lanes share 256 elements of an encoded line, an eighth each (docs/encodings.md), and make several
// columns one after the other: what they need of a is read once for all of them, and each word of b once. For
// a single row on CPUs, whose vector units have eight lanes but no cheap way to load from eight places.
#pragma once

#include "ops/products/load_blocks.h"
#include "ops/products/product.h"

namespace rlx::products::eighths {

inline constexpr int64_t kSlab = 256;
inline constexpr int64_t kColumns = 8;

inline constexpr std::string_view kWgsl = R"(const RUN: u32 = 32u;  //@ spec
const LANES: u32 = 8u;
const COLS: u32 = 8u;

var<workgroup> parts: array<array<vec4<sum_t>, COLS / 4u>, LANES>;

fn four_of_a(row: a_Line, k: u32, place: u32) -> vec4<sum_t> {
  return b_EIGHTH_UNIT * vec4<sum_t>(a_four_k(a_run(row, k / RUN + place / RUN), place % RUN));
}
fn column(line: b_Line, k: u32, lane: u32, av: array<vec4<sum_t>, 8>) -> sum_t {
  let bv = b_eighth_of(line, k, lane);
  let s0 = fma(av[4], bv[4], av[0] * bv[0]);
  let s1 = fma(av[5], bv[5], av[1] * bv[1]);
  let s2 = fma(av[6], bv[6], av[2] * bv[2]);
  let s3 = fma(av[7], bv[7], av[3] * bv[3]);
  var s = vec4<sum_t>();
  if (b_EIGHTH_FACTORS == 4u) {
    let f = b_factors_of(line, k, lane);
    s = (f.x * s0 + f.y * s1) + (f.z * s2 + f.w * s3);
  } else {
    s = (s0 + s1) + (s2 + s3);
  }
  let sum = (s.x + s.y) + (s.z + s.w);
  if (b_EIGHTH_FACTORS == 1u) { return sum * b_factors_of(line, k, lane).x; }
  return sum;
}

// Not in a loop: where compilers leave it as one, it takes twice the time. With 16 columns the code outgrows
// the caches of CPUs.
fn four_columns(q: b_QuadLine, k: u32, lane: u32, av: array<vec4<sum_t>, 8>) -> vec4<sum_t> {
  return vec4<sum_t>(column(q.l0, k, lane, av), column(q.l1, k, lane, av), column(q.l2, k, lane, av),
                     column(q.l3, k, lane, av));
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, invocation: Invocation) {
  let lane = lane_of(invocation);
  let g = group_index(group, groups);
  if (g >= tile_count()) { return; }  // the grid is a box and may have more groups than asked for
  let t = tile_at(g, 1u, COLS);
  let row = a_line(t.batch, t.row);
  let low_lines = b_quad_line(t.batch, t.col);
  let high_lines = b_quad_line(t.batch, t.col + 4u);
  var low = vec4<sum_t>();
  var high = vec4<sum_t>();
  for (var k = t.k_begin; k < t.k_end; k += 256u) {
    let av = array<vec4<sum_t>, 8>(
        four_of_a(row, k, b_eighth_place(0u, lane)), four_of_a(row, k, b_eighth_place(1u, lane)),
        four_of_a(row, k, b_eighth_place(2u, lane)), four_of_a(row, k, b_eighth_place(3u, lane)),
        four_of_a(row, k, b_eighth_place(4u, lane)), four_of_a(row, k, b_eighth_place(5u, lane)),
        four_of_a(row, k, b_eighth_place(6u, lane)), four_of_a(row, k, b_eighth_place(7u, lane)));
    low += four_columns(low_lines, k, lane, av);
    high += four_columns(high_lines, k, lane, av);
  }
  parts[lane] = array<vec4<sum_t>, COLS / 4u>(low, high);
  workgroupBarrier();
  if (t.col + lane >= params.col_end || a_skips(t.batch) || b_skips(t.batch)) { return; }
  var total = sum_t();
  for (var l = 0u; l < LANES; l++) { total += parts[l][lane / 4u][lane % 4u]; }
  put(t, t.row, t.col + lane, total);
}
)";

inline bool applies(const Target&, const Product& p) {
  const auto* b = dynamic_cast<const LoadBlocks*>(p.b.get());
  const Extent& k = p.region.k;
  return b && b->has_eighths() && p.reads_four_k(*p.a) && p.run > 0 && kSlab % p.run == 0 && p.k_parts == 1 &&
         k.begin % kSlab == 0 && k.end % kSlab == 0;
}

inline std::vector<Candidate> candidates(const Target& target, const Product& p) {
  const Rates r = rates_of(target.caps);
  // The rows have nothing in common, so it is for one of them.
  const Share share{.cpu = p.rows() == 1 ? 2 : 0.25, .gpu = 0.05};
  return {{estimate_ns(r, p, share) * p.padding(1, kColumns), {}}};
}

inline Dispatch make(Lowering& l, const Product& p, const Candidate&) {
  return make_dispatch(l, p,
                       {.name = kEighths,
                        .wgsl = kWgsl,
                        .a = Access::four_k,
                        .b = Access::four_k,
                        .tile_rows = 1,
                        .tile_cols = kColumns,
                        .specs = {spec_value("RUN", static_cast<uint32_t>(p.run))}});
}

inline constexpr Loop kLoop{kEighths, applies, candidates, make};

}  // namespace rlx::products::eighths
