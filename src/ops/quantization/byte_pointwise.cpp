// Convolutions of bytes with one tap and channels last. A lane has four pixels, and the lanes of a workgroup
// share the weights of FILTERS filters in its memory. Factors are taken out of words where they are
// multiplied, so that the compiler of a CPU sees that they have 16 bits: it then has an instruction that
// multiplies and adds them.
#include <algorithm>

#include "base/checked.h"
#include "base/format.h"
#include "kernels/binder.h"
#include "kernels/rates.h"
#include "ops/quantization/byte_kernels.h"

namespace rlx {
namespace {

using products::WindowAxis;

constexpr int64_t kLanes = 64;
constexpr int64_t kPixels = 4;   // of a lane
constexpr int64_t kMostK = 256;  // in workgroup memory at once

constexpr std::string_view kMain = R"(
var<workgroup> rows: array<array<vec2<u32>, FILTERS>, STEP / 2u>;

fn factors_of_x(v: vec4<u32>, e: u32) -> vec4<i32> { return vec4<i32>(BYTES_OF_X); }
fn factor_of_w(v: u32, e: u32) -> i32 { return i32(BYTE_OF_W); }

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, invocation: Invocation) {
  let lane = lane_of(invocation);
  let g = group_index(group, groups);
  if (g >= group_count()) { return; }
  let first = g % params.tiles * FILTERS;
  let pixel = (g / params.tiles * LANES + lane) * 4u;
  let last = params.pixels - 1u;
  let at = vec4<u32>(min(pixel, last), min(pixel + 1u, last), min(pixel + 2u, last), min(pixel + 3u, last)) * params.words;
  var sum: array<vec4<i32>, FILTERS>;
  for (var k0 = 0u; k0 < params.words; k0 += STEP) {
    workgroupBarrier();
    for (var e = lane; e < FILTERS * STEP; e += LANES) {
      let f = e / STEP;
      let k = e - f * STEP;
      let inside = k0 + k < params.words && first + f < params.filters;
      let v = w_get(select(0u, (first + f) * params.w_filter + k0 + k, inside));
      rows[k / 2u][f][k % 2u] = select(0u, v, inside);
    }
    workgroupBarrier();
    if (pixel < params.pixels) {
      for (var i = 0u; i < STEP; i += 2u) {
        // Past the end weights are zero.
        let k = vec4<u32>(min(k0 + i, params.words - 1u));
        let l = vec4<u32>(min(k0 + i + 1u, params.words - 1u));
        let a = at + k;
        let b = at + l;
        let x0 = vec4<u32>(x_get(a.x), x_get(a.y), x_get(a.z), x_get(a.w));
        let x1 = vec4<u32>(x_get(b.x), x_get(b.y), x_get(b.z), x_get(b.w));
        for (var r = 0u; r < FILTERS; r++) {
          let w = rows[i / 2u][r];
          sum[r] += factor_of_w(w.x, 0u) * factors_of_x(x0, 0u) + factor_of_w(w.x, 1u) * factors_of_x(x0, 1u) +
                    factor_of_w(w.x, 2u) * factors_of_x(x0, 2u) + factor_of_w(w.x, 3u) * factors_of_x(x0, 3u) +
                    factor_of_w(w.y, 0u) * factors_of_x(x1, 0u) + factor_of_w(w.y, 1u) * factors_of_x(x1, 1u) +
                    factor_of_w(w.y, 2u) * factors_of_x(x1, 2u) + factor_of_w(w.y, 3u) * factors_of_x(x1, 3u);
        }
      }
    }
  }
  for (var r = 0u; r < FILTERS; r += 4u) {
    if (first + r >= params.filters) { return; }
    let extra = extras(first + r);
    for (var e = 0u; e < 4u; e++) {
      let p = pixel + e;
      if (p < params.pixels) {
        let image = select(0u, p / params.image, BY_PIXEL);  // else only the filter counts
        let i = p - image * params.image;
        let plane = image * params.filters + first + r;
        let place = p * params.filters + first + r;
        let four = fours(place);
        y_put4(place, vec4<y_t>(epilogue(sum[r][e], extra[0], four, 0u, plane, i),
                                epilogue(sum[r + 1u][e], extra[1], four, 1u, plane + 1u, i),
                                epilogue(sum[r + 2u][e], extra[2], four, 2u, plane + 2u, i),
                                epilogue(sum[r + 3u][e], extra[3], four, 3u, plane + 3u, i)));
      }
    }
  }
}
)";

bool whole(int64_t n) { return n % 4 == 0; }

// Whether all of it lies in memory with channels last, and those in fours.
bool channels_lie_in_fours(const View& v) {
  return v.permute({0, 3, 4, 5, 1, 2}).is_contiguous() && whole(v.dims[2]) && whole(v.offset);
}

bool applies(const Target& target, const ByteProblem& problem) {
  const ConvProblem& p = problem.conv;
  const View& y = p.y.view;
  const View& x = p.x.view;
  const auto is_one = [](const WindowAxis& a) { return a.kernel == 1 && a.stride == 1 && a.in == a.out; };
  const Dims& w = p.w.view.strides;
  return p.layout == ConvLayout::channels_last && x.dims[1] == 1 && std::ranges::all_of(p.axes, is_one) &&
         !p.x_zero.present() && !p.w_zero.present() && p.y.dtype != DType::c64 && channels_lie_in_fours(x) &&
         channels_lie_in_fours(y) && x.dims[2] > 0 && w[2] == 1 && whole(w[1]) && whole(p.w.view.offset) &&
         target.caps.max_invocations_per_workgroup >= kLanes;
}

// The same bytes as words of four channels.
Operand in_words(Operand o) {
  View& v = o.view;
  for (size_t axis = 0; axis < v.strides.size(); ++axis)
    v.strides[axis] = axis == 2 ? 1 : v.strides[axis] / 4;
  v.dims[2] /= 4;
  v.offset /= 4;
  o.dtype = DType::u32;
  return o;
}

std::string factor(DType type, std::string_view v, std::string_view u32, std::string_view i32) {
  return type == DType::u8 ? formatted("extractBits({}({}), 8u * e, 8u)", u32, v)
                           : formatted("extractBits(bitcast<{}>({}), 8u * e, 8u)", i32, v);
}

bool make(Lowering& l, const ByteProblem& problem, const Candidate& c) {
  const ConvProblem& p = problem.conv;
  const Dims& y = p.y.view.dims;
  const int64_t filters = c.at("FILTERS");
  const int64_t image = y[3] * y[4] * y[5];
  const int64_t words = p.x.view.dims[2] / 4;
  const int64_t steps = ceil_div(words, kMostK / 4);
  ByteParts parts;
  parts.kernel.name = "byte_pointwise";
  Operand x = in_words(p.x);
  x.outer_rank = 1;
  parts.add("x", x);
  Operand w = in_words(p.w);
  w.outer_rank = 1;
  parts.add("w", w);
  std::vector<std::string> values = {"product"};
  std::string members;
  std::string fetched;
  std::string four_members;
  std::string four_fetched;
  bool by_pixel = false;
  for (size_t i = 0; i < p.extra.size(); ++i) {
    Operand extra = p.extra[i];
    extra.outer_rank = 3;
    const bool like_y = channels_lie_in_fours(extra.view);
    parts.add(formatted("e{}", i), extra, false, like_y);
    if (like_y) {
      values.push_back(formatted("four.e{}[nth]", i));
      four_members += formatted("  e{0}: vec4<e{0}_t>,\n", i);
      if (!four_fetched.empty()) four_fetched += ", ";
      four_fetched += formatted("e{}_get4(place)", i);
      continue;
    }
    if (!is_per_channel(extra.view)) {
      values.push_back(formatted("e{0}_get(e{0}_base(plane) + e{0}_step(i))", i));
      by_pixel = true;
      continue;
    }
    values.push_back(formatted("extra.e{}", i));
    members += formatted("  e{0}: e{0}_t,\n", i);
    if (!fetched.empty()) fetched += ", ";
    fetched += formatted("e{0}_get(e{0}_base(plane))", i);
  }
  Operand out = p.y;
  parts.add("y", out, true, true);
  const ExprCode code = p.expr.steps.empty() ? ExprCode{.result = "product"} : generate(p.expr, values);
  std::string numbers;
  for (const std::string_view name : {"pixels", "image", "filters", "words", "tiles", "w_filter"})
    numbers += formatted("  {}: u32,\n", name);
  for (const std::string& m : code.params) numbers += "  " + m + ",\n";
  const int64_t tiles = ceil_div(y[2], filters);
  parts.params = {to_u32(y[0] * image), to_u32(image), to_u32(y[2]),
                  to_u32(words),        to_u32(tiles), to_u32(w.view.strides[1])};
  parts.params.insert(parts.params.end(), code.words.begin(), code.words.end());
  std::string main(kMain);
  const auto put = [&](std::string_view name, const std::string& text) {
    main.replace(main.find(name), name.size(), text);
  };
  put("BYTES_OF_X", factor(p.x.dtype, "v", "vec4<u32>", "vec4<i32>"));
  put("BYTE_OF_W", factor(p.w.dtype, "v", "u32", "i32"));
  parts.kernel.source =
      formatted(
          "const FILTERS: u32 = {}u;\nconst LANES: u32 = {}u;\nconst STEP: u32 = {}u;\nconst BY_PIXEL: bool "
          "= {};\n",
          filters, kLanes, round_up(ceil_div(words, steps), 2), by_pixel) +
      formatted("struct Params {{\n{}}}\n", numbers) +
      formatted("struct Extra {{\n{}}}\n", members.empty() ? "  none: u32,\n" : members) +
      formatted("struct Four {{\n{}}}\n", four_members.empty() ? "  none: u32,\n" : four_members) +
      formatted("fn fours(place: u32) -> Four {{ return Four({}); }}\n",
                four_fetched.empty() ? "0u" : four_fetched) +
      formatted("fn extra_of(plane: u32) -> Extra {{ return Extra({}); }}\n",
                fetched.empty() ? "0u" : fetched) +
      "fn extras(plane: u32) -> array<Extra, 4> {\n"
      "  return array<Extra, 4>(extra_of(plane), extra_of(plane + 1u), extra_of(plane + 2u), "
      "extra_of(plane + 3u));\n}\n" +
      formatted(
          "fn epilogue(product: i32, extra: Extra, four: Four, nth: u32, plane: u32, i: u32) -> y_t {{\n{}  "
          "return y_t({});\n}}\n",
          code.statements, code.result) +
      main;
  Dispatch d = parts.dispatch(l, tiles * ceil_div(y[0] * image, kLanes * kPixels));
  if (!fits(d, l.target().caps)) return false;
  l.emit(std::move(d));
  return true;
}

// What the weights of 32 filters, or fewer, take, which are read once for four pixels of each lane.
std::vector<Candidate> candidates(const Target& target, const ByteProblem& problem) {
  const ConvProblem& p = problem.conv;
  const double sums = static_cast<double>(p.y.view.elements() * p.x.view.dims[2]);
  std::vector<Candidate> out;
  for (const int64_t filters : {int64_t{32}, int64_t{24}, int64_t{16}}) {
    const double share =
        static_cast<double>(round_up(p.y.view.dims[2], filters)) / static_cast<double>(p.y.view.dims[2]);
    out.push_back(
        {rates_of(target.caps).cpu ? sums / 32 * share * (1 + 8 / static_cast<double>(filters)) : sums,
         {{"FILTERS", to_u32(filters)}}});
  }
  return out;
}

constexpr ByteKernel kRows[] = {{"pointwise", applies, candidates, make}};

}  // namespace

std::span<const ByteKernel> byte_pointwise_kernels() { return kRows; }

}  // namespace rlx
