// A two-layer classifier: built in C++, compiled for the GPU, run on a batch of four.
#include <cstdio>

#include "rlx/rlx.h"

int main() {
  try {
    rlx::Graph graph;
    auto x = graph.input("x", rlx::DType::f32, {"batch", 64});
    auto w1 = graph.param("w1", rlx::DType::f32, {64, 128});
    auto b1 = graph.param("b1", rlx::DType::f32, {128});
    auto w2 = graph.param("w2", rlx::DType::f32, {128, 10});
    auto hidden = rlx::gelu(rlx::matmul(x, w1) + b1);
    graph.output("probs", rlx::softmax(rlx::matmul(hidden, w2)));

    const rlx::Device device = rlx::Device::open();  // the best there is
    rlx::Executable exe = rlx::compile(graph, device);
    for (const auto& [name, weight] : rlx::models::random_weights(graph, 1)) exe.set_param(name, weight);

    const auto outputs = exe.run({{"x", rlx::Tensor::full(rlx::DType::f32, {4, 64}, 0.5)}});
    const rlx::Tensor& probs = outputs.at("probs");
    std::printf("%s on %s in %lld dispatches\n", probs.type_text().c_str(), device.info().name.c_str(),
                static_cast<long long>(exe.dispatch_count()));
    for (int i = 0; i < 10; ++i) std::printf("%.4f ", probs.real(i));
    std::printf("\n");
  } catch (const rlx::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
