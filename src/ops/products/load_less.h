// What another load reads less one number, a zero point. What lies outside of x is zero all the same.
#pragma once

#include "kernels/rename.h"
#include "ops/products/product.h"

namespace rlx::products {

class LoadLess final : public Load {
 public:
  // `number` has one element.
  LoadLess(LoadPtr inner, Operand number) : inner_(std::move(inner)), number_(std::move(number)) {}

  std::string_view name() const override { return "less"; }
  std::string id() const override { return formatted("less of {}", inner_->id()); }
  std::string wgsl() const override {
    const std::string inner = inner_->wgsl();
    std::string text = renamed(inner, {{"x_line", "x_whole_line"},
                                       {"x_quad_line", "x_whole_quad_line"},
                                       {"x_one", "x_whole_one"},
                                       {"x_four_k", "x_whole_four_k"},
                                       {"x_four_lines", "x_whole_four_lines"}});
    text += R"(//@ in x_number any
var<private> x_less: mul_t;  // read with each line, since a uniform load for each element takes longer than the rest
fn x_line(batch: u32, line: u32) -> x_Line {
  x_less = mul_t(x_number_at(0u));
  return x_whole_line(batch, line);
}
)";
    if (inner.contains("fn x_quad_line(")) {
      text += R"(fn x_quad_line(batch: u32, line: u32) -> x_QuadLine {
  x_less = mul_t(x_number_at(0u));
  return x_whole_quad_line(batch, line);
}
)";
    }
    text += inner.contains("inside: bool") ? kInside : kEverywhere;
    return text;
  }

  bool offers(Access access) const override { return inner_->offers(access); }
  bool along_k() const override { return inner_->along_k(); }
  int64_t grain() const override { return inner_->grain(); }
  Binding bind(Access access, const Lines& lines) const override {
    Binding b = inner_->bind(access, lines);
    b.operands.push_back(number_);
    return b;
  }
  DType dtype() const override { return inner_->dtype(); }

 private:
  static constexpr std::string_view kEverywhere = R"(fn x_one(r: x_Run, k: u32) -> mul_t {
  return x_whole_one(r, k) - x_less;
}
fn x_four_k(r: x_Run, k: u32) -> vec4<mul_t> { return x_whole_four_k(r, k) - vec4<mul_t>(x_less); }
fn x_four_lines(q: x_Quad, k: u32) -> vec4<mul_t> { return x_whole_four_lines(q, k) - vec4<mul_t>(x_less); }
)";
  static constexpr std::string_view kInside = R"(fn x_one(r: x_Run, k: u32) -> mul_t {
  return x_whole_one(r, k) - select(mul_t(), x_less, r.inside);
}
fn x_four_k(r: x_Run, k: u32) -> vec4<mul_t> {
  return x_whole_four_k(r, k) - vec4<mul_t>(select(mul_t(), x_less, r.inside));
}
fn x_four_lines(q: x_Quad, k: u32) -> vec4<mul_t> {
  return x_whole_four_lines(q, k) - select(vec4<mul_t>(), vec4<mul_t>(x_less),
                                           vec4<bool>(q.r0.inside, q.r1.inside, q.r2.inside, q.r3.inside));
}
)";

  LoadPtr inner_;
  Operand number_;
};

// The load itself if there is no number.
inline LoadPtr less(LoadPtr load, const Operand& number) {
  if (!number.present()) return load;
  return std::make_shared<LoadLess>(std::move(load), number);
}

}  // namespace rlx::products
