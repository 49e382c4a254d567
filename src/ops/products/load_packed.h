// Loads codes of a few bits that lie side by side in words, with a scale and perhaps a zero point for each
// block of k: element = (code - zero point) * scale. Unlike encoded tensors, whose blocks hold all of it,
// codes, scales and zero points are operands of their own.
#pragma once

#include <bit>
#include <numeric>

#include "base/checked.h"
#include "ops/products/product.h"

namespace rlx::products {

class LoadPacked final : public Load {
 public:
  enum class Code : uint8_t { unsigned_int, signed_int, e4m3, e5m2, e2m1 };
  // What a scale is stored as: a number of the operand's type, or a byte.
  enum class Scale : uint8_t { number, e4m3, e8m0 };

  struct Weight {
    Operand words;  // u32, from code 0 on
    Code code = Code::unsigned_int;
    int64_t bits = 8;
    int64_t lines = 0, k = 0;
    int64_t line_step = 0, k_step = 0;  // from one line, or one k, to the next; in codes
    int64_t block = 0;                  // of k
    Operand scale, zero;                // [blocks, all lines]; may be absent
    Operand global;                     // one number by which all are multiplied; may be absent
    Scale stored = Scale::number;
    double zero_point = 0;  // if there is no operand for it
    // There may be several such weights, one after the other; the load's batch 0 is this one of them.
    int64_t batches = 1, first_batch = 0;
  };
  explicit LoadPacked(Weight w) : w_(std::move(w)) {}

  // For Product::run: all of a run is in one block.
  static int64_t run_of(int64_t k, int64_t block) { return block >= k ? 0 : std::gcd(k, block); }

  std::string_view name() const override { return "packed"; }
  std::string id() const override {
    return formatted("packed {} {} bits, scale {} {}, zero {} {}, global {}, batches {}",
                     static_cast<int>(w_.code), w_.bits, w_.scale.present(), static_cast<int>(w_.stored),
                     w_.zero.present(), w_.zero_point != 0, w_.global.present(), has_batches());
  }
  std::string wgsl() const override { return operands() + values() + std::string(kHooks); }

  bool offers(Access access) const override {
    if (access == Access::four_k) return w_.k_step == 1 && w_.line_step % 4 == 0;
    return access == Access::four_lines && w_.line_step == 1 && w_.k_step % 4 == 0;
  }
  bool along_k() const override { return w_.k_step == 1; }
  int64_t grain() const override { return std::max<int64_t>(run_of(w_.k, w_.block), 1); }

  Binding bind(Access access, const Lines& lines) const override {
    Binding b;
    const bool part = lines.is_part(w_.batches, w_.lines, w_.k);
    const Extent all = all_lines(lines);
    Operand words = w_.words;
    if (part) words.window = words_of(all, lines.k);
    b.operands = {words};
    b.words = {to_u32(w_.line_step), to_u32(w_.k_step), to_u32(std::max<int64_t>(w_.block, 1))};
    if (has_batches()) {
      b.words.push_back(to_u32(w_.lines));
      b.words.push_back(to_u32(w_.first_batch * w_.lines));
    }
    const Extent blocks{lines.k.begin / w_.block, ceil_div(lines.k.end, w_.block)};
    for (const Operand* const table : {&w_.scale, &w_.zero}) {
      if (!table->present()) continue;
      Operand bound = *table;
      if (part) bound.window = Grouped{bound, 0, 1}.reach({0, 1}, blocks, all);
      b.operands.push_back(std::move(bound));
      for (const int64_t axis : {1, 0})
        b.words.push_back(static_cast<uint32_t>(to_i32(table->view.strides[static_cast<size_t>(axis)])));
    }
    if (w_.global.present()) b.operands.push_back(w_.global);
    b.words.push_back(std::bit_cast<uint32_t>(static_cast<float>(w_.zero_point)));
    b.specs = {spec_value("x_FOUR_K", access == Access::four_k && offers(access)),
               spec_value("x_FOUR_LINES", access == Access::four_lines && offers(access))};
    return b;
  }
  // Only for estimates: encodings with about as many bits.
  DType dtype() const override {
    return w_.bits == 8 ? DType::q8_0 : w_.bits == 4 ? DType::q4_0 : DType::q2_k;
  }

 private:
  bool has_batches() const { return w_.batches > 1; }

  // From the first to the last of the lines, counted through all batches.
  Extent all_lines(const Lines& of) const {
    if (!has_batches()) return of.lines;
    return {(w_.first_batch + of.batch.begin) * w_.lines + of.lines.begin,
            (w_.first_batch + of.batch.end - 1) * w_.lines + of.lines.end};
  }

  // The words that hold the codes of these lines.
  View::Range words_of(const Extent& lines, const Extent& k) const {
    const int64_t per_word = 32 / w_.bits;
    const int64_t first = lines.begin * w_.line_step + k.begin * w_.k_step;
    const int64_t last = (lines.end - 1) * w_.line_step + (k.end - 1) * w_.k_step;
    const int64_t begin = w_.words.view.offset;
    if (last < first) return {begin, begin};
    return {begin + first / per_word, begin + last / per_word + 1};
  }

  std::string operands() const {
    std::string text =
        "//@ in x any\n//@ param x_line_step: u32\n//@ param x_k_step: u32\n//@ param x_block: u32\n";
    text += has_batches() ? R"(//@ param x_lines: u32
//@ param x_first_line: u32
fn x_line_of(batch: u32, line: u32) -> u32 { return params.x_first_line + batch * params.x_lines + line; }
)"
                          : "fn x_line_of(batch: u32, line: u32) -> u32 { return line; }\n";
    const auto table = [&](std::string_view of, const Operand& operand, std::string_view otherwise,
                           std::string_view value) {
      if (!operand.present()) {
        text += formatted("fn x_{0}_of(line: u32, block: u32) -> f32 {{ return {1}; }}\n", of, otherwise);
        return;
      }
      text += formatted(R"(//@ in x_{0} any
//@ param x_{0}_line: u32
//@ param x_{0}_block: u32
fn x_{0}_of(line: u32, block: u32) -> f32 {{
  let v = x_{0}_get(x_{0}_base(0u) + line * params.x_{0}_line + block * params.x_{0}_block);
  return {1};
}}
)",
                        of, value);
    };
    constexpr std::string_view kScales[] = {"f32(v)", "e4m3_value(u32(v))", "e8m0_value(u32(v))"};
    table("scale", w_.scale, "1.0", kScales[static_cast<size_t>(w_.stored)]);
    table("zero", w_.zero, w_.zero_point == 0 ? "0.0" : "params.x_zero_point", "f32(v)");
    text += w_.zero.present() || w_.zero_point != 0
                ? "fn x_less(v: vec4f, zero: vec4f) -> vec4f { return v - zero; }\n"
                : "fn x_less(v: vec4f, zero: vec4f) -> vec4f { return v; }\n";
    text += w_.global.present() ? "//@ in x_global any\nfn x_all() -> f32 { return f32(x_global_at(0u)); }\n"
                                : "fn x_all() -> f32 { return 1.0; }\n";
    return text + "//@ param x_zero_point: f32\n";
  }

  // x_values(w): the four codes in the low bits of a word, as numbers.
  std::string values() const {
    std::string text = formatted("const x_BITS: u32 = {}u;\n", w_.bits);
    const int64_t b = w_.bits;
    switch (w_.code) {
      case Code::unsigned_int:
        text += b == 8 ? "  return vec4f(vec4i(unpack4xU8(w)));\n"
                       : formatted(
                             "  return vec4f(vec4i((vec4u(w) >> vec4u(0u, {}u, {}u, {}u)) & vec4u({}u)));\n",
                             b, 2 * b, 3 * b, (1 << b) - 1);
        break;
      case Code::signed_int:
        text += b == 8 ? "  return vec4f(unpack4xI8(w));\n"
                       : formatted(
                             "  return vec4f(bitcast<vec4i>(vec4u(w) << vec4u({}u, {}u, {}u, {}u)) >> "
                             "vec4u({}u));\n",
                             32 - b, 32 - 2 * b, 32 - 3 * b, 32 - 4 * b, 32 - b);
        break;
      case Code::e4m3:
      case Code::e5m2:
      case Code::e2m1: {
        const std::string_view decode = w_.code == Code::e4m3   ? "e4m3_value"
                                        : w_.code == Code::e5m2 ? "e5m2_value"
                                                                : "e2m1_value";
        text += formatted("  return vec4f({0}(w), {0}(w >> {1}u), {0}(w >> {2}u), {0}(w >> {3}u));\n", decode,
                          b, 2 * b, 3 * b);
      }
    }
    return text.insert(text.find('\n') + 1, "fn x_values(w: u32) -> vec4f {\n") + "}\n";
  }

  static constexpr std::string_view kHooks = R"(const x_FOUR_K: bool = false;  //@ spec
const x_FOUR_LINES: bool = false;  //@ spec

// The word with code i, which then has the lowest bits.
fn x_word_of(i: u32) -> u32 {
  return x_get(x_base(0u) + i / (32u / x_BITS)) >> (i % (32u / x_BITS) * x_BITS);
}

// The same where i is a multiple of four.
fn x_four_of(i: u32) -> u32 {
  if (x_BITS == 8u) { return x_get(x_base(0u) + i / 4u); }
  return x_word_of(i);
}

struct x_Line { line: u32, }
fn x_line(batch: u32, line: u32) -> x_Line { return x_Line(x_line_of(batch, line)); }

struct x_Run { at: u32, scale: f32, zero: f32, }
fn x_run(l: x_Line, run: u32) -> x_Run {
  let k = run * params.run;
  let block = k / params.x_block;
  return x_Run(l.line * params.x_line_step + k * params.x_k_step, x_scale_of(l.line, block) * x_all(),
               x_zero_of(l.line, block));
}

fn x_one(r: x_Run, k: u32) -> mul_t {
  return mul_t(x_less(x_values(x_word_of(r.at + k * params.x_k_step)), vec4f(r.zero)).x * r.scale);
}
fn x_four_k(r: x_Run, k: u32) -> vec4<mul_t> {
  if (x_FOUR_K) { return vec4<mul_t>(x_less(x_values(x_four_of(r.at + k)), vec4f(r.zero)) * r.scale); }
  return vec4<mul_t>(x_one(r, k), x_one(r, k + 1u), x_one(r, k + 2u), x_one(r, k + 3u));
}
fn x_four_lines(q: x_Quad, k: u32) -> vec4<mul_t> {
  if (x_FOUR_LINES) {
    let v = x_values(x_four_of(q.r0.at + k * params.x_k_step));
    let scale = vec4f(q.r0.scale, q.r1.scale, q.r2.scale, q.r3.scale);
    return vec4<mul_t>(x_less(v, vec4f(q.r0.zero, q.r1.zero, q.r2.zero, q.r3.zero)) * scale);
  }
  return vec4<mul_t>(x_one(q.r0, k), x_one(q.r1, k), x_one(q.r2, k), x_one(q.r3, k));
}
)";

  Weight w_;
};

}  // namespace rlx::products
