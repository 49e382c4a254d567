// Runs an ONNX model on zeros, with 1 for every size that it leaves open: example_onnx model.onnx
#include <cstdio>

#include "rlx/onnx.h"
#include "rlx/rlx.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: example_onnx model.onnx\n", stderr);
    return 2;
  }
  try {
    const rlx::onnx::Model model = rlx::onnx::load(argv[1]);
    rlx::CompileOptions options;
    for (const std::string& symbol : model.graph.symbols()) options.symbols[symbol] = 1;
    rlx::Executable exe = rlx::compile(model.graph, rlx::Device::open(), options);
    exe.set_params(model.weights);
    rlx::NamedTensors inputs;
    for (const rlx::TensorInfo& in : exe.inputs())
      inputs[in.name] = rlx::Tensor::zeros(in.type.dtype, in.type.shape.values());
    for (const auto& [name, value] : exe.run(inputs))
      std::printf("%s: %s\n", name.c_str(), value.type_text().c_str());
  } catch (const rlx::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
