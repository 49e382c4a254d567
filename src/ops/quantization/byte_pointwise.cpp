// Convolutions of bytes whose results have their channels last: with one tap, or with few bytes in a window.
// A lane has four pixels, and the lanes of a workgroup share the weights of FILTERS filters in its memory.
// Factors are taken out of words where they are multiplied, so that the compiler of a CPU sees that they have
// 16 bits: it then has an instruction that multiplies and adds them.
#include <algorithm>

#include "base/checked.h"
#include "base/format.h"
#include "kernels/binder.h"
#include "ops/quantization/byte_kernels.h"

namespace rlx {
namespace {

using products::WindowAxis;

constexpr int64_t kLanes = 64;
constexpr int64_t kPixels = 4;   // of a lane
constexpr int64_t kMostK = 256;  // of one tap, in workgroup memory at once
constexpr int64_t kMostOfWindow = 64;

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
  find_pixels(vec4<u32>(pixel, pixel + 1u, pixel + 2u, pixel + 3u));
  var sum: array<vec4<i32>, FILTERS>;
  for (var k0 = 0u; k0 < params.words; k0 += STEP) {
    workgroupBarrier();
    for (var e = lane; e < FILTERS * STEP; e += LANES) {
      let f = e / STEP;
      let k = e - f * STEP;
      let inside = k0 + k < params.words && first + f < params.filters;
      rows[k / 2u][f][k % 2u] = select(0u, word_of_w(select(0u, first + f, inside), select(0u, k0 + k, inside)), inside);
    }
    workgroupBarrier();
    if (ZERO_OF_X) {
      if (lane < FILTERS) { w_sums[lane] = sum_of_row(lane); }
      workgroupBarrier();
    }
    if (pixel < params.pixels) {
      for (var i = 0u; i < STEP; i += 2u) {
        // Past the end weights are zero.
        let x0 = words_of_x(min(k0 + i, params.words - 1u));
        let x1 = words_of_x(min(k0 + i + 1u, params.words - 1u));
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
        y_put4(place, vec4<y_t>(epilogue(sum[r][e] - of_zero(r), extra[0], four, 0u, plane, i),
                                epilogue(sum[r + 1u][e] - of_zero(r + 1u), extra[1], four, 1u, plane + 1u, i),
                                epilogue(sum[r + 2u][e] - of_zero(r + 2u), extra[2], four, 2u, plane + 2u, i),
                                epilogue(sum[r + 3u][e] - of_zero(r + 3u), extra[3], four, 3u, plane + 3u, i)));
      }
    }
  }
}
)";

// One tap: words of x as they lie.
constexpr std::string_view kOneTap = R"(
var<private> pixels_at: vec4<u32>;
fn find_pixels(p: vec4<u32>) { pixels_at = min(p, vec4<u32>(params.pixels - 1u)) * params.words; }
fn words_of_x(k: u32) -> vec4<u32> {
  let at = pixels_at + vec4<u32>(k);
  return vec4<u32>(x_get(at.x), x_get(at.y), x_get(at.z), x_get(at.w));
}
fn word_of_w(f: u32, k: u32) -> u32 { return w_get(f * params.w_filter + k); }
fn of_zero(r: u32) -> i32 { return 0; }
)";

// Windows: their bytes are put into words, byte after byte. What is outside of x is its zero point, whose
// share is taken from all sums.
constexpr std::string_view kWindow = R"(
var<private> windows: array<vec4<u32>, STEP>;
var<workgroup> w_sums: array<i32, FILTERS>;

// Byte k of the windows of four pixels, in the order of the weights: channels, then taps.
fn bytes_of_x(at: vec4<u32>, i1: vec4<u32>, i2: vec4<u32>, zero: u32, k: u32) -> vec4<u32> {
  let n = min(k, params.taps - 1u);
  let channel = n / (KERNEL1 * KERNEL2);
  let tap = n - channel * (KERNEL1 * KERNEL2);
  let tap1 = tap / KERNEL2;
  let p1 = i1 + vec4<u32>(tap1 * DILATION1);
  let p2 = i2 + vec4<u32>((tap - tap1 * KERNEL2) * DILATION2);
  let inside = (p1 < vec4<u32>(params.in1)) & (p2 < vec4<u32>(params.in2));
  let offset = at + channel * params.channel_stride +
               select(vec4<u32>(), p1 * params.row_stride + p2 * params.column_stride, inside);
  let v = vec4<u32>(u32(x_get(offset.x)), u32(x_get(offset.y)), u32(x_get(offset.z)), u32(x_get(offset.w)));
  return select(vec4<u32>(zero), v & vec4<u32>(255u), inside);
}
fn find_pixels(pixels: vec4<u32>) {
  let zero = zero_of_x();
  let p = min(pixels, vec4<u32>(params.pixels - 1u));
  let row = p / params.out2;
  let batch = row / params.out1;
  let i1 = (row - batch * params.out1) * STRIDE1 - PAD1;
  let i2 = (p - row * params.out2) * STRIDE2 - PAD2;
  let at = vec4<u32>(x_base(batch.x), x_base(batch.y), x_base(batch.z), x_base(batch.w));
  for (var k = 0u; k < params.words; k++) {
    windows[k] = bytes_of_x(at, i1, i2, zero, 4u * k) | (bytes_of_x(at, i1, i2, zero, 4u * k + 1u) << vec4<u32>(8u)) |
                 (bytes_of_x(at, i1, i2, zero, 4u * k + 2u) << vec4<u32>(16u)) |
                 (bytes_of_x(at, i1, i2, zero, 4u * k + 3u) << vec4<u32>(24u));
  }
}
fn words_of_x(k: u32) -> vec4<u32> { return windows[k]; }
fn byte_of_w(f: u32, k: u32) -> u32 {
  return select(0u, u32(w_get(w_base(f) + w_step(min(k, params.taps - 1u)))) & 255u, k < params.taps);
}
fn word_of_w(f: u32, k: u32) -> u32 {
  return byte_of_w(f, 4u * k) | (byte_of_w(f, 4u * k + 1u) << 8u) | (byte_of_w(f, 4u * k + 2u) << 16u) |
         (byte_of_w(f, 4u * k + 3u) << 24u);
}
fn sum_of_row(f: u32) -> i32 {
  var sum = 0;
  for (var k = 0u; k < STEP; k++) {
    let w = rows[k / 2u][f][k % 2u];
    for (var e = 0u; e < 4u; e++) { sum += factor_of_w(w, e); }
  }
  return sum;
}
fn of_zero(r: u32) -> i32 {
  if (!ZERO_OF_X) { return 0; }
  return w_sums[r] * factors_of_x(vec4<u32>(zero_of_x()), 0u).x;
}
)";

bool whole(int64_t n) { return n % 4 == 0; }

// Whether all of it lies in memory with channels last, and those in fours.
bool channels_lie_in_fours(const View& v) {
  return v.permute({0, 3, 4, 5, 1, 2}).is_contiguous() && whole(v.dims[2]) && whole(v.offset);
}

bool has_groups(const Target& target, const ConvProblem& p) {
  return target.caps.software() && p.x.view.dims[1] == 1 && !p.w_zero.present() && p.y.dtype != DType::c64 &&
         channels_lie_in_fours(p.y.view) && target.caps.max_invocations_per_workgroup >= kLanes;
}

bool has_one_tap(const Target& target, const ByteProblem& problem) {
  const ConvProblem& p = problem.conv;
  const View& x = p.x.view;
  const auto is_one = [](const WindowAxis& a) { return a.kernel == 1 && a.stride == 1 && a.in == a.out; };
  const Dims& w = p.w.view.strides;
  return has_groups(target, p) && std::ranges::all_of(p.axes, is_one) && !p.x_zero.present() &&
         channels_lie_in_fours(x) && x.dims[2] > 0 && w[2] == 1 && whole(w[1]) && whole(p.w.view.offset);
}

// How many bytes a window has.
int64_t taps(const ConvProblem& p) { return p.x.view.dims[2] * p.axes[1].kernel * p.axes[2].kernel; }

bool has_small_windows(const Target& target, const ByteProblem& problem) {
  const ConvProblem& p = problem.conv;
  const WindowAxis& outer = p.axes[0];
  return has_groups(target, p) && outer.kernel == 1 && outer.in == 1 && outer.out == 1 && taps(p) > 0 &&
         taps(p) <= kMostOfWindow;
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

// What comes behind the sums: operands are added to the parts, and words to the params.
struct Epilogue {
  std::string text;
  std::vector<std::string> members;  // of the params
  std::vector<uint32_t> words;
  bool by_pixel = false;  // an operand is addressed by image and pixel
};

std::string struct_text(std::string_view name, const std::string& members) {
  return formatted("struct {} {{\n{}}}\n", name, members.empty() ? "  none: u32,\n" : members);
}

// Numbers of a channel are read once, and what lies like y as words.
Epilogue add_epilogue(ByteParts& parts, const ConvProblem& p) {
  Epilogue out;
  std::vector<std::string> values = {"product"};
  std::string members, fetched, four_members, four_fetched;
  const auto append = [](std::string& list, const std::string& item) {
    list += list.empty() ? item : ", " + item;
  };
  for (size_t i = 0; i < p.extra.size(); ++i) {
    Operand extra = p.extra[i];
    extra.outer_rank = 3;
    const bool like_y = channels_lie_in_fours(extra.view);
    parts.add(formatted("e{}", i), extra, false, like_y);
    if (like_y) {
      values.push_back(formatted("four.e{}[nth]", i));
      four_members += formatted("  e{0}: vec4<e{0}_t>,\n", i);
      append(four_fetched, formatted("e{}_get4(place)", i));
    } else if (is_per_channel(extra.view)) {
      values.push_back(formatted("extra.e{}", i));
      members += formatted("  e{0}: e{0}_t,\n", i);
      append(fetched, formatted("e{0}_get(e{0}_base(plane))", i));
    } else {
      values.push_back(formatted("e{0}_get(e{0}_base(plane) + e{0}_step(i))", i));
      out.by_pixel = true;
    }
  }
  const ExprCode code = p.expr.steps.empty() ? ExprCode{.result = "product"} : generate(p.expr, values);
  out.members = code.params;
  out.words.assign(code.words.begin(), code.words.end());
  out.text = struct_text("Extra", members) + struct_text("Four", four_members) +
             formatted("fn fours(place: u32) -> Four {{ return Four({}); }}\n",
                       four_fetched.empty() ? "0u" : four_fetched) +
             formatted("fn extra_of(plane: u32) -> Extra {{ return Extra({}); }}\n",
                       fetched.empty() ? "0u" : fetched) +
             "fn extras(plane: u32) -> array<Extra, 4> {\n"
             "  return array<Extra, 4>(extra_of(plane), extra_of(plane + 1u), extra_of(plane + 2u), "
             "extra_of(plane + 3u));\n}\n" +
             formatted(
                 "fn epilogue(product: i32, extra: Extra, four: Four, nth: u32, plane: u32, i: u32) -> y_t "
                 "{{\n{}  return y_t({});\n}}\n",
                 code.statements, code.result);
  return out;
}

void put_in(std::string& text, std::string_view place, const std::string& with) {
  text.replace(text.find(place), place.size(), with);
}

std::string window_text(const ConvProblem& p) {
  std::string text;
  for (const size_t i : {size_t{1}, size_t{2}}) {
    text += formatted(
        "const KERNEL{0}: u32 = {1}u;\nconst STRIDE{0}: u32 = {2}u;\nconst DILATION{0}: u32 = {3}u;\n"
        "const PAD{0}: u32 = {4}u;\n",
        i, p.axes[i].kernel, p.axes[i].stride, p.axes[i].dilation, p.axes[i].pad);
  }
  text += formatted("fn zero_of_x() -> u32 {{ return {}; }}\n",
                    p.x_zero.present() ? "u32(x_zero_at(0u)) & 255u" : "0u");
  return text + std::string(kWindow);
}

bool emit(Lowering& l, const ConvProblem& p, int64_t filters, bool window) {
  const Dims& y = p.y.view.dims;
  const int64_t image = y[3] * y[4] * y[5];
  const int64_t words = window ? ceil_div(taps(p), 4) : p.x.view.dims[2] / 4;
  const int64_t steps = ceil_div(words, kMostK / 4);
  const int64_t tiles = ceil_div(y[2], filters);
  ByteParts parts;
  parts.kernel.name = window ? "byte_window" : "byte_pointwise";
  Operand x = window ? p.x : in_words(p.x);
  x.outer_rank = 1;
  parts.add("x", x);
  Operand w = window ? p.w : in_words(p.w);
  w.outer_rank = window ? 2 : 1;
  parts.add("w", w);
  if (p.x_zero.present()) parts.add("x_zero", p.x_zero);
  const Epilogue epilogue = add_epilogue(parts, p);
  parts.add("y", p.y, true, true);
  const auto stride = [&](size_t axis) { return static_cast<uint32_t>(to_i32(x.view.strides[axis])); };
  std::vector<std::pair<std::string_view, uint32_t>> params = {{"pixels", to_u32(y[0] * image)},
                                                               {"image", to_u32(image)},
                                                               {"filters", to_u32(y[2])},
                                                               {"words", to_u32(words)},
                                                               {"tiles", to_u32(tiles)}};
  if (window) {
    params.insert(params.end(), {{"in1", to_u32(p.axes[1].in)},
                                 {"in2", to_u32(p.axes[2].in)},
                                 {"out1", to_u32(p.axes[1].out)},
                                 {"out2", to_u32(p.axes[2].out)},
                                 {"taps", to_u32(taps(p))},
                                 {"channel_stride", stride(2)},
                                 {"row_stride", stride(4)},
                                 {"column_stride", stride(5)}});
  } else {
    params.emplace_back("w_filter", to_u32(w.view.strides[1]));
  }
  std::string members;
  for (const auto& [name, value] : params) {
    members += formatted("  {}: u32,\n", name);
    parts.params.push_back(value);
  }
  for (const std::string& m : epilogue.members) members += "  " + m + ",\n";
  parts.params.insert(parts.params.end(), epilogue.words.begin(), epilogue.words.end());
  std::string main(kMain);
  put_in(main, "BYTES_OF_X", factor(p.x.dtype, "v", "vec4<u32>", "vec4<i32>"));
  put_in(main, "BYTE_OF_W", factor(p.w.dtype, "v", "u32", "i32"));
  if (!p.x_zero.present()) {
    const size_t begin = main.find("    if (ZERO_OF_X)");
    main.erase(begin, main.find("    if (pixel <") - begin);
  }
  parts.kernel.source =
      formatted("const FILTERS: u32 = {}u;\nconst LANES: u32 = {}u;\nconst STEP: u32 = {}u;\n", filters,
                kLanes, round_up(ceil_div(words, steps), 2)) +
      formatted("const BY_PIXEL: bool = {};\nconst ZERO_OF_X: bool = {};\n", epilogue.by_pixel,
                p.x_zero.present()) +
      struct_text("Params", members) + epilogue.text + (window ? window_text(p) : std::string(kOneTap)) +
      main;
  Dispatch d = parts.dispatch(l, tiles * ceil_div(y[0] * image, kLanes * kPixels));
  if (!fits(d, l.target().caps)) return false;
  l.emit(std::move(d));
  return true;
}

// The weights of 32 filters, or fewer, are read once for four pixels of each lane.
std::vector<Candidate> candidates(const Target&, const ByteProblem& problem) {
  const ConvProblem& p = problem.conv;
  const double sums = static_cast<double>(p.y.view.elements() * taps(p));
  const auto wanted = static_cast<double>(p.y.view.dims[2]);
  std::vector<Candidate> out;
  for (const int64_t filters : {int64_t{32}, int64_t{24}, int64_t{16}}) {
    const double share = static_cast<double>(round_up(p.y.view.dims[2], filters)) / wanted;
    out.push_back(
        {sums / 32 * share * (1 + 8 / static_cast<double>(filters)), {{"FILTERS", to_u32(filters)}}});
  }
  return out;
}

template <bool kOfWindows>
bool make(Lowering& l, const ByteProblem& problem, const Candidate& c) {
  return emit(l, problem.conv, c.at("FILTERS"), kOfWindows);
}

constexpr ByteKernel kRows[] = {{"pointwise", has_one_tap, candidates, make<false>},
                                {"window", has_small_windows, candidates, make<true>}};

}  // namespace

std::span<const ByteKernel> byte_pointwise_kernels() { return kRows; }

}  // namespace rlx
