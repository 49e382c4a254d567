// Convolutions of bytes in which each channel has one filter.

#include <algorithm>
#include <bit>

#include "base/checked.h"
#include "base/format.h"
#include "kernels/binder.h"
#include "kernels/rates.h"
#include "ops/quantization/byte_kernels.h"

namespace rlx {
namespace {

using products::WindowAxis;

// More taps would be long to compile, and are better staged.
constexpr int64_t kMostTaps = 49;
// Numbers below this are divided by multiplying n + 1/2 by a reciprocal: both roundings change the product by
// less than 1/4 of the reciprocal, and it is at least 1/2 of it away from whole numbers.
constexpr int64_t kSmall = 1 << 21;

bool whole(int64_t n) { return n % 4 == 0; }

bool is_depthwise(const ConvProblem& p) {
  const WindowAxis& outer = p.axes[0];
  return p.y.view.dims[2] == 1 && p.x.view.dims[2] == 1 && outer.kernel == 1 && outer.in == 1 &&
         outer.out == 1 && p.axes[1].kernel * p.axes[2].kernel <= kMostTaps && p.y.dtype != DType::c64 &&
         whole(p.y.view.offset) && whole(p.y.view.elements());
}

bool has_planes(const Target&, const ByteProblem& problem) {
  const ConvProblem& p = problem.conv;
  return is_depthwise(p) && p.y.view.is_contiguous();
}

// Whether the four bytes of a word are neighbours in a row of x, and four results in a row of y.
bool has_rows_of_words(const Target& target, const ByteProblem& problem) {
  const ConvProblem& p = problem.conv;
  const View& x = p.x.view;
  return has_planes(target, problem) && p.axes[2].dilation == 1 && x.strides.back() == 1 &&
         whole(p.axes[2].in) && whole(p.axes[2].out) && whole(x.offset) &&
         std::all_of(x.strides.begin(), x.strides.end() - 1, whole);
}

// Whether the four bytes of a word are neighbouring channels of a pixel, on a CPU.
bool has_pixels(const Target& target, const ByteProblem& problem) {
  const ConvProblem& p = problem.conv;
  const View& x = p.x.view;
  const Dims& s = x.strides;
  return target.caps.software() && is_depthwise(p) && with_channels_last(p.y.view).is_contiguous() &&
         whole(x.dims[1]) && s[1] == 1 && whole(x.offset) && whole(s[0]) && whole(s[4]) && whole(s[5]);
}

// Rows of words: what four results need of one is read once.
constexpr std::string_view kByWords = R"(
const BEFORE: u32 = (PAD2 + 3u) / 4u * 4u;  // elements read before the first result's own, in words
const WORDS: u32 = (BEFORE + 3u * STRIDE2 + KERNEL2 - PAD2 + 3u) / 4u;
fn task(q: u32) {
  let i = 4u * q;
  let row = i / params.out2;
  let plane = row / params.out1;
  let filter_at = w_base(plane % params.channels);
  let first1 = (row - plane * params.out1) * STRIDE1 - PAD1;
  let first2 = (i - row * params.out2) * STRIDE2 - BEFORE;
  let base = x_base(plane);
  let less = vec4<i32>(zero_of_x());
  var sum = vec4<i32>();
  for (var a = 0u; a < KERNEL1; a++) {
    let i1 = first1 + a * DILATION1;
    var row_of_x: array<i32, 4u * WORDS>;
    for (var word = 0u; word < WORDS; word++) {
      let i2 = first2 + 4u * word;
      let inside = i1 < params.in1 && i2 < params.in2;
      let v = vec4<i32>(x_get4(base + select(0u, i1 * params.row_stride + i2, inside))) - less;
      for (var e = 0u; e < 4u; e++) { row_of_x[4u * word + e] = select(0, v[e], inside); }
    }
    for (var b = 0u; b < KERNEL2; b++) {
      let at = BEFORE - PAD2 + b;
      sum += weight(filter_at, a * KERNEL2 + b) *
             vec4<i32>(row_of_x[at], row_of_x[at + STRIDE2], row_of_x[at + 2u * STRIDE2], row_of_x[at + 3u * STRIDE2]);
    }
  }
  let j = i - plane * params.out1 * params.out2;
  y_put4(i, vec4<y_t>(epilogue(sum.x, plane, j), epilogue(sum.y, plane, j + 1u), epilogue(sum.z, plane, j + 2u),
                      epilogue(sum.w, plane, j + 3u)));
}
)";

constexpr std::string_view kOneByOne = R"(
fn result(plane: u32, filter_at: u32, base: u32, row: u32, column: u32) -> y_t {
  let less = zero_of_x();
  var sum = 0;
  for (var a = 0u; a < KERNEL1; a++) {
    let i1 = row * STRIDE1 - PAD1 + a * DILATION1;
    for (var b = 0u; b < KERNEL2; b++) {
      let i2 = column * STRIDE2 - PAD2 + b * DILATION2;
      let inside = i1 < params.in1 && i2 < params.in2;
      let v = i32(x_get(base + select(0u, i1 * params.row_stride + i2 * params.column_stride, inside))) - less;
      sum += weight(filter_at, a * KERNEL2 + b) * select(0, v, inside);
    }
  }
  return epilogue(sum, plane, row * params.out2 + column);
}
fn task(q: u32) {
  let size = params.out1 * params.out2;
  var plane = 4u * q / size;
  var row = (4u * q - plane * size) / params.out2;
  var column = 4u * q - plane * size - row * params.out2;
  var filter_at = w_base(plane % params.channels);
  var base = x_base(plane);
  var results: vec4<y_t>;
  for (var e = 0u; e < 4u; e++) {
    results[e] = result(plane, filter_at, base, row, column);
    column++;
    row += select(0u, 1u, column == params.out2);
    column = select(column, 0u, column == params.out2);
    if (!SAME_PLANE && e < 3u) {
      plane += select(0u, 1u, row == params.out1);
      row = select(row, 0u, row == params.out1);
      filter_at = w_base(plane % params.channels);
      base = x_base(plane);
    }
  }
  y_put4(4u * q, results);
}
)";

// Channels last: an invocation has four channels of neighbouring results in a row, so that a word of x is
// read once for all windows that it is in.
constexpr std::string_view kByPixels = R"(
fn quotient(n: u32, by: u32, reciprocal: f32) -> u32 {
  if (SMALL) { return u32(i32((f32(i32(n)) + 0.5) * reciprocal)); }
  return n / by;
}
const READ: u32 = (AT_ONCE - 1u) * STRIDE2 + (KERNEL2 - 1u) * DILATION2 + 1u;
fn task(q: u32) {
  let block = quotient(q, params.quads, params.of_quads);
  let channel = 4u * (q - block * params.quads);
  let row = quotient(block, params.blocks, params.of_blocks);
  let batch = quotient(row, params.out1, params.of_out1);
  let column = (block - row * params.blocks) * AT_ONCE;
  let first1 = (row - batch * params.out1) * STRIDE1 - PAD1;
  let first2 = column * STRIDE2 - PAD2;
  let base = x_base(batch) + channel;
  let less = vec4<i32>(zero_of_x());
  var sum: array<vec4<i32>, AT_ONCE>;
  for (var a = 0u; a < KERNEL1; a++) {
    let i1 = first1 + a * DILATION1;
    var row_of_x: array<vec4<i32>, READ>;
    for (var e = 0u; e < READ; e++) {
      let i2 = first2 + e;
      let inside = i1 < params.in1 && i2 < params.in2;
      let at = select(0u, i1 * params.row_stride + i2 * params.column_stride, inside);
      row_of_x[e] = select(vec4<i32>(), vec4<i32>(x_get4(base + at)) - less, inside);
    }
    for (var b = 0u; b < KERNEL2; b++) {
      let w = weights(channel, a * KERNEL2 + b);
      for (var e = 0u; e < AT_ONCE; e++) { sum[e] += w * row_of_x[e * STRIDE2 + b * DILATION2]; }
    }
  }
  let plane = batch * params.channels + channel;
  let extra = extras(plane);
  for (var e = 0u; e < AT_ONCE; e++) {
    if (column + e < params.out2) {
      let i = (row - batch * params.out1) * params.out2 + column + e;
      y_put4((row * params.out2 + column + e) * params.channels + channel,
             vec4<y_t>(epilogue(sum[e].x, extra[0], plane, i), epilogue(sum[e].y, extra[1], plane + 1u, i),
                       epilogue(sum[e].z, extra[2], plane + 2u, i), epilogue(sum[e].w, extra[3], plane + 3u, i)));
    }
  }
}
)";

// Results along a row of an invocation of the kernel for pixels.
int64_t at_once(const ConvProblem& p) {
  const int64_t width = p.axes[2].out;
  return width > 4 ? 8 : width > 1 ? 4 : 1;
}

int64_t pieces_of_pixels(const ConvProblem& p) {
  const Dims& y = p.y.view.dims;
  return y[0] * y[1] / 4 * y[4] * ceil_div(y[5], at_once(p));
}

std::string constants_of(const ConvProblem& p) {
  // Whether four results are always of one channel.
  std::string text = formatted("const AT_ONCE: u32 = {}u;\nconst SMALL: bool = {};\n", at_once(p),
                               pieces_of_pixels(p) < kSmall);
  text += formatted("const SAME_PLANE: bool = {};\n", p.axes[1].out * p.axes[2].out % 4 == 0);
  for (const size_t i : {size_t{1}, size_t{2}}) {
    const WindowAxis& a = p.axes[i];
    text += formatted(
        "const KERNEL{0}: u32 = {1}u;\nconst STRIDE{0}: u32 = {2}u;\nconst DILATION{0}: u32 = {3}u;\n"
        "const PAD{0}: u32 = {4}u;\n",
        i, a.kernel, a.stride, a.dilation, a.pad);
  }
  return text;
}

enum class Form { words, single, pixels };

// Numbers of a channel are read once for its four results.
std::string epilogue_text(const ConvProblem& p, Form form, const ExprCode& code) {
  std::string members;
  std::string fetched;
  for (size_t i = 0; i < p.extra.size(); ++i) {
    if (form != Form::pixels || !is_per_channel(p.extra[i].view)) continue;
    members += formatted("  e{0}: e{0}_t,\n", i);
    if (!fetched.empty()) fetched += ", ";
    fetched += formatted("e{0}_get(e{0}_base(plane))", i);
  }
  const std::string body = formatted("{{\n{}  return y_t({});\n}}\n", code.statements, code.result);
  if (form != Form::pixels) return formatted("fn epilogue(product: i32, plane: u32, i: u32) -> y_t {}", body);
  if (members.empty()) members = "  none: u32,\n";
  if (fetched.empty()) fetched = "0u";
  return formatted(
      "struct Extra {{\n{}}}\n"
      "fn extra_of(plane: u32) -> Extra {{ return Extra({}); }}\n"
      "fn extras(plane: u32) -> array<Extra, 4> {{\n"
      "  return array<Extra, 4>(extra_of(plane), extra_of(plane + 1u), extra_of(plane + 2u), extra_of(plane "
      "+ 3u));\n"
      "}}\n"
      "fn epilogue(product: i32, extra: Extra, plane: u32, i: u32) -> y_t {}",
      members, fetched, body);
}

std::string weight_text(const ConvProblem& p, bool fours) {
  const std::string_view less = p.w_zero.present() ? " - i32(w_zero_at(0u))" : "";
  std::string text = formatted(
      "fn weight(filter_at: u32, k: u32) -> i32 {{ return i32(w_get(filter_at + w_step(k))){}; }}\n", less);
  if (fours)
    return text + formatted(
                      "fn weights(channel: u32, k: u32) -> vec4<i32> {{\n"
                      "  return vec4<i32>(w_get4(w_base(channel) + w_step(k))){};\n}}\n",
                      p.w_zero.present() ? " - vec4<i32>(i32(w_zero_at(0u)))" : "");
  return text +
         "fn weights(channel: u32, k: u32) -> vec4<i32> {\n"
         "  return vec4<i32>(weight(w_base(channel), k), weight(w_base(channel + 1u), k),\n"
         "                   weight(w_base(channel + 2u), k), weight(w_base(channel + 3u), k));\n}\n";
}

// Whether the weights of four channels for a tap are a word.
bool has_words_of_weights(const View& w) {
  const Dims& s = w.strides;
  return s[0] == 1 && whole(w.dims[0]) && whole(w.offset) && whole(s[4]) && whole(s[5]);
}

ByteParts parts_of(const ConvProblem& p, Form form) {
  ByteParts parts;
  parts.kernel.name = "byte_depthwise";
  Operand x = p.x;
  x.outer_rank = form == Form::pixels ? 1 : 2;
  parts.add("x", x, false, form != Form::single);
  Operand w = p.w;
  const bool fours = form == Form::pixels && has_words_of_weights(w.view);
  w.outer_rank = 2;
  parts.add("w", w, false, fours);
  if (p.x_zero.present()) parts.add("x_zero", p.x_zero);
  if (p.w_zero.present()) parts.add("w_zero", p.w_zero);
  std::vector<std::string> values = {"product"};
  for (size_t i = 0; i < p.extra.size(); ++i) {
    Operand extra = p.extra[i];
    extra.outer_rank = 2;
    parts.add(formatted("e{}", i), extra);
    values.push_back(form == Form::pixels && is_per_channel(extra.view)
                         ? formatted("extra.e{}", i)
                         : formatted("e{0}_get(e{0}_base(plane) + e{0}_step(i))", i));
  }
  parts.add("y", p.y, true, true);
  const ExprCode code = p.expr.steps.empty() ? ExprCode{.result = "product"} : generate(p.expr, values);
  std::string members;
  for (const std::string_view name : {"first", "end", "in1", "in2", "out1", "out2", "channels", "row_stride",
                                      "column_stride", "quads", "blocks"})
    members += formatted("  {}: u32,\n", name);
  for (const std::string_view name : {"of_quads", "of_blocks", "of_out1"})
    members += formatted("  {}: f32,\n", name);
  for (const std::string& m : code.params) members += "  " + m + ",\n";
  const auto stride = [&](size_t axis) { return static_cast<uint32_t>(to_i32(x.view.strides[axis])); };
  parts.params = {0,
                  0,
                  to_u32(p.axes[1].in),
                  to_u32(p.axes[2].in),
                  to_u32(p.axes[1].out),
                  to_u32(p.axes[2].out),
                  to_u32(x.view.dims[1]),
                  stride(4),
                  stride(5),
                  to_u32(x.view.dims[1] / 4),
                  to_u32(ceil_div(p.axes[2].out, at_once(p)))};
  for (const size_t place : {size_t{9}, size_t{10}, size_t{4}})
    parts.params.push_back(std::bit_cast<uint32_t>(1 / static_cast<float>(parts.params[place])));
  parts.params.insert(parts.params.end(), code.words.begin(), code.words.end());
  parts.kernel.libs = {"each"};
  parts.kernel.source =
      constants_of(p) + formatted("struct Params {{\n{}}}\n", members) +
      formatted("fn zero_of_x() -> i32 {{ return {}; }}\n", p.x_zero.present() ? "i32(x_zero_at(0u))" : "0") +
      weight_text(p, fours) + epilogue_text(p, form, code) +
      std::string(form == Form::words    ? kByWords
                  : form == Form::single ? kOneByOne
                                         : kByPixels);
  return parts;
}

bool emit(Lowering& l, const ConvProblem& p, Form form, int64_t pieces) {
  return l.each(parts_of(p, form).dispatch(l, 0), pieces);
}

// What four results take.
template <int64_t kNs>
std::vector<Candidate> costs(const Target& target, const ByteProblem& p) {
  return one_candidate(static_cast<double>(kNs * p.conv.y.view.elements()) / 4 / rates_of(target.caps).speed);
}

constexpr ByteKernel kRows[] = {
    {"depthwise_words", has_rows_of_words, costs<18>,
     [](Lowering& l, const ByteProblem& p, const Candidate&) {
       return emit(l, p.conv, Form::words, p.conv.y.view.elements() / 4);
     }},
    {"depthwise", has_planes, costs<45>,
     [](Lowering& l, const ByteProblem& p, const Candidate&) {
       return emit(l, p.conv, Form::single, p.conv.y.view.elements() / 4);
     }},
    {"depthwise_pixels", has_pixels, costs<8>,
     [](Lowering& l, const ByteProblem& p, const Candidate&) {
       return emit(l, p.conv, Form::pixels, pieces_of_pixels(p.conv));
     }},
};

}  // namespace

std::span<const ByteKernel> byte_depthwise_kernels() { return kRows; }

}  // namespace rlx
