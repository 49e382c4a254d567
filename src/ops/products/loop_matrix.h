// On matrix units: slices of a and b in workgroup memory, from which subgroups multiply units of M x K by K x
// N elements (Caps::subgroup_matrices). Loads and stores are those of any other loop, so that edges need no
// care: what lies past them is never loaded into a unit, and k is padded with zeros.
#pragma once

#include <algorithm>
#include <string>

#include "base/checked.h"
#include "base/format.h"
#include "kernels/matrix_units.h"
#include "kernels/rename.h"
#include "ops/products/product.h"

namespace rlx::products::matrix {

// Lines of x from one on, in workgroup memory, STEP of k at a time. Neighbouring lanes read neighbours in
// memory: fours along k, or of lines.
inline constexpr std::string_view kStageAlongK = R"(
const x_FOURS: u32 = x_LINES * STEP / 4u;
const x_EACH: u32 = (x_FOURS + LANES - 1u) / LANES;
alias x_Staged = array<x_Line, x_EACH>;
fn x_staged_from(batch: u32, first: u32, lane: u32) -> x_Staged {
  var lines: x_Staged;
  for (var j = 0u; j < x_EACH; j++) {
    lines[j] = x_line(batch, min(first + (lane + j * LANES) / (STEP / 4u), x_end() - 1u));
  }
  return lines;
}
fn x_scales_from(batch: u32, first: u32, lane: u32) -> array<f32, x_EACH> {
  var scales: array<f32, x_EACH>;
  for (var j = 0u; j < x_EACH; j++) {
    scales[j] = x_line_scale(batch, min(first + (lane + j * LANES) / (STEP / 4u), x_end() - 1u));
  }
  return scales;
}
fn x_one_at(line: x_Line, k: u32, k_end: u32) -> mul_t {
  if (k >= k_end) { return mul_t(); }
  let s = span_at(k, k_end);
  return x_one(x_run(line, s.run), s.first);
}
fn x_four_at(line: x_Line, k: u32, k_end: u32) -> vec4<mul_t> {
  if (x_WHOLE_FOURS && k + 4u <= k_end) {
    let s = span_at(k, k_end);
    return x_four_k(x_run(line, s.run), s.first);
  }
  return vec4<mul_t>(x_one_at(line, k, k_end), x_one_at(line, k + 1u, k_end), x_one_at(line, k + 2u, k_end),
                     x_one_at(line, k + 3u, k_end));
}
fn x_fill(lines: ptr<function, x_Staged>, scales: ptr<function, array<f32, x_EACH>>, k: u32, k_end: u32, lane: u32) {
  for (var j = 0u; j < x_EACH; j++) {
    let i = lane + j * LANES;
    if (i >= x_FOURS) { break; }
    let first = 4u * (i % (STEP / 4u));
    let v = x_four_at(lines[j], k + first, k_end);
    let at = x_BEGIN + i / (STEP / 4u) * STRIDE + first;
    factors[at] = as_tile(v.x, scales[j]);
    factors[at + 1u] = as_tile(v.y, scales[j]);
    factors[at + 2u] = as_tile(v.z, scales[j]);
    factors[at + 3u] = as_tile(v.w, scales[j]);
  }
}
)";
inline constexpr std::string_view kStageAlongLines = R"(
const x_FOURS: u32 = x_LINES * STEP / 4u;
const x_EACH: u32 = (x_FOURS + LANES - 1u) / LANES;
alias x_Staged = array<x_QuadLine, x_EACH>;
fn x_staged_from(batch: u32, first: u32, lane: u32) -> x_Staged {
  var lines: x_Staged;
  for (var j = 0u; j < x_EACH; j++) {
    lines[j] = x_quad_line(batch, min(first + 4u * ((lane + j * LANES) % (x_LINES / 4u)), x_end() - 1u));
  }
  return lines;
}
fn x_scales_from(batch: u32, first: u32, lane: u32) -> array<vec4f, x_EACH> {
  var scales: array<vec4f, x_EACH>;
  for (var j = 0u; j < x_EACH; j++) {
    let line = first + 4u * ((lane + j * LANES) % (x_LINES / 4u));
    let last = x_end() - 1u;
    scales[j] = vec4f(x_line_scale(batch, min(line, last)), x_line_scale(batch, min(line + 1u, last)),
                      x_line_scale(batch, min(line + 2u, last)), x_line_scale(batch, min(line + 3u, last)));
  }
  return scales;
}
fn x_fill(lines: ptr<function, x_Staged>, scales: ptr<function, array<vec4f, x_EACH>>, k: u32, k_end: u32, lane: u32) {
  for (var j = 0u; j < x_EACH; j++) {
    let i = lane + j * LANES;
    if (i >= x_FOURS) { break; }
    let of_step = i / (x_LINES / 4u);
    var v = vec4<mul_t>();
    if (k + of_step < k_end) {
      let s = span_at(k + of_step, k_end);
      v = x_four_lines(x_quad(lines[j], s.run), s.first);
    }
    let at = x_BEGIN + 4u * (i % (x_LINES / 4u)) * STRIDE + of_step;
    factors[at] = as_tile(v.x, scales[j].x);
    factors[at + STRIDE] = as_tile(v.y, scales[j].y);
    factors[at + 2u * STRIDE] = as_tile(v.z, scales[j].z);
    factors[at + 3u * STRIDE] = as_tile(v.w, scales[j].w);
  }
}
)";

inline constexpr std::string_view kConstants = R"(const UNIT_M: u32 = 8u;  //@ spec
const UNIT_N: u32 = 8u;  //@ spec
const UNIT_K: u32 = 8u;  //@ spec     counts elements of mul_t
const ROWS: u32 = 64u;  //@ spec
const COLS: u32 = 64u;  //@ spec
const STEP: u32 = 32u;  //@ spec
const STRIDE: u32 = 40u;  //@ spec     more than STEP, so that lines lie in different banks
const WIDTH: u32 = 32u;  //@ spec     of a subgroup
const a_WHOLE_FOURS: bool = false;  //@ spec
const b_WHOLE_FOURS: bool = false;  //@ spec
const a_LINES: u32 = ROWS;
const b_LINES: u32 = COLS;
const a_BEGIN: u32 = 0u;
const b_BEGIN: u32 = ROWS * STRIDE;
const SUBGROUPS_ALONG_N: u32 = COLS / PART_COLS;
const SUBGROUPS: u32 = ROWS / PART_ROWS * SUBGROUPS_ALONG_N;
const LANES: u32 = SUBGROUPS * WIDTH;
var<workgroup> factors: array<tile_t, (ROWS + COLS) * STRIDE>;
var<workgroup> unit_sums: array<unit_sum_t, SUBGROUPS * UNIT_M * UNIT_N>;
fn unit_multiply_add(a: tile_t, b: tile_t, c: unit_sum_t) -> unit_sum_t {
  return unit_sum_t(mad_one(mul_t(a), mul_t(b), sum_t(c)));
}

// Fours of the units that all subgroups have in unit_sums, and which of them a lane cares for.
const UNIT_FOURS: u32 = SUBGROUPS * UNIT_M * UNIT_N / 4u;
const UNIT_FOURS_EACH: u32 = (UNIT_FOURS + LANES - 1u) / LANES;
fn unit_four(i: u32) -> vec4<sum_t> {
  return vec4<sum_t>(sum_t(unit_sums[4u * i]), sum_t(unit_sums[4u * i + 1u]), sum_t(unit_sums[4u * i + 2u]),
                     sum_t(unit_sums[4u * i + 3u]));
}
// The first unit belongs at these rows and columns.
fn put_unit_four(t: Tile, first_row: u32, first_col: u32, i: u32, v: vec4<sum_t>) {
  let unit = 4u * i / (UNIT_M * UNIT_N);
  let within = 4u * i % (UNIT_M * UNIT_N);
  let row = t.row + unit / SUBGROUPS_ALONG_N * PART_ROWS + first_row + within / UNIT_N;
  let col = t.col + unit % SUBGROUPS_ALONG_N * PART_COLS + first_col + within % UNIT_N;
  if (row < params.row_end && col < params.col_end) { put4(t, row, col, v); }
}
fn put_units(t: Tile, first_row: u32, first_col: u32, lane: u32) {
  for (var i = lane; i < UNIT_FOURS; i += LANES) { put_unit_four(t, first_row, first_col, i, unit_four(i)); }
}
)";

// Sums of f16 are taken over by f32 from time to time.
inline constexpr std::string_view kTakenOver = R"(
const HALF_SUMS: u32 = 128u;  //@ spec
alias Totals = array<vec4<sum_t>, UNIT_FOURS_EACH>;
fn take_over(totals: ptr<function, Totals>, lane: u32) {
  for (var j = 0u; j < UNIT_FOURS_EACH; j++) {
    let i = lane + j * LANES;
    if (i < UNIT_FOURS) { (*totals)[j] += unit_four(i); }
  }
}
fn put_totals(t: Tile, first_row: u32, first_col: u32, totals: ptr<function, Totals>, lane: u32) {
  for (var j = 0u; j < UNIT_FOURS_EACH; j++) {
    let i = lane + j * LANES;
    if (i < UNIT_FOURS) { put_unit_four(t, first_row, first_col, i, (*totals)[j]); }
  }
}
)";

// What goes into the tiles: a factor, or one that is rounded after its line's scale has brought it into
// range.
inline constexpr std::string_view kAsItIs = R"(
fn x_line_scale(batch: u32, line: u32) -> f32 { return 1.0; }
)";
inline constexpr std::string_view kScaled = R"(
fn x_line_scale(batch: u32, line: u32) -> f32 { return power_of_two(x_exponent(batch, line)); }
)";

// How many units of a and of b a subgroup holds: it makes the sums of each with each.
struct Part {
  int64_t m = 1, n = 1;
};

// Sums are named one by one, since drivers keep an array of matrices in memory.
inline std::string task_text(const Part& part, bool half_sums) {
  std::string text = R"(fn matrix_task(g: u32, lane: u32, subgroup: u32) {
  if (g >= tile_count()) { return; }  // the grid is a box and may have more groups than asked for
  let t = tile_at(g, ROWS, COLS);
  let k_range = k_range_of(t, lane);
  if (k_range.x > k_range.y) { return; }
  let a_at = a_BEGIN + subgroup / SUBGROUPS_ALONG_N * PART_ROWS * STRIDE;
  let b_at = b_BEGIN + subgroup % SUBGROUPS_ALONG_N * PART_COLS * STRIDE;
  var a_lines = a_staged_from(t.batch, t.row, lane);
  var b_lines = b_staged_from(t.batch, t.col, lane);
  var a_scales = a_scales_from(t.batch, t.row, lane);
  var b_scales = b_scales_from(t.batch, t.col, lane);
)";
  const auto each = [&](auto&& write) {
    for (int64_t m = 0; m < part.m; ++m) {
      for (int64_t n = 0; n < part.n; ++n) text += write(m, n);
    }
  };
  if (half_sums) {
    each([](int64_t m, int64_t n) { return formatted("  var total{}_{}: Totals;\n", m, n); });
    text += "  for (var first = k_range.x; first < k_range.y; first += HALF_SUMS) {\n";
    text += "  let k_end = min(first + HALF_SUMS, k_range.y);\n";
  } else {
    text += "  let first = k_range.x;\n  let k_end = k_range.y;\n";
  }
  each([](int64_t m, int64_t n) { return formatted("  var s{}_{} = Sums();\n", m, n); });
  text += R"(  for (var k = first; k < k_end; k += STEP) {
    workgroupBarrier();
    a_fill(&a_lines, &a_scales, k, k_range.y, lane);
    b_fill(&b_lines, &b_scales, k, k_range.y, lane);
    workgroupBarrier();
    if (subgroup < SUBGROUPS) {
      for (var i = 0u; i < STEP; i += UNIT_K) {
)";
  for (int64_t n = 0; n < part.n; ++n)
    text += formatted("        let b{0} = right_at(b_at + {0}u * UNIT_N * STRIDE + i, STRIDE);\n", n);
  for (int64_t m = 0; m < part.m; ++m) {
    text += formatted("        let a{0} = left_at(a_at + {0}u * UNIT_M * STRIDE + i, STRIDE);\n", m);
    for (int64_t n = 0; n < part.n; ++n)
      text += formatted("        s{0}_{1} = multiplied(a{0}, b{1}, s{0}_{1});\n", m, n);
  }
  text += "      }\n    }\n  }\n";
  each([&](int64_t m, int64_t n) {
    return formatted(R"(  if (subgroup < SUBGROUPS) {{ keep(subgroup * UNIT_M * UNIT_N, UNIT_N, s{0}_{1}); }}
  workgroupBarrier();
  {2}
  workgroupBarrier();
)",
                     m, n,
                     half_sums ? formatted("take_over(&total{}_{}, lane);", m, n)
                               : formatted("put_units(t, {}u * UNIT_M, {}u * UNIT_N, lane);", m, n));
  });
  if (half_sums) {
    text += "  }\n";
    each([](int64_t m, int64_t n) {
      return formatted("  put_totals(t, {0}u * UNIT_M, {1}u * UNIT_N, &total{0}_{1}, lane);\n", m, n);
    });
  }
  return text + "}\n";
}

// Whether a product may be made of these units: its factors must be numbers of the component, and its sums
// exact to the precision that is asked for.
inline bool can_use(const Product& p, const SubgroupMatrix& unit) {
  if (p.fours) return unit.component == *p.fours && unit_bytes(unit.result) == 4;
  if (p.sum_type() != DType::f32 || unit.result != (p.half_sums ? DType::f16 : DType::f32)) return false;
  if (unit.component == DType::f32) return !p.halved;
  return unit.component == DType::f16 &&
         (p.halved || (p.a->dtype() == DType::f16 && p.b->dtype() == DType::f16));
}

inline bool applies(const Target& target, const Product& p) {
  return std::ranges::any_of(target.caps.subgroup_matrices,
                             [&](const SubgroupMatrix& unit) { return can_use(p, unit); });
}

// A workgroup and its memory for tiles of this size.
struct Shape {
  int64_t part_rows, part_cols, subgroups, step, stride, bytes;
};
inline Shape shape_of(const Caps& caps, const SubgroupMatrix& unit, int64_t rows, int64_t cols) {
  // Of rows or columns, for a subgroup. Lavapipe takes seconds to compile more units in one loop.
  const bool small = caps.software() && !caps.emulated_matrices;
  const int64_t part = small ? std::max<int64_t>(16, std::max(unit.m, unit.n)) : 32;
  const int64_t element = unit.component == DType::f16 ? 2 : 4;
  Shape s{.part_rows = std::min(rows, part), .part_cols = std::min(cols, part)};
  s.subgroups = rows / s.part_rows * (cols / s.part_cols);
  s.step = (caps.software() ? 32 : 64) / element;
  s.stride = s.step + 16 / element;
  s.bytes = (rows + cols) * s.stride * element + s.subgroups * unit.m * unit.n * unit_bytes(unit.result);
  return s;
}

// The fraction of `Rates::flops_per_ns`: of CPUs measured with lavapipe (an eighth of what loop_staged
// reaches), of GPUs guessed from what makers say of their units.
inline Share share_of(const Caps& caps, const SubgroupMatrix& unit) {
  if (caps.emulated_matrices) return {.cpu = 0.01, .gpu = 0.01};
  // Sums of f16 are twice as fast on many NVIDIA parts and no faster elsewhere; their way into f32 takes
  // time.
  if (unit.result == DType::f16) return {.cpu = 0.1, .gpu = caps.family == GpuFamily::nvidia ? 4.5 : 2.5};
  return {.cpu = 0.12, .gpu = unit.component == DType::f32 ? 1.0 : 3.0};
}

inline std::vector<Candidate> candidates(const Target& target, const Product& p) {
  const Caps& caps = target.caps;
  const Rates r = rates_of(caps);
  std::vector<Candidate> out;
  for (const SubgroupMatrix& unit : caps.subgroup_matrices) {
    if (!can_use(p, unit)) continue;
    for (const auto& [rows, cols] : {std::pair{16, 64}, {32, 32}, {64, 64}, {128, 64}}) {
      const Shape s = shape_of(caps, unit, rows, cols);
      if (s.part_rows % unit.m != 0 || s.part_cols % unit.n != 0) continue;
      if (s.subgroups * matrix_width(caps) > caps.max_invocations_per_workgroup ||
          s.bytes > caps.max_workgroup_bytes)
        continue;
      // The larger the tile, the less is read for each sum.
      const double reads = 1 + 8.0 * (1.0 / rows + 1.0 / cols);
      const double preferred = target.prefers_f32_units && unit.component == DType::f32 ? 1e-3 : 1;
      out.push_back({estimate_ns(r, p, share_of(caps, unit)) * reads * p.padding(rows, cols) * preferred,
                     {{"FACTORS", to_u32(8 * unit_bytes(unit.component))},
                      {kSums, to_u32(8 * unit_bytes(unit.result))},
                      {"M", unit.m},
                      {"N", unit.n},
                      {"K", unit.k},
                      {"ROWS", to_u32(rows)},
                      {"COLS", to_u32(cols)}}});
    }
  }
  return out;
}

inline const SubgroupMatrix& unit_of(const Caps& caps, const Product& p, const Candidate& c) {
  const auto found = std::ranges::find_if(caps.subgroup_matrices, [&](const SubgroupMatrix& s) {
    return can_use(p, s) && 8 * unit_bytes(s.component) == c.at("FACTORS") &&
           8 * unit_bytes(s.result) == c.at(kSums) && s.m == c.at("M") && s.n == c.at("N") &&
           s.k == c.at("K");
  });
  check(found != caps.subgroup_matrices.end(), "a candidate is of one of the device's units");
  return *found;
}

inline Dispatch make(Lowering& l, const Product& p, const Candidate& c) {
  const Caps& caps = l.caps();
  const SubgroupMatrix& unit = unit_of(caps, p, c);
  const int64_t rows = c.at("ROWS");
  const int64_t cols = c.at("COLS");
  const Shape s = shape_of(caps, unit, rows, cols);
  const Part part{s.part_rows / unit.m, s.part_cols / unit.n};
  const bool half = unit.component == DType::f16;
  const int64_t packed = p.fours ? 4 : 1;

  std::string text;
  for (const std::string_view fragment : matrix_fragments(caps)) text += formatted("//@ use {}\n", fragment);
  if (half) text += "enable f16;\n";
  text += formatted("alias unit_t = {};\nalias unit_sum_t = {};\nconst UNIT_PACKED: u32 = {}u;\n",
                    to_string(unit.component), to_string(unit.result), packed);
  text += formatted("alias tile_t = {};\n", half ? "f16" : "mul_t");
  text += formatted("fn as_tile(v: mul_t, scale: f32) -> tile_t {{ return tile_t(v{}); }}\n",
                    p.halved ? " * scale" : "");
  for (const std::string_view name : {"a", "b"}) text += for_operand(p.halved ? kScaled : kAsItIs, name);
  text += formatted("const PART_ROWS: u32 = {}u * UNIT_M;\nconst PART_COLS: u32 = {}u * UNIT_N;\n", part.m,
                    part.n);
  text += kConstants;
  text += for_operand(p.a->along_k() ? kStageAlongK : kStageAlongLines, "a");
  text += for_operand(p.b->along_k() ? kStageAlongK : kStageAlongLines, "b");
  if (p.half_sums) text += kTakenOver;
  text += task_text(part, p.half_sums);

  const auto access = [&](const Load& load, const Extent& lines) {
    if (load.along_k()) return p.reads_four_k(load) ? Access::four_k : Access::one;
    return lines.begin % 4 == 0 && load.offers(Access::four_lines) ? Access::four_lines : Access::one;
  };
  SpecList specs = {spec_value("UNIT_M", unit.m),
                    spec_value("UNIT_N", unit.n),
                    spec_value("UNIT_K", to_u32(unit.k / packed)),
                    spec_value("ROWS", to_u32(rows)),
                    spec_value("COLS", to_u32(cols)),
                    spec_value("STEP", to_u32(s.step)),
                    spec_value("STRIDE", to_u32(s.stride)),
                    spec_value("WIDTH", matrix_width(caps)),
                    spec_value("a_WHOLE_FOURS", p.fours_of_k()),
                    spec_value("b_WHOLE_FOURS", p.fours_of_k())};
  if (p.half_sums) specs.push_back(spec_value("HALF_SUMS", to_u32(kHalfSums)));
  const std::string id = formatted("{} {} {}x{} {}", to_string(unit.component), to_string(unit.result),
                                   part.m, part.n, joined(matrix_fragments(caps)));
  return make_dispatch(l, p,
                       {.name = "matrix",
                        .wgsl = text,
                        .id = id,
                        .a = access(*p.a, p.region.rows),
                        .b = access(*p.b, p.region.cols),
                        .four_columns = true,
                        .tile_rows = rows,
                        .tile_cols = cols,
                        .specs = std::move(specs)});
}

inline constexpr Loop kLoop{kMatrix, applies, candidates, make};

}  // namespace rlx::products::matrix
