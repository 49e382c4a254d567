// Loads from a strided view: matrices, transposed or not, with any number of axes in each group.
#pragma once

#include <algorithm>

#include "base/checked.h"
#include "ops/products/product.h"

namespace rlx::products {

class LoadStrided final : public Load {
 public:
  explicit LoadStrided(Grouped x) : x_(std::move(x)) {
    x_.operand.outer_rank = x_.first_axes + x_.second_axes;
  }

  std::string_view name() const override { return "strided"; }
  std::string wgsl() const override {
    return R"(//@ in x any x4
//@ param x_lines: u32
//@ param x_k: u32
const x_FOUR_K: bool = false;  //@ spec
const x_FOUR_LINES: bool = false;  //@ spec

struct x_Line { at: u32, }
fn x_line(batch: u32, line: u32) -> x_Line { return x_Line(x_base(batch * params.x_lines + line)); }

struct x_Run { at: u32, }
fn x_run(l: x_Line, run: u32) -> x_Run { return x_Run(l.at + x_step(run * params.run)); }

fn x_ahead(r: x_Run, n: u32) -> x_Run { return x_Run(r.at + n * params.x_k); }

fn x_one(r: x_Run, k: u32) -> mul_t { return mul_t(x_get(r.at + k * params.x_k)); }
fn x_four_k(r: x_Run, k: u32) -> vec4<mul_t> {
  if (x_FOUR_K) { return vec4<mul_t>(x_get4(r.at + k)); }
  return vec4<mul_t>(x_one(r, k), x_one(r, k + 1u), x_one(r, k + 2u), x_one(r, k + 3u));
}
fn x_four_lines(q: x_Quad, k: u32) -> vec4<mul_t> {
  if (x_FOUR_LINES) { return vec4<mul_t>(x_get4(q.r0.at + k * params.x_k)); }
  return vec4<mul_t>(x_one(q.r0, k), x_one(q.r1, k), x_one(q.r2, k), x_one(q.r3, k));
}
)";
  }

  bool offers(Access access) const override { return access != Access::one && x_.quads(group_of(access)); }
  bool along_k() const override { return x_.last_stride(2) == 1 && x_.last_stride(1) != 1; }

  Binding bind(Access access, const Lines& lines) const override {
    Binding b;
    Operand x = x_.operand;
    x.x4 = offers(access);
    if (lines.is_part(x_.group(0).elements(), x_.group(1).elements(), x_.group(2).elements()))
      x.window = x_.reach(lines.batch, lines.lines, lines.k);
    b.operands = {x};
    b.words = {to_u32(x_.group(1).elements()), static_cast<uint32_t>(to_i32(x_.last_stride(2)))};
    b.specs = {spec_value("x_FOUR_K", x.x4 && access == Access::four_k),
               spec_value("x_FOUR_LINES", x.x4 && access == Access::four_lines)};
    return b;
  }
  DType dtype() const override { return x_.operand.dtype; }
  const Grouped* whole() const override { return &x_; }

  LoadPtr in_words() const override {
    const DType type = x_.operand.dtype;
    const auto whole = [](int64_t n) { return n % 4 == 0; };
    Grouped words = x_;
    View& v = words.operand.view;
    if ((type != DType::i8 && type != DType::u8) || x_.first_axes + x_.second_axes >= v.rank())
      return nullptr;
    if (v.strides.back() != 1 || !whole(v.dims.back()) || !whole(v.offset)) return nullptr;
    v.strides.back() = 4;
    if (!std::ranges::all_of(v.strides, whole)) return nullptr;
    for (int64_t& stride : v.strides) stride /= 4;
    v.dims.back() /= 4;
    v.offset /= 4;
    words.operand.dtype = DType::u32;
    return std::make_shared<LoadStrided>(words);
  }

 private:
  static int64_t group_of(Access access) { return access == Access::four_k ? 2 : 1; }

  Grouped x_;
};

}  // namespace rlx::products
