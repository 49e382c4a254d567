// The short convolution along the steps that state space layers begin with.
#include <cmath>

#include "ir/reference.h"
#include "kernels/binder.h"
#include "kernels/causal_conv.wgsl.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/outputs.h"
#include "ops/state_space/chunked_scan.h"
#include "rlx/ops/state_space.h"

namespace rlx {
namespace {

struct CausalConv final : OpOf<CausalConv> {
  static constexpr auto kName = "causal_conv";
  enum Input : int64_t { kX, kW, kBias, kInitial };
  static constexpr int64_t kWidest = 32;  // an invocation keeps the taps in registers
  bool silu = false;

  void visit_attributes(AttributeVisitor& v) override { v("silu", silu, false); }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    const auto width = static_cast<double>(inputs[kW].shape[1].value());
    return {.ulps = silu ? 8.0 : 2.0, .terms = width, .scale = 4 * std::sqrt(width)};
  }
};

std::vector<TensorType> CausalConv::infer(const InferArgs& in) const {
  in.expect_count(2, 4);
  const Shape& x = in.shape(kX);
  const Shape& w = in.shape(kW);
  if (x.rank() != 3) fail("causal_conv: x is {}; it must be [batch, steps, channels]", x.text());
  if (w.rank() != 2 || !(w[0] == x[2]) || !w[1].is_static())
    fail("causal_conv: w is {}; it must be [{}, width]", w.text(), x[2].text());
  const int64_t width = w[1].value();
  if (width < 1 || width > kWidest)
    fail("causal_conv: w {} has a width of {}; it must be 1 to {}", w.text(), width, kWidest);
  in.expect_float(kX);
  in.expect_float(kW);
  if (in.has(kBias)) expect_input_shape(in, kBias, "the bias", {x[2]});
  const Shape state{x[0], width - 1, x[2]};
  if (in.has(kInitial)) {
    expect_input_shape(in, kInitial, "the initial state", state);
    in.expect_same_dtype(kX, kInitial);
  }
  return {in[kX], {in.dtype(kX), state}};
}

void CausalConv::reference(RefContext& r) const {
  const RefTensor& x = r.in(kX);
  const RefTensor& w = r.in(kW);
  const int64_t steps = x.dims[1], channels = x.dims[2], width = w.dims[1];
  const auto real = [](const RefTensor& t, int64_t i) { return t.real[static_cast<size_t>(i)]; };
  for (int64_t row = 0; row < x.dims[0]; ++row) {
    for (int64_t c = 0; c < channels; ++c) {
      const auto value = [&](int64_t t) {  // steps before x are negative
        if (t >= 0) return real(x, (row * steps + t) * channels + c);
        return r.has(kInitial) ? real(r.in(kInitial), (row * (width - 1) + t + width - 1) * channels + c)
                               : 0.0;
      };
      for (int64_t t = 0; t < steps; ++t) {
        double sum = r.has(kBias) ? real(r.in(kBias), c) : 0;
        for (int64_t k = 0; k < width; ++k) sum += real(w, c * width + k) * value(t - width + 1 + k);
        r.out().real[static_cast<size_t>((row * steps + t) * channels + c)] =
            silu ? sum / (1 + std::exp(-sum)) : sum;
      }
      for (int64_t k = 0; k + 1 < width; ++k)
        r.out(1).real[static_cast<size_t>((row * (width - 1) + k) * channels + c)] =
            value(steps + k + 1 - width);
    }
  }
}

// Some rows of the batch, steps and channels. The state is written with the last steps.
struct Problem {
  bool silu;
  Operand x, y;            // [batch, steps, channels]
  Operand initial, state;  // [batch, width - 1, channels]
  Operand w;               // [channels, width]
  Operand bias;            // [channels]
};

Dispatch make_dispatch(const Lowering& l, const Problem& p) {
  using Kernel = kernels::causal_conv;
  const Dims& dims = p.x.view.dims;
  const int64_t strips = std::max<int64_t>(ceil_div(dims[1], int64_t{Kernel::STRIP}), 1);
  const int64_t invocations = dims[0] * strips * dims[2];
  return l.make<Kernel>(
      {.x = p.x, .w = p.w, .bias = p.bias, .initial = p.initial, .y = p.y, .state = p.state},
      {.invocations = to_u32(invocations),
       .steps = to_u32(dims[1]),
       .strips = to_u32(strips),
       .channels = to_u32(dims[2]),
       .x_strides = strides_of(p.x, {0, 1, 2, -1}),
       .initial_strides = strides_of(p.initial, {0, 1, 2, -1}),
       .y_strides = strides_of(p.y, {0, 1, 2, -1}),
       .state_strides = strides_of(p.state, {0, 1, 2, -1}),
       .w_strides = strides_of(p.w, {0, 1, -1, -1}),
       .bias_stride = strides_of(p.bias, {0, -1, -1, -1})[0]},
      ceil_div(invocations, int64_t{Kernel::GROUP}), {.WIDTH = to_u32(p.w.view.dims[1]), .SILU = p.silu});
}

Operand cut(const Operand& o, int64_t axis, int64_t begin, int64_t length) {
  return o.present() ? o.with_view(o.view.slice(axis, begin, length)) : o;
}

// Halves the problem until it can be bound.
void emit_parts(Lowering& l, const Problem& p) {
  const Dispatch d = make_dispatch(l, p);
  const Dims& dims = p.x.view.dims;
  const int64_t before = p.w.view.dims[1] - 1;
  const int64_t axis = dims[0] > 1 ? 0 : dims[1] > 2 * before && dims[1] > 1 ? 1 : 2;
  const int64_t length = dims[static_cast<size_t>(axis)];
  if (fits(d, l.caps()) || length < 2) return l.emit(d);
  const auto part = [&](int64_t begin, int64_t count) {
    Problem q = p;
    q.x = cut(p.x, axis, begin, count);
    q.y = cut(p.y, axis, begin, count);
    if (axis != 1) {
      q.initial = cut(p.initial, axis, begin, count);
      q.state = cut(p.state, axis, begin, count);
    } else if (begin > 0) {
      q.initial = before > 0 ? cut(p.x, 1, begin - before, before) : Operand{};
    } else {
      q.state = {};
    }
    if (axis == 2) {
      q.w = cut(p.w, 0, begin, count);
      q.bias = cut(p.bias, 0, begin, count);
    }
    return q;
  };
  const int64_t half = length / 2;
  emit_parts(l, part(0, half));
  emit_parts(l, part(half, length - half));
}

void CausalConv::lower(Lowering& l) const {
  // A state of no steps has no memory that a kernel could be given.
  const auto unless_empty = [](const Operand& o) {
    return o.present() && o.view.elements() > 0 ? o : Operand{};
  };
  const Problem p{.silu = silu,
                  .x = l.in(kX),
                  .y = l.out(0),
                  .initial = unless_empty(l.optional_in(kInitial)),
                  .state = unless_empty(l.out(1)),
                  .w = l.in(kW),
                  .bias = l.optional_in(kBias)};
  if (p.y.view.elements() == 0 && !p.state.present()) return;
  emit_parts(l, p);
}

}  // namespace

Scanned causal_conv(Value x, Value w, const CausalConvOptions& o) {
  auto op = std::make_shared<CausalConv>();
  op->silu = o.silu;
  return named_outputs<Scanned>(add_node(op, {x, w, o.bias, o.initial_state}));
}

namespace ops {
void register_causal_conv(OpTable& table) {
  table.add<CausalConv>(
      {.formula =
           "y[t] = bias + sum over i of w[:, i] x[t - width + 1 + i], perhaps its silu; the state is the "
           "last width - 1 steps",
       .operands = "x: [batch, steps, channels]\n"
                   "w (float): [channels, width], with a width of 1 to 32\n"
                   "bias? (float): [channels], added to each step\n"
                   "initial_state?: [batch, width - 1, channels], the steps before x; zeros if "
                   "left out",
       .attributes = "silu: the result is passed through silu",
       .outputs = "y: as x\n"
                  "state: [batch, width - 1, channels], the last steps, for the next call",
       .types = "f32 f16 bf16",
       .variants = {"causal_conv"},
       .samples = {"causal_conv(T[2,19,17], T[17,4], T[17], T[2,3,17]) {silu=true}",
                   "causal_conv(T[3,1,65], T[65,4], T[65], T[3,3,65]) {silu=true}",
                   "causal_conv(T[1,2,5], T[5,8])", "causal_conv(T[1,257,3], T[3,2])",
                   "causal_conv(T[2,3,5], T[5,1], T[5])", "causal_conv(T[1,0,5], T[5,4], none, T[1,3,5])",
                   "causal_conv(T[0,3,5], T[5,4])", "causal_conv(T[2,1500,17], T[17,4], T[17], T[2,3,17])",
                   "causal_conv(T[1,2,20000], T[20000,2], T[20000], T[1,1,20000])"}});
}
}  // namespace ops

}  // namespace rlx
