// Any bytes are an ONNX file, an error with a sentence, or a graph that holds what all graphs promise. Built
// with the address sanitizer and libFuzzer (tests/CMakeLists.txt); a file that breaks it is run again with
//
//   build/asan/tests/rlx_onnx_fuzz FILE
#include <cstdio>
#include <cstdlib>

#include "ir/op.h"
#include "rlx/onnx.h"

namespace rlx {
namespace {

[[noreturn]] void broken(const char* what, const std::string& why) {
  std::fprintf(stderr, "%s: %s\n", what, why.c_str());
  std::abort();
}

// Nothing that an importer returns may be refused later on for what the file says.
void check_graph(const Graph& graph) {
  const char* stage = "the graph is not valid";
  try {
    verify(graph);
    stage = "its text cannot be read";
    const std::string text = to_text(graph);
    const Graph again = parse_graph(text);
    if (to_text(again) != text) broken("its text reads as another graph", text);
  } catch (const Error& e) {
    broken(stage, std::string(e.what()) + "\n" + to_text(graph));
  }
}

// Sizes may contradict each other, which is an error of the caller's.
void bind_small_sizes(const Graph& graph) {
  SymbolValues sizes;
  for (const std::string& symbol : graph.symbols()) sizes[symbol] = 1 + std::ssize(sizes) % 3;
  try {
    verify(bind_symbols(graph, sizes));
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::internal) broken("binding its symbols", e.what());
  }
}

// Values of inputs, for models that need them to know a shape.
const onnx::LoadOptions& options() {
  static const onnx::LoadOptions given{.values = {{"shape", Tensor::of<int64_t>({2}, {2, 3})},
                                                  {"n", Tensor::scalar<int64_t>(2)},
                                                  {"c", Tensor::scalar(true)}}};
  return given;
}

void run(std::span<const uint8_t> data) {
  const auto bytes = std::as_bytes(data);
  try {
    const onnx::Model model = onnx::parse({bytes.begin(), bytes.end()}, "the file", options());
    check_graph(model.graph);
    bind_small_sizes(model.graph);
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::internal || std::string_view(e.what()).empty())
      broken("an error that is none of the file's", e.what());
  }
}

}  // namespace
}  // namespace rlx

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rlx::run({data, size});
  return 0;
}
