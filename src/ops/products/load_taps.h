// Loads the windows of a convolution of few channels with long kernels, as of sound: a line is an output
// pixel, a run the taps along the last spatial axis, of one channel and one position along the other axes.
// Runs of channels would be short, and each costs what finds it.
#pragma once

#include "ops/products/load_window.h"

namespace rlx::products {

// Outside of x there are zeros.
class LoadTaps final : public LoadWindow {
 public:
  using LoadWindow::LoadWindow;

  std::string_view name() const override { return "taps"; }
  std::string id() const override { return "taps"; }
  std::string wgsl() const override { return std::string(kLines) + std::string(kRuns); }
  bool offers(Access) const override { return false; }
  bool along_k() const override { return true; }
  const std::array<WindowAxis, 3>* windows() const override { return nullptr; }

  Binding bind(Access access, const Lines& lines) const override {
    Binding b = LoadWindow::bind(access, lines);
    b.words.push_back(to_u32(x_.view.dims.back()));
    return b;
  }

 private:
  static constexpr std::string_view kRuns = R"(//@ param x_channels: u32

// Where the position 0 along the last axis would be, and the position of the first tap.
struct x_Run { at: u32, i2: u32, elsewhere: u32, inside: bool, }
fn x_run(l: x_Line, run: u32) -> x_Run {
  let kernel1 = select(x_KERNEL1, params.x_kernel1, x_KERNEL1 == 0u);
  let rest = run / params.x_channels;
  let channel = run - rest * params.x_channels;
  let t0 = rest / kernel1;
  let i0 = l.i0 + t0 * params.x_dilation0;
  let i1 = l.i1 + (rest - t0 * kernel1) * params.x_dilation1;
  let at = l.at + i0 * params.x_axis0 + i1 * params.x_axis1 + channel * params.x_channel;
  return x_Run(at, l.i2, l.at + params.x_inside, i0 < params.x_in0 && i1 < params.x_in1);
}
fn x_ahead(r: x_Run, n: u32) -> x_Run {
  return x_Run(r.at, r.i2 + n * params.x_dilation2, r.elsewhere, r.inside);
}
fn x_one(r: x_Run, k: u32) -> mul_t {
  let i2 = r.i2 + k * params.x_dilation2;
  let inside = r.inside && i2 < params.x_in2;
  return select(mul_t(), mul_t(x_get(select(r.elsewhere, r.at + i2 * params.x_axis2, inside))), inside);
}
)";
};

}  // namespace rlx::products
