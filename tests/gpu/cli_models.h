// The fixture of the tests that call the program, and graphs and models that they run.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rlx/shape.h"
#include "rlx/tensor.h"
#include "tests/gpu/cli_harness.h"
#include "tests/support/onnx_model.h"

namespace rlx::testing {

class Cli : public CliTest {};

inline constexpr const char* kSmall = R"(graph small {
  %x = input : f32[batch, 6]
  %w = param : f32[6, 4]
  %m = matmul(%x, %w)
  %y = relu(%m)
  output y = %y
}
)";

inline Tensor pattern(std::vector<int64_t> shape, double scale) {
  std::vector<double> values(static_cast<size_t>(Shape(shape).elements().value()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = scale * static_cast<double>(i * 7 % 11) - 2;
  return Tensor::from_doubles(DType::f32, std::move(shape), values);
}

// x[batch, 4] @ w, and that above zero; the names of the outputs make one file name.
inline std::string linear_model() {
  OnnxModel model(17);
  model.graph.input("x", {"batch", 4}, ElementType::float32);
  model.graph.initializer("w", pattern({4, 32}, 0.25));
  model.graph.node("MatMul", {"x", "w"}, {"out/y:0"});
  model.graph.node("Relu", {"out/y:0"}, {"out_y_0"});
  model.graph.output("out/y:0", ElementType::float32);
  model.graph.output("out_y_0", ElementType::float32);
  return model.text();
}

}  // namespace rlx::testing
