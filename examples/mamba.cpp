// A Mamba block that reads a sequence token by token: what it remembers, the last inputs of a short
// convolution and the state of the scan, stays on the device, and each step costs one run. The same tokens
// all at once yield the same results.
#include <cmath>
#include <cstdio>

#include "rlx/rlx.h"

namespace {

constexpr int64_t kWidth = 32, kInner = 64, kStates = 16, kRank = 4, kTaps = 4;

// What the block keeps from run to run. Without names it begins with nothing and forgets everything.
struct Memory {
  rlx::Value conv, scan;
};

rlx::Value mamba_block(rlx::Graph& g, rlx::Value x, const Memory& memory) {
  const auto weight = [&](const char* name, rlx::Shape shape) {
    return g.param(name, rlx::DType::f32, shape);
  };
  const auto in = rlx::matmul(x, weight("in_proj", {kWidth, 2 * kInner}));
  const auto z = rlx::slice(in, -1, kInner, kInner);
  const auto conv =
      rlx::causal_conv(rlx::slice(in, -1, 0, kInner), weight("taps", {kInner, kTaps}),
                       {.bias = weight("conv_bias", {kInner}), .silu = true, .initial_state = memory.conv});

  const auto projected = rlx::matmul(conv.y, weight("x_proj", {kInner, kRank + 2 * kStates}));
  const auto delta = rlx::matmul(rlx::slice(projected, -1, 0, kRank), weight("dt_proj", {kRank, kInner}));
  const auto b = rlx::slice(projected, -1, kRank, kStates);
  const auto c = rlx::slice(projected, -1, kRank + kStates, kStates);
  const auto a = -rlx::exp(weight("a_log", {kInner, kStates}));
  const auto scan = rlx::selective_scan(conv.y, delta, a, b, c,
                                        {.d = weight("d", {kInner}),
                                         .z = z,
                                         .delta_bias = weight("dt_bias", {kInner}),
                                         .delta_softplus = true,
                                         .initial_state = memory.scan});
  if (memory.conv) {
    rlx::write_state(memory.conv, conv.state, 0, 0);
    rlx::write_state(memory.scan, scan.state, 0, 0);
  }
  return rlx::matmul(scan.y, weight("out_proj", {kInner, kWidth}));
}

rlx::Graph one_token() {
  rlx::Graph g;
  const auto x = g.input("x", rlx::DType::f32, {1, 1, kWidth});
  g.output("y", mamba_block(g, x,
                            {.conv = g.state("conv", rlx::DType::f32, {1, kTaps - 1, kInner}),
                             .scan = g.state("scan", rlx::DType::f32, {1, kInner, kStates})}));
  return g;
}

rlx::Graph whole_sequence() {
  rlx::Graph g;
  g.output("y", mamba_block(g, g.input("x", rlx::DType::f32, {1, "tokens", kWidth}), {}));
  return g;
}

}  // namespace

int main() {
  try {
    const rlx::Device device = rlx::Device::open();
    rlx::Executable step = rlx::compile(one_token(), device);
    rlx::Executable whole = rlx::compile(whole_sequence(), device);
    for (const auto& [name, weight] : rlx::models::random_weights(one_token(), 1, 0.3)) {
      step.set_param(name, weight);
      whole.set_param(name, weight);
    }

    constexpr int64_t kTokens = 40;
    std::vector<float> tokens(kTokens * kWidth);
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = std::sin(static_cast<float>(i));
    const auto wanted = whole.run({{"x", rlx::Tensor::of({1, kTokens, kWidth}, tokens)}}).at("y");

    double largest = 0;
    double error = 0;
    std::vector<float> y(kWidth);
    for (int64_t t = 0; t < kTokens; ++t) {
      const std::span token = std::span(tokens).subspan(static_cast<size_t>(t * kWidth), kWidth);
      step.run({rlx::input_from("x", token)}, {rlx::output_to("y", y)});
      for (int64_t i = 0; i < kWidth; ++i) {
        const double want = wanted.real(t * kWidth + i);
        largest = std::max(largest, std::fabs(want));
        error = std::max(error, std::fabs(y[static_cast<size_t>(i)] - want));
      }
    }
    std::printf(
        "%lld tokens one by one and at once differ by at most %.2g on values up to %.2g; dispatches: %lld\n",
        static_cast<long long>(kTokens), error, largest, static_cast<long long>(step.dispatch_count()));
    return error < 1e-5 * largest ? 0 : 1;
  } catch (const rlx::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
