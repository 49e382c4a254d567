// Loads the windows of a convolution: a line is an output pixel, a run a tap of the kernel, and k within the
// run a channel. What lies in the padding is zero, or no part of the sum. No matrix of windows is ever
// written.
#pragma once

#include <algorithm>
#include <array>

#include "base/checked.h"
#include "ops/products/product.h"

namespace rlx::products {

// What lies outside of x: zeros, which are multiplied like any number, or nothing.
enum class Outside : uint8_t { zeros, nothing };

class LoadWindow : public Load {
 public:
  // x is a view [batch.., spatial (three axes), channels].
  LoadWindow(Operand x, const std::array<WindowAxis, 3>& axes, Outside outside = Outside::zeros)
      : x_(std::move(x)), axes_(axes), outside_(outside) {
    x_.outer_rank = x_.view.rank() - 4;
  }

  std::string_view name() const override { return "window"; }
  std::string id() const override { return outside_ == Outside::nothing ? "window of x alone" : "window"; }
  std::string wgsl() const override {
    std::string text = std::string(kLines) + std::string(kRuns) + std::string(kShared);
    if (outside_ == Outside::nothing) text += "fn x_misses(r: x_Run) -> bool { return !r.inside; }\n";
    return text;
  }

  bool offers(Access access) const override {
    if (access != Access::four_k) return false;
    return Grouped{x_, x_.view.rank() - 4, 3}.quads(2);
  }
  bool along_k() const override { return x_.view.strides.back() == 1 && x_.view.dims.back() > 1; }

  Binding bind(Access access, const Lines& lines) const override {
    Binding b;
    Operand x = x_;
    x.x4 = offers(access);
    const View box = image(lines.lines);
    if (lines.is_part(x_.view.slice_axes(0, x_.view.rank() - 4).elements(), lines_of(0), lines.k.length()))
      x.window = Grouped{{.view = box}, box.rank() - 4, 3}.reach(
          lines.batch, {0, box.slice_axes(box.rank() - 4, box.rank() - 1).elements()}, {0, box.dims.back()});
    b.operands = {x};
    const auto each = [&](auto&& value) {
      for (const WindowAxis& axis : axes_) b.words.push_back(to_u32(value(axis)));
    };
    b.words = {to_u32(axes_[1].out), to_u32(axes_[2].out), to_u32(axes_[1].kernel), to_u32(axes_[2].kernel)};
    each([](const WindowAxis& a) { return a.in; });
    each([](const WindowAxis& a) { return a.stride; });
    each([](const WindowAxis& a) { return a.dilation; });
    each([](const WindowAxis& a) { return a.pad; });
    for (auto stride = x_.view.strides.end() - 4; stride != x_.view.strides.end(); ++stride)
      b.words.push_back(static_cast<uint32_t>(to_i32(*stride)));
    // Where the padding is read instead, without use: an element that is bound.
    b.words.push_back(static_cast<uint32_t>(to_i32(box.offset - x_.view.offset)));
    // With few channels, most of the work is to find the taps.
    const bool constant = x_.view.dims.back() <= 2;
    b.specs = {spec_value("x_FOUR_K", x.x4), spec_value("x_KERNEL1", constant ? b.words[2] : 0u),
               spec_value("x_KERNEL2", constant ? b.words[3] : 0u)};
    return b;
  }
  DType dtype() const override { return x_.dtype; }
  const std::array<WindowAxis, 3>* windows() const override {
    return x_.view.dims.back() == 1 ? &axes_ : nullptr;
  }
  bool along_batch() const override {
    const View batches = Grouped{x_, x_.view.rank() - 4, 3}.group(0).coalesced();
    return batches.rank() > 0 && batches.strides.back() < x_.view.strides.end()[-2];
  }

 protected:
  // Where windows begin, for loads of their runs.
  static constexpr std::string_view kLines = R"(//@ in x any x4
//@ param x_out1: u32
//@ param x_out2: u32
//@ param x_kernel1: u32
//@ param x_kernel2: u32
//@ param x_in0: u32
//@ param x_in1: u32
//@ param x_in2: u32
//@ param x_window0: u32
//@ param x_window1: u32
//@ param x_window2: u32
//@ param x_dilation0: u32
//@ param x_dilation1: u32
//@ param x_dilation2: u32
//@ param x_pad0: u32
//@ param x_pad1: u32
//@ param x_pad2: u32
//@ param x_axis0: u32
//@ param x_axis1: u32
//@ param x_axis2: u32
//@ param x_channel: u32
//@ param x_inside: u32
const x_FOUR_K: bool = false;  //@ spec
const x_KERNEL1: u32 = 0u;  //@ spec     of the kernel, where it pays to have a module for each size
const x_KERNEL2: u32 = 0u;  //@ spec

// The first tap of the window; modulo 2^32, so that what lies before the image is a large number.
struct x_Line { at: u32, i0: u32, i1: u32, i2: u32, }
fn x_window(batch: u32, o0: u32, o1: u32, o2: u32) -> x_Line {
  return x_Line(x_base(batch), o0 * params.x_window0 - params.x_pad0, o1 * params.x_window1 - params.x_pad1,
                o2 * params.x_window2 - params.x_pad2);
}
fn x_line(batch: u32, line: u32) -> x_Line {
  let rest = line / params.x_out2;
  let o0 = rest / params.x_out1;
  return x_window(batch, o0, rest - o0 * params.x_out1, line - rest * params.x_out2);
}

// The next pixel; the last one is repeated.
fn x_next(l: x_Line, is_last: bool) -> x_Line {
  let along2 = l.i2 + params.x_window2;
  let ends2 = along2 + params.x_pad2 == params.x_out2 * params.x_window2;
  let along1 = l.i1 + select(0u, params.x_window1, ends2);
  let ends1 = along1 + params.x_pad1 == params.x_out1 * params.x_window1;
  let next = vec3u(l.i0 + select(0u, params.x_window0, ends1), select(along1, 0u - params.x_pad1, ends1),
                   select(along2, 0u - params.x_pad2, ends2));
  let i = select(next, vec3u(l.i0, l.i1, l.i2), is_last);
  return x_Line(l.at, i.x, i.y, i.z);
}
fn x_quad_line(batch: u32, line: u32) -> x_QuadLine {
  let l0 = x_line(batch, min(line, x_end() - 1u));
  let l1 = x_next(l0, line + 1u >= x_end());
  let l2 = x_next(l1, line + 2u >= x_end());
  return x_QuadLine(l0, l1, l2, x_next(l2, line + 3u >= x_end()));
}
)";

  Operand x_;
  std::array<WindowAxis, 3> axes_;
  Outside outside_;

 private:
  static constexpr std::string_view kRuns = R"(
struct x_Run { at: u32, inside: bool, }
fn x_run(l: x_Line, run: u32) -> x_Run {
  let kernel1 = select(x_KERNEL1, params.x_kernel1, x_KERNEL1 == 0u);
  let kernel2 = select(x_KERNEL2, params.x_kernel2, x_KERNEL2 == 0u);
  let rest = run / kernel2;
  let t0 = rest / kernel1;
  let i0 = l.i0 + t0 * params.x_dilation0;
  let i1 = l.i1 + (rest - t0 * kernel1) * params.x_dilation1;
  let i2 = l.i2 + (run - rest * kernel2) * params.x_dilation2;
  let inside = i0 < params.x_in0 && i1 < params.x_in1 && i2 < params.x_in2;
  let at = l.at + i0 * params.x_axis0 + i1 * params.x_axis1 + i2 * params.x_axis2;
  return x_Run(select(l.at + params.x_inside, at, inside), inside);
}

fn x_ahead(r: x_Run, n: u32) -> x_Run { return x_Run(r.at + n * params.x_channel, r.inside); }

// Selected, not branched over: a branch costs more than a load that is not used.
fn x_one(r: x_Run, k: u32) -> mul_t {
  return select(mul_t(), mul_t(x_get(r.at + k * params.x_channel)), r.inside);
}
fn x_four_k(r: x_Run, k: u32) -> vec4<mul_t> {
  if (x_FOUR_K) { return select(vec4<mul_t>(), vec4<mul_t>(x_get4(r.at + k)), r.inside); }
  return vec4<mul_t>(x_one(r, k), x_one(r, k + 1u), x_one(r, k + 2u), x_one(r, k + 3u));
}
fn x_four_lines(q: x_Quad, k: u32) -> vec4<mul_t> {
  let at = k * params.x_channel;
  let v = vec4<mul_t>(mul_t(x_get(q.r0.at + at)), mul_t(x_get(q.r1.at + at)), mul_t(x_get(q.r2.at + at)),
                      mul_t(x_get(q.r3.at + at)));
  return select(vec4<mul_t>(), v, vec4<bool>(q.r0.inside, q.r1.inside, q.r2.inside, q.r3.inside));
}
)";

  // What neighbouring windows have in common: elements along the last axis, from the first tap of a window
  // on, n0 and n1 elements from it along the other axes.
  static constexpr std::string_view kShared = R"(
struct x_Shared { at: u32, i2: u32, elsewhere: u32, inside: bool, }
fn x_shared(l: x_Line, n0: u32, n1: u32) -> x_Shared {
  let i0 = l.i0 + n0;
  let i1 = l.i1 + n1;
  return x_Shared(l.at + i0 * params.x_axis0 + i1 * params.x_axis1 + l.i2 * params.x_axis2, l.i2,
                  l.at + params.x_inside, i0 < params.x_in0 && i1 < params.x_in1);
}
fn x_nth(s: x_Shared, n: u32) -> mul_t {
  let inside = s.inside && s.i2 + n < params.x_in2;
  return select(mul_t(), mul_t(x_get(select(s.elsewhere, s.at + n * params.x_axis2, inside))), inside);
}
)";

  // Output pixels for each index of the axes before this one.
  int64_t lines_of(size_t axis) const {
    int64_t n = 1;
    for (; axis < axes_.size(); ++axis) n *= axes_[axis].out;
    return n;
  }

  // What of x these lines touch. The first axis along which they differ is cut; those after it are taken
  // whole.
  View image(const Extent& lines) const {
    View box = x_.view;
    int64_t first = lines.begin;
    int64_t last = lines.end - 1;
    for (size_t i = 0; i < axes_.size(); ++i) {
      const WindowAxis& axis = axes_[i];
      if (axis.in == 0) break;
      const int64_t begin = first / lines_of(i + 1);
      const int64_t end = last / lines_of(i + 1);
      const int64_t low = std::clamp<int64_t>(begin * axis.stride - axis.pad, 0, axis.in - 1);
      const int64_t high = std::clamp<int64_t>(
          end * axis.stride - axis.pad + (axis.kernel - 1) * axis.dilation, low, axis.in - 1);
      box = box.slice(box.rank() - 4 + static_cast<int64_t>(i), low, high - low + 1);
      if (begin != end) break;
      first %= lines_of(i + 1);
      last %= lines_of(i + 1);
    }
    return box;
  }
};

}  // namespace rlx::products
