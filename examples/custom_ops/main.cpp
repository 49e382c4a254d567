// Uses the two ops in a graph that is built in C++, and compares with numbers computed by hand.
#include <cstdio>
#include <vector>

#include "ops.h"
#include "rlx/custom_op.h"
#include "rlx/rlx.h"

int main() {
  try {
    register_ops();
    rlx::Graph graph;
    const rlx::Value x = graph.input("x", rlx::DType::f32, {"rows", 4});
    graph.output("levels", rlx::custom("posterize", {x}, {{"levels", 3}}));
    graph.output("shares", rlx::custom("l1_share", {rlx::relu(x)}));

    rlx::Executable exe = rlx::compile(graph);
    const auto outputs = exe.run({{"x", rlx::Tensor::of<float>({2, 4}, {0.1f, 0.3f, 0.9f, -1, 1, 1, 2, 0})}});
    const std::vector<float> levels = outputs.at("levels").to_vector<float>();
    const std::vector<float> shares = outputs.at("shares").to_vector<float>();
    for (size_t i = 0; i < levels.size(); ++i) std::printf("%g %g\n", levels[i], shares[i]);
    return levels == std::vector<float>{0, 0.5f, 1, 0, 1, 1, 1, 0} && shares[4] == 0.25f ? 0 : 1;
  } catch (const rlx::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
