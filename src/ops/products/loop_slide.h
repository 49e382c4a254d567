// For windows of single channels, as in depthwise convolutions: an invocation makes ROWS lines of WIDE
// neighbouring windows, and reads what they share once. The lanes of a workgroup are side by side in one
// image, or, if ACROSS, have the same windows of different images: of channels that are neighbours in memory,
// or of images with few windows. All is written out: which element belongs to which window is known when the
// kernel is made.
#pragma once

#include <algorithm>
#include <set>
#include <string>

#include "base/checked.h"
#include "base/format.h"
#include "ops/products/product.h"

namespace rlx::products::slide {

using Axes = std::array<WindowAxis, 3>;

inline constexpr std::string_view kTile = R"(const LANES: u32 = 64u;  //@ spec
const ACROSS: bool = false;  //@ spec
const IMAGE_ROWS: u32 = 1u;  //@ spec     rows of a, for the same windows

// Which windows an invocation makes: those from o0, o1, o2 on. `some` is whether there are any.
struct Place { batch: u32, row: u32, o0: u32, o1: u32, o2: u32, some: bool, }
fn place_at(g: u32, lane: u32) -> Place {
  let slices = params.batches * IMAGE_ROWS;
  let blocks = (select(params.n_tiles, slices, ACROSS) + LANES - 1u) / LANES;
  let outer = g / blocks;
  let inner = (g - outer * blocks) * LANES + lane;
  let slice = select(outer, inner, ACROSS);
  let tile = select(inner, outer, ACROSS);
  let wide = (params.b_out2 + WIDE - 1u) / WIDE;
  let high = (params.b_out1 + ROWS - 1u) / ROWS;
  let over = tile / wide;
  let o0 = select(over / high, 0u, PLANE);
  let batch = slice / IMAGE_ROWS;
  return Place(params.batch_begin + batch, params.row_begin + slice - batch * IMAGE_ROWS, o0,
               (over - o0 * high) * ROWS, (tile - over * wide) * WIDE,
               slice < slices && tile < params.n_tiles);
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, invocation: Invocation) {
  let p = place_at(group_index(group, groups), lane_of(invocation));
  if (!p.some || a_skips(p.batch) || b_skips(p.batch)) { return; }
  let weights = a_line(p.batch, p.row);
  let windows = b_window(p.batch, p.o0, p.o1, p.o2);
)";

// How many elements of x the windows of a tile read, for each index along the first axis.
inline std::set<int64_t> along(const WindowAxis& axis, int64_t windows) {
  std::set<int64_t> out;
  for (int64_t w = 0; w < windows; ++w) {
    for (int64_t tap = 0; tap < axis.kernel; ++tap) out.insert(w * axis.stride + tap * axis.dilation);
  }
  return out;
}

// What line `line` of x, counted from the first tap of the tile on, adds to the sums.
inline std::string line_text(const Axes& axes, int64_t rows, int64_t wide, int64_t line) {
  std::string out = formatted("    {{\n      let x = b_shared(windows, n0, {}u);\n", line);
  for (const int64_t n : along(axes[2], wide)) out += formatted("      let x{0} = b_nth(x, {0}u);\n", n);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t ahead = line - r * axes[1].stride;
    const int64_t tap1 = ahead / axes[1].dilation;
    if (ahead < 0 || ahead % axes[1].dilation != 0 || tap1 >= axes[1].kernel) continue;
    for (int64_t c = 0; c < wide; c += 4) {
      for (int64_t tap2 = 0; tap2 < axes[2].kernel; ++tap2) {
        const auto x = [&](int64_t i) { return (c + i) * axes[2].stride + tap2 * axes[2].dilation; };
        out += formatted(
            "      s{0}_{1} = mad(vec4<mul_t>(w{2}), vec4<mul_t>(x{3}, x{4}, x{5}, x{6}), s{0}_{1});\n", r, c,
            tap1 * axes[2].kernel + tap2, x(0), x(1), x(2), x(3));
      }
    }
  }
  return out + "    }\n";
}

inline std::string wgsl(const Axes& axes, int64_t rows, int64_t wide) {
  std::string out = formatted("const ROWS: u32 = {}u;\nconst WIDE: u32 = {}u;\nconst PLANE: bool = {};\n",
                              rows, wide, axes[0].out == 1);
  out += kTile;
  const auto each_sum = [&](auto&& f) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < wide; c += 4) f(r, c);
    }
  };
  each_sum([&](int64_t r, int64_t c) { out += formatted("  var s{}_{} = vec4<sum_t>();\n", r, c); });
  const int64_t taps = axes[1].kernel * axes[2].kernel;
  // Loops have their price on CPUs, also those of one step.
  out += axes[0].kernel == 1 ? std::string("  {\n    let tap = 0u;\n    let n0 = 0u;\n")
                             : formatted(
                                   "  for (var tap = 0u; tap < {0}u; tap += {1}u) {{\n"
                                   "    let n0 = tap / {1}u * params.b_dilation0;\n",
                                   axes[0].kernel * taps, taps);
  for (int64_t t = 0; t < taps; ++t)
    out += formatted("    let w{0} = a_one(a_run(weights, tap + {0}u), 0u);\n", t);
  for (const int64_t line : along(axes[1], rows)) out += line_text(axes, rows, wide, line);
  out += "  }\n";
  out +=
      "  let t = Tile(p.batch, p.row, 0u, params.k_begin, params.k_end, p.batch);\n"
      "  var begin = (p.o0 * params.b_out1 + p.o1) * params.b_out2;\n";
  for (int64_t r = 0; r < rows; ++r) {
    out += formatted("  if (p.o1 + {}u < params.b_out1) {{\n", r);
    for (int64_t c = 0; c < wide; c += 4) {
      out += formatted("    put_before(t, p.row, begin + p.o2 + {1}u, begin + params.b_out2, s{0}_{1});\n", r,
                       c);
    }
    out += "  }\n  begin += params.b_out2;\n";
  }
  return out + "}\n";
}

// Windows of one channel each, all of them, with kernels that are not too long to be written out.
inline constexpr int64_t kMostTaps = 128;

inline bool applies(const Target&, const Product& p) {
  const Axes* const axes = p.b->windows();
  return axes && p.run == 1 && p.k_parts == 1 && p.region.cols.length() == p.size.n &&
         p.region.k.length() == p.size.k && (*axes)[1].kernel * (*axes)[2].kernel <= kMostTaps;
}

inline int64_t tiles(const Axes& axes, int64_t rows, int64_t wide) {
  return axes[0].out * ceil_div(axes[1].out, rows) * ceil_div(axes[2].out, wide);
}

inline std::vector<Candidate> candidates(const Target& target, const Product& p) {
  const Rates r = rates_of(target.caps);
  const Axes& axes = *p.b->windows();
  const auto slices = static_cast<double>(p.region.batch.length() * p.rows());
  const auto windows = static_cast<double>(p.size.n);
  const auto taps = static_cast<double>(axes[1].kernel * axes[2].kernel);
  // A fifth of what the loop for short runs is said to take; measured: a tenth to a third.
  const double ns = estimate_ns(r, p, {.cpu = 2, .gpu = 2}) / 5;
  std::vector<Candidate> out;
  for (const int64_t rows : {1, 2, 4}) {
    for (const int64_t wide : {4, 8, 16}) {
      if (rows > 1 && (rows / 2 >= axes[1].out || wide > 8)) continue;
      if (wide > 4 && wide / 2 >= axes[2].out) continue;
      if (rows * wide > 4 && static_cast<double>(rows * wide) * taps > 1600) continue;
      // Loads take most of the time, and a multiplication a tenth of a load.
      const auto made = static_cast<double>(rows * wide);
      const auto loads = static_cast<double>(along(axes[1], rows).size() * along(axes[2], wide).size());
      const double cost = (loads / made + taps / 10) / (1 + taps / 10);
      for (const bool across : {false, true}) {
        for (const uint32_t lanes : {8u, 64u}) {
          const auto n = static_cast<double>(tiles(axes, rows, wide));
          const double side = across ? slices : n;
          const double waste = std::ceil(side / lanes) * lanes / side * (n * made / windows);
          const double busy = r.cpu ? 1 : std::min(1.0, n * slices / r.lanes);
          const bool neighbours = across == p.b->along_batch();
          out.push_back(
              {ns * cost * waste * misfit(lanes, r.group_lanes) / busy * (neighbours ? 1 : 1.25) *
                   spilling(r, made + r.load_registers * loads),
               {{"ROWS", to_u32(rows)}, {"WIDE", to_u32(wide)}, {"ACROSS", across}, {"LANES", lanes}}});
        }
      }
    }
  }
  return out;
}

inline Dispatch make(Lowering& l, const Product& p, const Candidate& c) {
  const Axes& axes = *p.b->windows();
  const uint32_t rows = c.at("ROWS");
  const uint32_t wide = c.at("WIDE");
  const uint32_t lanes = c.at("LANES");
  const bool across = c.at("ACROSS") != 0;
  std::string id = formatted("{} {}", rows, wide);
  for (const WindowAxis& a : axes)
    id += formatted(" {} {} {} {}", a.out == 1, a.kernel, a.stride, a.dilation);
  const std::string text = wgsl(axes, rows, wide);
  const int64_t n_tiles = tiles(axes, rows, wide);
  const int64_t slices = p.region.batch.length() * p.rows();
  return make_dispatch(l, p,
                       {.name = kSlide,
                        .wgsl = text,
                        .id = id,
                        .four_columns = axes[2].out % 4 == 0,
                        .tiles_per_group = lanes,
                        .n_tiles = n_tiles,
                        .groups = across ? n_tiles * ceil_div(slices, int64_t{lanes})
                                         : slices * ceil_div(n_tiles, int64_t{lanes}),
                        .specs = {spec_value("LANES", lanes), spec_value("ACROSS", across),
                                  spec_value("IMAGE_ROWS", to_u32(p.rows()))}});
}

inline constexpr Loop kLoop{kSlide, applies, candidates, make};

}  // namespace rlx::products::slide
