// Several threads answer requests of different sizes with one executable.
#include <atomic>
#include <cstdio>
#include <thread>

#include "rlx/rlx.h"

int main() {
  try {
    rlx::Graph graph;
    const auto x = graph.input("x", rlx::DType::f32, {"batch", 64});
    const auto w = graph.param("w", rlx::DType::f32, {64, 10});
    graph.output("probs", rlx::softmax(rlx::matmul(x, w)));
    rlx::Executable exe = rlx::compile(graph);
    exe.set_param("w", rlx::Tensor::zeros(rlx::DType::f32, {64, 10}));

    std::atomic<int> answered = 0;
    std::atomic<int> failed = 0;
    const auto serve = [&](int worker) {
      for (int request = 0; request < 20; ++request) {
        const int64_t batch = 1 + (worker + request) % 3;
        try {
          const auto outputs = exe.run({{"x", rlx::Tensor::full(rlx::DType::f32, {batch, 64}, 0.5)}});
          const bool right = outputs.at("probs").shape()[0] == batch && outputs.at("probs").real(0) > 0.09;
          ++(right ? answered : failed);
        } catch (const rlx::Error& error) {  // of this request; the executable stays usable
          std::fprintf(stderr, "%s\n", error.what());
          ++failed;
        }
      }
    };
    {
      std::vector<std::jthread> workers;
      for (int i = 0; i < 4; ++i) workers.emplace_back(serve, i);
    }
    std::printf("%d requests answered, %d failed; plans: %lld\n", answered.load(), failed.load(),
                static_cast<long long>(exe.plan_count()));
    return failed;
  } catch (const rlx::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
