#include "ops/quantization/byte_depthwise.h"

#include <algorithm>

#include "base/checked.h"
#include "base/format.h"
#include "kernels/binder.h"

namespace rlx {
namespace {

using products::WindowAxis;

// More taps would be long to compile, and are better staged.
constexpr int64_t kMostTaps = 49;

bool applies(const ConvProblem& p) {
  const Dims& y = p.y.view.dims;
  const WindowAxis& outer = p.axes[0];
  return y[2] == 1 && p.x.view.dims[2] == 1 && outer.kernel == 1 && outer.in == 1 && outer.out == 1 &&
         p.axes[1].kernel * p.axes[2].kernel <= kMostTaps && p.y.view.is_contiguous() &&
         p.y.view.offset % 4 == 0 && p.y.view.elements() % 4 == 0 && p.y.dtype != DType::c64;
}

// Whether the four bytes of a word are neighbours in a row of x, and four results in a row of y.
bool by_words(const ConvProblem& p) {
  const View& x = p.x.view;
  const auto whole = [](int64_t n) { return n % 4 == 0; };
  return p.axes[2].dilation == 1 && x.strides.back() == 1 && whole(p.axes[2].in) && whole(p.axes[2].out) &&
         whole(x.offset) && std::all_of(x.strides.begin(), x.strides.end() - 1, whole);
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

struct Parts {
  Kernel kernel;
  OperandList operands;
  std::vector<uint32_t> params;
};

void add_operand(Parts& parts, const std::string& name, const Operand& o, bool out = false, bool x4 = false) {
  parts.kernel.operands.push_back({.name = name, .kind = OperandDecl::Kind::any, .out = out, .x4 = x4});
  parts.operands.push_back(o);
}

std::string constants_of(const ConvProblem& p) {
  // Whether four results are always of one channel.
  std::string text = formatted("const SAME_PLANE: bool = {};\n", p.axes[1].out * p.axes[2].out % 4 == 0);
  for (const size_t i : {size_t{1}, size_t{2}}) {
    const WindowAxis& a = p.axes[i];
    text += formatted(
        "const KERNEL{0}: u32 = {1}u;\nconst STRIDE{0}: u32 = {2}u;\nconst DILATION{0}: u32 = {3}u;\n"
        "const PAD{0}: u32 = {4}u;\n",
        i, a.kernel, a.stride, a.dilation, a.pad);
  }
  return text;
}

Parts parts_of(const ConvProblem& p) {
  Parts parts;
  const bool words = by_words(p);
  parts.kernel.name = "byte_depthwise";
  Operand x = p.x;
  x.outer_rank = 2;
  add_operand(parts, "x", x, false, words);
  Operand w = p.w;
  w.outer_rank = 2;
  add_operand(parts, "w", w);
  if (p.x_zero.present()) add_operand(parts, "x_zero", p.x_zero);
  if (p.w_zero.present()) add_operand(parts, "w_zero", p.w_zero);
  std::vector<std::string> values = {"product"};
  for (size_t i = 0; i < p.extra.size(); ++i) {
    Operand extra = p.extra[i];
    extra.outer_rank = 2;
    add_operand(parts, formatted("e{}", i), extra);
    values.push_back(formatted("e{0}_get(e{0}_base(plane) + e{0}_step(i))", i));
  }
  add_operand(parts, "y", p.y, true, true);
  const ExprCode code = p.expr.steps.empty() ? ExprCode{.result = "product"} : generate(p.expr, values);
  std::string members;
  for (const std::string_view name :
       {"first", "end", "in1", "in2", "out1", "out2", "channels", "row_stride", "column_stride"})
    members += formatted("  {}: u32,\n", name);
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
                  stride(5)};
  parts.params.insert(parts.params.end(), code.words.begin(), code.words.end());
  parts.kernel.libs = {"each"};
  parts.kernel.source =
      constants_of(p) + formatted("struct Params {{\n{}}}\n", members) +
      formatted("fn zero_of_x() -> i32 {{ return {}; }}\n", p.x_zero.present() ? "i32(x_zero_at(0u))" : "0") +
      formatted(
          "fn weight(filter_at: u32, k: u32) -> i32 {{ return i32(w_get(filter_at + w_step(k))){}; }}\n",
          p.w_zero.present() ? " - i32(w_zero_at(0u))" : "") +
      formatted("fn epilogue(product: i32, plane: u32, i: u32) -> y_t {{\n{}  return y_t({});\n}}\n",
                code.statements, code.result) +
      std::string(words ? kByWords : kOneByOne);
  return parts;
}

}  // namespace

bool lower_byte_depthwise(Lowering& l, const ConvProblem& p) {
  if (!applies(p)) return false;
  Parts parts = parts_of(p);
  return l.each(
      l.make(make_kernel(parts.kernel), std::move(parts.operands), std::as_bytes(std::span(parts.params)), 0),
      p.y.view.elements() / 4);
}

}  // namespace rlx
