// One attention layer that reads a sequence token by token: keys and values stay on the device in a cache
// that grows, and each step costs one run. The same tokens all at once, with a causal mask, yield the
// same results.
#include <cmath>
#include <cstdio>

#include "rlx/rlx.h"

namespace {

constexpr int64_t kWidth = 32;
constexpr int64_t kHeads = 4;
constexpr int64_t kCapacity = 64;

struct Projections {
  rlx::Value q, k, v;
};

Projections project(rlx::Graph& g, rlx::Value x) {
  const auto weight = [&](const char* name) { return g.param(name, rlx::DType::f32, {kWidth, kWidth}); };
  return {rlx::matmul(x, weight("q")), rlx::matmul(x, weight("k")), rlx::matmul(x, weight("v"))};
}

rlx::AttentionOptions heads(rlx::MaskKind mask) {
  return {.heads = kHeads, .layout = rlx::AttentionLayout::bsd, .mask = mask};
}

// x is one token; `length` counts the tokens including it.
rlx::Graph one_step() {
  rlx::Graph g;
  g.set_capacity("length", kCapacity);
  const rlx::Dim length = "length";
  const auto x = g.input("x", rlx::DType::f32, {1, 1, kWidth});
  const auto p = project(g, x);
  const auto cache = [&](const char* name, rlx::Value update) {
    const auto state = g.state(name, rlx::DType::f32, {1, kCapacity, kWidth});
    const auto written = rlx::write_state(state, update, 1, length - 1);
    return rlx::slice(written, 1, 0, length);
  };
  g.output("y", rlx::attention(p.q, cache("keys", p.k), cache("values", p.v), heads(rlx::MaskKind::none)));
  return g;
}

rlx::Graph whole_sequence() {
  rlx::Graph g;
  const auto x = g.input("x", rlx::DType::f32, {1, "tokens", kWidth});
  const auto p = project(g, x);
  g.output("y", rlx::attention(p.q, p.k, p.v, heads(rlx::MaskKind::causal)));
  return g;
}

}  // namespace

int main() {
  try {
    const rlx::Device device = rlx::Device::open();
    rlx::Executable step = rlx::compile(one_step(), device);
    rlx::Executable whole = rlx::compile(whole_sequence(), device);
    for (const auto& [name, weight] : rlx::models::random_weights(one_step(), 1, 0.2)) {
      step.set_param(name, weight);
      whole.set_param(name, weight);
    }

    constexpr int64_t kTokens = 20;
    std::vector<float> tokens(kTokens * kWidth);
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = std::sin(static_cast<float>(i));
    const auto wanted = whole.run({{"x", rlx::Tensor::of({1, kTokens, kWidth}, tokens)}}).at("y");

    double largest = 0;
    double error = 0;
    std::vector<float> y(kWidth);
    for (int64_t t = 0; t < kTokens; ++t) {
      const std::span token = std::span(tokens).subspan(static_cast<size_t>(t * kWidth), kWidth);
      step.run({rlx::input_from("x", token)}, {rlx::output_to("y", y)}, {{"length", t + 1}});
      for (int64_t i = 0; i < kWidth; ++i) {
        const double want = wanted.real(t * kWidth + i);
        largest = std::max(largest, std::fabs(want));
        error = std::max(error, std::fabs(y[static_cast<size_t>(i)] - want));
      }
    }
    std::printf(
        "%lld tokens one by one and at once differ by at most %.2g on values up to %.2g; plans: %lld\n",
        static_cast<long long>(kTokens), error, largest, static_cast<long long>(step.plan_count()));
    return error < 1e-5 ? 0 : 1;
  } catch (const rlx::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
