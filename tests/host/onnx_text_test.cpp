// What is imported from ONNX's own tests can be written as text and read again.
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>

#include "base/format.h"
#include "import/onnx/model_file.h"
#include "rlx/graph.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;

constexpr auto kNodeTests = "/usr/share/libonnx-testdata/data/node";  // Debian's libonnx-testdata

// Those inputs of a test that are tensors, or sequences of them.
NamedTensors inputs_of(const fs::path& folder, const onnx::GraphProto& graph) {
  NamedTensors out;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const fs::path path = folder / "test_data_set_0" / formatted("input_{}.pb", i);
    if (!fs::exists(path) || graph.inputs[i].optional) continue;
    const auto bytes = std::make_shared<const FileBytes>(path.string());
    if (graph.inputs[i].kind == onnx::ValueInfo::Kind::sequence) {
      int64_t index = 0;
      for (const onnx::TensorProto& proto : onnx::parse_sequence(bytes->bytes(), path.string()))
        out.emplace(onnx::element_name(graph.inputs[i].name, index++),
                    onnx::TensorData(bytes, "").tensor(proto));
      continue;
    }
    const onnx::TensorProto proto = onnx::parse_tensor(bytes->bytes(), path.string());
    if (proto.strings == 0 && onnx::carrier(proto.type))
      out.emplace(graph.inputs[i].name, onnx::TensorData(bytes, "").tensor(proto));
  }
  return out;
}

std::optional<Graph> imported(const fs::path& folder) {
  onnx::ModelFile file = onnx::ModelFile::open((folder / "model.onnx").string());
  const onnx::ImportOptions options{.values = inputs_of(folder, file.model.graph)};
  try {
    onnx::Imports imports = onnx::import_model(file.model, file.data, options);
    if (imports.problems.empty()) return std::move(imports.graph);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::unsupported) << e.what();
  }
  return std::nullopt;
}

TEST(OnnxText, EveryImportedGraphIsReadAgain) {
  ASSERT_TRUE(fs::is_directory(kNodeTests));
  int64_t count = 0;
  for (const auto& entry : fs::directory_iterator(kNodeTests)) {
    SCOPED_TRACE(entry.path().filename().string());
    const std::optional<Graph> graph = imported(entry.path());
    if (!graph) continue;
    ++count;
    const std::string text = to_text(*graph);
    try {
      const Graph again = parse_graph(text);
      verify(again);
      EXPECT_EQ(to_text(again), text);
    } catch (const Error& e) {
      ADD_FAILURE() << e.what() << "\n" << text;
    }
  }
  EXPECT_GT(count, 500);
}

}  // namespace
}  // namespace rlx
