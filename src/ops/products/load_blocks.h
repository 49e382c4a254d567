// Loads from encoded tensors (docs/encodings.md): a run is a group of elements that share a scale, which is
// decoded once for the group.
#pragma once

#include "base/checked.h"
#include "encodings/encoding.h"
#include "ops/products/load_strided.h"
#include "ops/products/product.h"

namespace rlx::products {

class LoadBlocks final : public Load {
 public:
  explicit LoadBlocks(Grouped x) : x_(std::move(x)) {
    x_.operand.outer_rank = x_.first_axes + x_.second_axes;
  }

  // Whether each line begins with a group and has its groups one after the other.
  static bool reads(const Grouped& x) {
    const View k = x.group(2).coalesced();
    const int64_t group = encoding_of(x.operand.dtype).group_elements;
    const auto whole = [&](int64_t n) { return n % group == 0; };
    return k.rank() == 1 && k.strides[0] == 1 && whole(k.dims[0]) && whole(x.operand.view.offset) &&
           std::ranges::all_of(x.group(0).strides, whole) && std::ranges::all_of(x.group(1).strides, whole);
  }

  // Whether eight lanes can share 256 elements of a line (docs/encodings.md).
  bool has_eighths() const {
    constexpr int64_t kShared = 256;
    const auto whole = [](int64_t n) { return n % kShared == 0; };
    return encoding_has_eighths() && whole(x_.group(2).elements()) && whole(x_.operand.view.offset) &&
           std::ranges::all_of(x_.group(0).strides, whole) && std::ranges::all_of(x_.group(1).strides, whole);
  }

  std::string_view name() const override { return "blocks"; }
  std::string id() const override { return encoding_has_eighths() ? "blocks in eighths" : "blocks"; }
  std::string wgsl() const override {
    std::string text = kText;
    if (encoding_has_eighths()) text += kEighths;
    return text;
  }

  bool offers(Access access) const override { return access == Access::four_k; }
  bool along_k() const override { return true; }
  // Also the length of a run.
  int64_t grain() const override { return encoding_of(x_.operand.dtype).group_elements; }

  Binding bind(Access, const Lines& lines) const override {
    Binding b;
    Operand x = x_.operand;
    if (lines.is_part(x_.group(0).elements(), x_.group(1).elements(), x_.group(2).elements()))
      x.window = x_.reach(lines.batch, lines.lines, lines.k);
    b.operands = {x};
    b.words = {to_u32(x_.group(1).elements())};
    return b;
  }
  DType dtype() const override { return x_.operand.dtype; }

 private:
  static constexpr const char* kText = R"(//@ in x encoded
//@ param x_lines: u32

struct x_Line { at: u32, }
fn x_line(batch: u32, line: u32) -> x_Line { return x_Line(x_base(batch * params.x_lines + line)); }

alias x_Run = x_Group;
fn x_run(l: x_Line, run: u32) -> x_Run { return x_group(l.at + run * x_GROUP); }

fn x_one(r: x_Run, k: u32) -> mul_t { return mul_t(x_group_four(r, k / 4u)[k % 4u]); }
fn x_four_k(r: x_Run, k: u32) -> vec4<mul_t> { return vec4<mul_t>(x_group_four(r, k / 4u)); }
)";
  static constexpr const char* kEighths = R"(
fn x_eighth_of(l: x_Line, k: u32, lane: u32) -> array<vec4<sum_t>, 8> { return x_get_eighth(l.at + k, lane); }
fn x_factors_of(l: x_Line, k: u32, lane: u32) -> vec4<sum_t> { return x_get_factors(l.at + k, lane); }
)";

  bool encoding_has_eighths() const { return encoding_of(x_.operand.dtype).wgsl.contains("fn x_eighth("); }

  Grouped x_;
};

// From a matrix, encoded or not.
inline LoadPtr load_matrix(const Grouped& x) {
  if (is_encoded(x.operand.dtype)) return std::make_shared<LoadBlocks>(x);
  return std::make_shared<LoadStrided>(x);
}

}  // namespace rlx::products
