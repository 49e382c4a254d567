// A user's program against the installed package: it has to compile, link and run.
#include <cstdio>
#include <vector>

#include "rlx/rlx.h"

int main() {
  try {
    rlx::Graph graph;
    auto x = graph.input("x", rlx::DType::f32, {"n"});
    graph.output("y", rlx::relu(x * 2.0 - 1.0));
    rlx::Executable exe = rlx::compile(graph);
    const auto outputs = exe.run({{"x", rlx::Tensor::of<float>({3}, {0, 1, 2})}});
    const std::vector<float> y = outputs.at("y").to_vector<float>();
    std::printf("%g %g %g\n", y[0], y[1], y[2]);
    return y == std::vector<float>{0, 1, 3} ? 0 : 1;
  } catch (const rlx::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
